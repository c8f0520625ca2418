"""Probes the GPUs of this machine, one killable child a device, one after the other. The edge around `verdict`.

Decides nothing about which GPU may be probed: the caller knows who owns it.
"""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from chassis.contracts import ConditionReason
from exporters.cuda_probe.binding import LIBRARY
from exporters.cuda_probe.devices import DEFINITE, Target, cuda_targets, no_probe, plan_probes
from exporters.cuda_probe.steps import Outcome, Step
from exporters.cuda_probe.verdict import Run, Surroundings, judge
from exporters.killable_child import ChildEnd, ChildPool, EndKind
from exporters.nvml_reader.reading import read_driver
from exporters.readings import DriverReading, DriverStatus, GpuReading, ProbeEnd, ProbeReport

_CHILD = (sys.executable, "-m", "exporters.cuda_probe.child")
_OUTCOME = TypeAdapter(Outcome)
_STEPS = frozenset(Step)
_KEPT = "CUDA_MPS_"
"""Where a node shares GPUs through MPS, the probe must go through it like everybody."""


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """How to probe. `deadline` is for each child; `memory_mib` is what the GPU has to lend."""

    memory_mib: int = 64
    deadline: timedelta = timedelta(seconds=30)
    bandwidth: bool = False
    library: str = LIBRARY
    root: Path = Path("/")


class GpuProbe:
    """Runs probes in children of `pool`, which see `environment` without what would bend CUDA."""

    def __init__(
        self, pool: ChildPool, environment: Mapping[str, str], options: ProbeOptions
    ) -> None:
        self._pool = pool
        self._environment = clean_environment(environment)
        self._options = options

    def read(self) -> DriverReading:
        """What NVML tells now."""
        return read_driver(
            self._pool,
            self._options.deadline,
            root=self._options.root,
            environment=self._environment,
        )

    def run(self, wanted: Collection[str] = ()) -> tuple[ProbeReport, ...]:
        """Probe all devices of this machine, or those with the UUIDs `wanted`; at least one report."""
        driver = self.read()
        plan = plan_probes(driver, wanted)
        targets, reports = plan.targets, plan.reports
        if driver.status is not DriverStatus.READ and not targets:
            targets, reports = self._listed_by_cuda(driver)
        found = (*reports, *(self.probe(each, driver) for each in targets))
        return found or (no_probe("", "", *_nothing(driver)),)

    def probe(self, target: Target, driver: DriverReading) -> ProbeReport:
        """Probe one device. `driver` is what NVML told before; after a problem it is asked again who uses the GPU."""
        shown = {
            **self._environment,
            "CUDA_VISIBLE_DEVICES": target.visible,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }
        run = self._run_child(f"gpu-probe {target.uuid}", shown)
        report = judge(target, run, Surroundings(driver, target.gpu))
        if report.end is not ProbeEnd.PROBLEM or run.kind is EndKind.STUCK:
            return report  # what others do can only explain a problem away
        return judge(target, run, Surroundings(driver, target.gpu, self._again(target)))

    def _again(self, target: Target) -> GpuReading | None:
        """The target's GPU as NVML tells now."""
        if target.gpu is None:
            return None
        uuid = target.gpu.uuid
        return next((gpu for gpu in self.read().gpus if gpu.uuid == uuid), None)

    def _listed_by_cuda(
        self, driver: DriverReading
    ) -> tuple[tuple[Target, ...], tuple[ProbeReport, ...]]:
        """Where NVML tells of no device: what CUDA lists, and what there is to report besides."""
        if driver.status is DriverStatus.STUCK:
            call = driver.error.call if driver.error else ""
            return (), (
                _lost(f"NVML hangs in {call} and cannot be killed", ConditionReason.CUDA_TIMEOUT),
            )
        reports: tuple[ProbeReport, ...] = ()
        if driver.error is not None and driver.error.code in DEFINITE:
            message = f"NVML error {driver.error.code} in {driver.error.call}"
            reports = (_lost(message, ConditionReason.CUDA_INIT_FAILED),)
        end = self._start("gpu-probe list", self._environment, "--list")
        records = parse_records(end.stdout)
        targets = cuda_targets(records)
        if not targets and not reports:
            run = self._run_of(end, "gpu-probe list", records)
            if run.outcome is None or run.outcome.step is not Step.DONE:
                reports = (judge(Target("", ""), run, Surroundings(driver)),)
        return targets, reports

    def _run_child(self, key: str, environment: Mapping[str, str]) -> Run:
        options = self._options
        more = ["--bandwidth", "--root", str(options.root)] if options.bandwidth else []
        end = self._start(key, environment, "--memory-mib", str(options.memory_mib), *more)
        return self._run_of(end, key, parse_records(end.stdout))

    def _start(self, key: str, environment: Mapping[str, str], *arguments: str) -> ChildEnd:
        argv = [*_CHILD, "--library", self._options.library, *arguments]
        return self._pool.run(key, argv, self._options.deadline, environment=environment)

    def _run_of(self, end: ChildEnd, key: str, records: Sequence[dict[str, Any]]) -> Run:
        still_stuck = end.kind is EndKind.BUSY and key in self._pool.stuck_keys
        steps = [each["step"] for each in records if each.get("step") in _STEPS]
        outcomes = [each["outcome"] for each in records if "outcome" in each]
        return Run(
            kind=EndKind.STUCK if still_stuck else end.kind,
            exit_code=end.exit_code,
            step=Step(steps[-1]) if steps else Step.START,
            outcome=_OUTCOME.validate_python(outcomes[-1]) if outcomes else None,
            seconds=end.seconds,
        )


def parse_records(stdout: bytes) -> tuple[dict[str, Any], ...]:
    """The JSON objects of a child's lines; what is no such line (a driver's own words, half a line) is left out."""
    records = []
    for line in stdout.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            records.append(record)
    return tuple(records)


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without CUDA's own variables: they hide devices, switch off the compiler or slow it all down.

    The cache of compiled kernels is off: nothing is written, and the compiler is part of what is tried.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith("CUDA_") or name.startswith(_KEPT)
    }
    return {**kept, "CUDA_CACHE_DISABLE": "1"}


def _lost(message: str, reason: ConditionReason) -> ProbeReport:
    return no_probe("", "", reason, message, end=ProbeEnd.PROBLEM)


def _nothing(driver: DriverReading) -> tuple[ConditionReason, str]:
    """Why there was nothing to probe."""
    if driver.status is DriverStatus.READ:
        return ConditionReason.NOT_SUPPORTED, "NVML counts no GPU"
    return ConditionReason.NOT_SUPPORTED, "neither NVML nor CUDA lists a GPU"
