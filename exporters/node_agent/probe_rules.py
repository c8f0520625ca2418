"""When a GPU may be probed in place, and what a probe means for the condition. Pure.

A GPU is idle only if the kubelet and NVML both say so. Whatever cannot be told for sure counts as used: a probe that is
left out costs a verdict, one that is not costs a user's job.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from chassis.contracts import ConditionReason, ConditionType
from exporters.pod_resources import DeviceUse, gpus_of_devices
from exporters.readings import DriverReading, GpuReading, ProbeEnd, ProbeReport
from exporters.verdict import NODE, CheckSpec, Damping, Finding, Result

SPEC = CheckSpec("gpu_probe", ConditionType.GPU_RUNTIME_ERROR, Damping(fail=2, ok=1, unknown=3))


def why_busy(
    gpu: GpuReading, reading: DriverReading, use: DeviceUse, idle_bytes: int
) -> str | None:
    """Why the GPU must not be touched now, None if it is idle.

    Args:
        gpu: The GPU as NVML has just told.
        reading: The reading that it is from.
        use: The kubelet's devices.
        idle_bytes: How much memory may be used on an idle GPU: the driver itself takes some.
    """
    return _why_given(gpu, reading, use) or _why_used(gpu, idle_bytes)


def _why_given(gpu: GpuReading, reading: DriverReading, use: DeviceUse) -> str | None:
    if use.claimed:
        return "a pod has a GPU by dynamic allocation, and which one is not told"
    owners = gpus_of_devices(use.allocatable | use.allocated, reading.gpus)
    unknown = sorted(device for device, uuid in owners.items() if uuid is None)
    if unknown:
        return f"the kubelet's device {unknown[0][:100]} is no GPU that NVML tells of"
    if any(owners[device] == gpu.uuid for device in use.allocated):
        return "a pod has it"
    return None


def _why_used(gpu: GpuReading, idle_bytes: int) -> str | None:
    if gpu.processes is None:
        return "NVML does not tell who computes on it"
    if gpu.processes:
        return "a process computes on it"
    if gpu.exclusive_process is not False:
        return "its compute mode lets one process in at most, or is not told"
    if gpu.memory_used_bytes is None:
        return "NVML does not tell how much of its memory is used"
    if gpu.memory_used_bytes > idle_bytes:
        return f"{gpu.memory_used_bytes >> 20} MiB of its memory are used"
    return None


def was_taken(gpu: GpuReading, reading: DriverReading, before: DeviceUse, after: DeviceUse) -> bool:
    """Whether a pod may have got the GPU while the probe ran."""
    if before == after:
        return False
    return _why_given(gpu, reading, after) is not None


def taken(report: ProbeReport) -> ProbeReport:
    """The report of a probe that failed while somebody else may have used the GPU."""
    return replace(
        report,
        end=ProbeEnd.INCONCLUSIVE,
        reason=ConditionReason.GPU_BUSY,
        message=f"a pod got it meanwhile; {report.reason} in {report.step}",
    )


@dataclass(frozen=True, slots=True)
class Probed:
    """A report, and whether it needs no second look; `busy` tells that no probe was started."""

    report: ProbeReport
    definite: bool = False
    busy: bool = False


_RESULTS = {
    ProbeEnd.PASSED: Result.OK,
    ProbeEnd.PROBLEM: Result.PROBLEM,
    ProbeEnd.INCONCLUSIVE: Result.INCONCLUSIVE,
}


def finding_of(probed: Probed) -> Finding:
    """What the probe of one device means."""
    report = probed.report
    text = "; ".join(filter(None, (report.step, report.error_name, report.message)))
    subject = report.uuid or NODE
    return Finding(subject, _RESULTS[report.end], report.reason, text, definite=probed.definite)


def next_run(now: datetime, period: timedelta, node: str) -> datetime:
    """The next time that is this node's: all nodes are spread evenly over the period, and a restart changes nothing."""
    digest = hashlib.blake2b(node.encode(), digest_size=8).digest()
    offset = period * (int.from_bytes(digest) / 2**64)
    epoch = datetime.fromtimestamp(0, now.tzinfo)
    passed = (now - epoch - offset) // period
    return epoch + offset + period * (passed + 1)


def missing_gpus(
    memory: Mapping[str, object] | None, reading: DriverReading
) -> tuple[frozenset[str], frozenset[str]]:
    """GPUs that should be here and are not seen, and those that are known to be lost, by gpu_lost's memory."""
    inventory, lost = (memory or {}).get("inventory"), (memory or {}).get("lost")
    known = frozenset(inventory) if isinstance(inventory, Mapping) else frozenset()
    gone = frozenset(lost) if isinstance(lost, Mapping) else frozenset()
    return known - {gpu.uuid for gpu in reading.gpus} - gone, gone
