"""Readings for the tests of checks: a healthy one by default, changed by keyword."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from exporters.readings import (
    DriverReading,
    DriverStatus,
    GpuReading,
    KernelLogReading,
    KernelMessage,
    PcieLink,
    ProbeEnd,
    ProbeReport,
    ProcessSample,
)
from exporters.verdict import CheckReport, Finding, Result

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BOOT, NEXT_BOOT = "boot-1", "boot-2"
A, B, C = "GPU-aaaa", "GPU-bbbb", "GPU-cccc"
BUSES = {A: "0000:1a:00.0", B: "0000:3b:00.0", C: "0000:5e:00.0"}


def a_gpu(uuid: str = A, **changes: Any) -> GpuReading:
    return replace(GpuReading(list(BUSES).index(uuid), uuid, "NVIDIA L4", BUSES[uuid]), **changes)


def a_driver(*gpus: GpuReading, **changes: Any) -> DriverReading:
    count = len(gpus) + len(changes.get("errors", ()))
    return replace(DriverReading(DriverStatus.READ, count=count, gpus=gpus), **changes)


def messages(*texts: str, first: int = 100) -> tuple[KernelMessage, ...]:
    return tuple(KernelMessage(first + number, NOW, text) for number, text in enumerate(texts))


def a_log(*texts: str, first: int = 100, boot: str = BOOT, **changes: Any) -> KernelLogReading:
    reading = KernelLogReading(boot, messages(*texts, first=first), first + len(texts))
    return replace(reading, **changes)


def an_xid(code: int, bus: str = "0000:3b:00", text: str = "pid=1, name=python") -> str:
    return f"NVRM: Xid (PCI:{bus}): {code}, {text}"


def a_probe(
    uuid: str = A, end: ProbeEnd = ProbeEnd.PASSED, link: PcieLink | None = None
) -> ProbeReport:
    return ProbeReport(uuid, "NVIDIA L4", end, "", "done", None, "", 0.5, link=link)


def a_process(pid: int = 42, **changes: Any) -> ProcessSample:
    return replace(ProcessSample(pid, 1000, "D", "python3", kernel_thread=False), **changes)


def a_report(
    *findings: Finding, check: str = "one", minutes: int = 0, condition: str = "Thing"
) -> CheckReport:
    return CheckReport(check, condition, findings, NOW + minutes * MINUTE)


def ok(subject: str = "a") -> Finding:
    return Finding(subject, Result.OK, "Healthy")


def bad(subject: str = "a", reason: str = "Bad", *, definite: bool = False) -> Finding:
    return Finding(subject, Result.PROBLEM, reason, definite=definite)


def unclear(subject: str = "a", reason: str = "Timeout") -> Finding:
    return Finding(subject, Result.INCONCLUSIVE, reason)


def told(findings: Iterable[Finding]) -> dict[str, tuple[str, str]]:
    """Subject to result and reason."""
    return {each.subject: (str(each.result), str(each.reason)) for each in findings}
