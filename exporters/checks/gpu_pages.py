"""GPUPendingPage: memory of a GPU that waits for a reset to be retired or remapped, or whose remapping failed.

Pure. Reads the pending and failed flags alone; counts of past errors are no fault. A GPU that does not tell (too old,
or MIG instances are active) is left out, and one that told of a fault in this boot stays unhealed while it is silent.
"""

from chassis.contracts import ConditionReason, ConditionType
from exporters.driver_answers import completed, no_verdict, only_reading_failed, told
from exporters.readings import DriverReading, GpuReading
from exporters.verdict import CheckSpec, Damping, Finding, Memory, Result

SPEC = CheckSpec("gpu_pages", ConditionType.GPU_PENDING_PAGE, Damping(fail=2, ok=2))


def check(
    reading: DriverReading, boot_id: str, memory: Memory | None
) -> tuple[tuple[Finding, ...], Memory]:
    """Judge one reading."""
    judged = [finding for gpu in reading.gpus if (finding := _finding(gpu)) is not None]
    return completed(judged, reading, boot_id, memory, "no GPU tells of pending pages")


def _finding(gpu: GpuReading) -> Finding | None:
    values = (gpu.row_remap_failed, gpu.row_remap_pending, gpu.retired_pages_pending)
    reasons = (
        ConditionReason.ROW_REMAP_FAILED,
        ConditionReason.ROW_REMAP_PENDING,
        ConditionReason.PAGE_RETIREMENT_PENDING,
    )
    for value, reason in zip(values, reasons, strict=True):
        if value:
            return Finding(gpu.uuid, Result.PROBLEM, reason)
    error = only_reading_failed(gpu)
    if error is not None:
        return Finding(gpu.uuid, Result.INCONCLUSIVE, no_verdict(error), told(error))
    if all(value is None for value in values):
        return None
    return Finding(gpu.uuid, Result.OK, ConditionReason.HEALTHY)
