"""What NVML's errors mean for a check: a fault of the GPU, or no verdict and why.

Pure. The codes are those of nvmlReturn_t in NVIDIA's nvml.h; only the two that speak of the GPU itself are faults.
"""

from collections.abc import Iterable, Sequence

from chassis.contracts import ConditionReason
from exporters.readings import DriverReading, DriverStatus, GpuReading, NvmlError
from exporters.verdict import NODE, Finding, Memory, Result

GPU_IS_LOST = 15
RESET_REQUIRED = 16
NOT_SUPPORTED = frozenset({3, 13})
"""Not supported by this GPU, or by a driver too old to have the function."""

_FAULTS = {
    GPU_IS_LOST: ConditionReason.GPU_IS_LOST,
    RESET_REQUIRED: ConditionReason.RESET_REQUIRED,
}
_NO_VERDICT = {
    3: ConditionReason.NOT_SUPPORTED,
    4: ConditionReason.NO_PERMISSION,
    9: ConditionReason.DRIVER_NOT_LOADED,
    10: ConditionReason.TIMEOUT,
    12: ConditionReason.NVML_LIBRARY_MISSING,
    13: ConditionReason.NOT_SUPPORTED,
    18: ConditionReason.VERSION_MISMATCH,
}


def fault_of(error: NvmlError | None) -> ConditionReason | None:
    """The fault that an error tells of, None if it is no fault of the GPU."""
    return None if error is None else _FAULTS.get(error.code)


def no_verdict(error: NvmlError | None) -> ConditionReason:
    """Why there is no verdict."""
    return (
        ConditionReason.OTHER
        if error is None
        else _NO_VERDICT.get(error.code, ConditionReason.OTHER)
    )


def worst_fault(errors: Iterable[NvmlError]) -> NvmlError | None:
    """The error that tells of the worst fault, if one does."""
    faults = [error for error in errors if error.code in _FAULTS]
    return min(faults, key=lambda error: error.code, default=None)


def told(error: NvmlError | None) -> str:
    """The error for people."""
    return "" if error is None else f"NVML error {error.code} in {error.call}"


def unread_driver(reading: DriverReading) -> Finding | None:
    """Why the driver told nothing, as a finding about the node; None if it could be read."""
    if reading.status is DriverStatus.READ:
        return None
    reason, message = _why_unread(reading)
    return Finding(NODE, Result.INCONCLUSIVE, reason, message)


def _why_unread(reading: DriverReading) -> tuple[ConditionReason, str]:
    if reading.status is DriverStatus.NOT_INSTALLED:
        return ConditionReason.NOT_SUPPORTED, "no NVIDIA GPU and no driver"
    if reading.status is DriverStatus.TIMED_OUT:
        return ConditionReason.TIMEOUT, "the driver did not answer in time"
    if reading.status is DriverStatus.STUCK:
        return (
            ConditionReason.TIMEOUT,
            "the driver does not answer, and its caller cannot be killed",
        )
    return no_verdict(reading.error), told(reading.error)


def unseen_gpus(reading: DriverReading) -> Finding | None:
    """A finding that some devices could not be asked at all, so that absence means nothing."""
    missing = max((reading.count or 0) - len(reading.gpus), len(reading.errors))
    if reading.status is not DriverStatus.READ or missing <= 0:
        return None
    first = reading.errors[0][1] if reading.errors else None
    reason = ConditionReason.OTHER if fault_of(first) else no_verdict(first)
    return Finding(
        NODE, Result.INCONCLUSIVE, reason, f"{missing} GPUs could not be asked; {told(first)}"
    )


def only_reading_failed(gpu: GpuReading) -> NvmlError | None:
    """An error of this GPU other than lack of support: its missing values mean nothing then."""
    errors = [error for error in gpu.errors if error.code not in NOT_SUPPORTED]
    return errors[0] if errors else None


def completed(
    judged: Sequence[Finding],
    reading: DriverReading,
    boot_id: str,
    memory: Memory | None,
    nothing: str,
) -> tuple[tuple[Finding, ...], Memory]:
    """The findings of a check over GPUs, with what could not be judged, and its memory.

    A GPU that had a problem in this boot and is not among `judged` is inconclusive: it is not healed by falling
    silent. `nothing` says what no GPU tells when none was judged.
    """
    flagged = _flagged(memory, boot_id)
    named = {finding.subject for finding in judged}
    silent = [
        Finding(uuid, Result.INCONCLUSIVE, ConditionReason.OTHER, "it cannot be asked now")
        for uuid in sorted(flagged - named)
    ]
    whole = unread_driver(reading) or unseen_gpus(reading)
    if whole is None and not judged:
        whole = Finding(NODE, Result.INCONCLUSIVE, ConditionReason.NOT_SUPPORTED, nothing)
    healed = {finding.subject for finding in judged if finding.result is Result.OK}
    ill = {finding.subject for finding in judged if finding.result is Result.PROBLEM}
    after = {"boot_id": boot_id, "flagged": sorted((flagged | ill) - healed)}
    return (*judged, *silent, *([whole] if whole else [])), after


def _flagged(memory: Memory | None, boot_id: str) -> frozenset[str]:
    if memory is None or memory.get("boot_id") != boot_id:
        return frozenset()
    return frozenset(memory.get("flagged", ()))
