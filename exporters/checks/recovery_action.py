"""GPUIsLost, as the driver itself sees it: the recovery action that it asks for (NVML's field 230).

Pure. A GPU for which the driver wants a reset or a reboot is one not to be used, so it counts as lost with the reason
ResetRequired, however healthy all else looks. Actions that heal without a reset (draining peer traffic, IMEX) are no
loss and no health either. Action "none" clears: the driver says so after the reset.
"""

from chassis.contracts import ConditionReason, ConditionType
from exporters.driver_answers import completed
from exporters.readings import DriverReading, GpuReading
from exporters.verdict import CheckSpec, Damping, Finding, Memory, Result

SPEC = CheckSpec(
    "recovery_action", ConditionType.GPU_IS_LOST, Damping(fail=1, ok=2, required=False)
)

_NAMES = {
    1: "GPU reset",
    2: "node reboot",
    3: "drain peer-to-peer traffic",
    4: "drain and reset",
    5: "recover IMEX",
    6: "bus reset",
    7: "system reboot",
}
_RESETS = frozenset({1, 2, 4, 6, 7})


def check(
    reading: DriverReading, boot_id: str, memory: Memory | None
) -> tuple[tuple[Finding, ...], Memory]:
    """Judge one reading. A GPU that asked for a reset and cannot be asked now has not been healed by that."""
    judged = [_finding(gpu) for gpu in reading.gpus if gpu.recovery_action is not None]
    return completed(judged, reading, boot_id, memory, "no GPU tells its recovery action")


def _finding(gpu: GpuReading) -> Finding:
    action = gpu.recovery_action or 0
    if action == 0:
        return Finding(gpu.uuid, Result.OK, ConditionReason.HEALTHY)
    text = f"the driver asks for: {_NAMES.get(action, f'action {action}')}"
    if action in _RESETS:
        return Finding(
            gpu.uuid, Result.PROBLEM, ConditionReason.RESET_REQUIRED, text, definite=True
        )
    return Finding(gpu.uuid, Result.INCONCLUSIVE, ConditionReason.OTHER, text)
