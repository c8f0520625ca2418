"""What a node's agent would say of the faults: its conditions, and its answers to probe requests. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from chassis.contracts import (
    ConditionReason,
    ConditionType,
    ProbeResult,
    ProbeVerdict,
    xid_reason,
)
from sandbox.simulated_nodes.faults import Fault, FaultKind
from sandbox.simulated_nodes.hardware import Gpu
from sandbox.simulated_nodes.node_objects import condition

_TYPES: Mapping[FaultKind, ConditionType] = MappingProxyType(
    {
        FaultKind.GPU_RUNTIME_ERROR: ConditionType.GPU_RUNTIME_ERROR,
        FaultKind.GPU_LOST: ConditionType.GPU_IS_LOST,
        FaultKind.PENDING_PAGE: ConditionType.GPU_PENDING_PAGE,
        FaultKind.PCIE_WIDTH_REDUCED: ConditionType.PCIE_LINK_DEGRADED,
        FaultKind.XID: ConditionType.GPU_XID_ERROR,
        FaultKind.NFS_HUNG: ConditionType.NFS_MOUNT_STUCK,
        FaultKind.D_STATE: ConditionType.D_STATE_PROCESS,
    }
)
_REASONS: Mapping[FaultKind, ConditionReason] = MappingProxyType(
    {
        FaultKind.GPU_RUNTIME_ERROR: ConditionReason.CUDA_MEMORY_FAILED,
        FaultKind.GPU_LOST: ConditionReason.GPU_IS_LOST,
        FaultKind.PCIE_WIDTH_REDUCED: ConditionReason.LINK_WIDTH_REDUCED,
        FaultKind.NFS_HUNG: ConditionReason.MOUNT_TIMEOUT,
        FaultKind.D_STATE: ConditionReason.PROCESS_STUCK,
    }
)
_FAILS_PROBE = frozenset({FaultKind.GPU_RUNTIME_ERROR, FaultKind.GPU_LOST, FaultKind.PROBE_FAILS})


def agent_conditions(
    gpus: Sequence[Gpu],
    faults: Sequence[Fault],
    now: datetime,
    before: Mapping[str, dict[str, str]],
) -> list[dict[str, str]]:
    """A condition of each type, as Kubernetes writes them; `before` holds the last ones by type.

    A node without GPUs has only the types that concern no GPU.
    """
    by_type = {_TYPES[fault.kind]: fault for fault in reversed(faults) if fault.kind in _TYPES}
    without_gpu = {ConditionType.NFS_MOUNT_STUCK, ConditionType.D_STATE_PROCESS}
    types = [each for each in ConditionType if gpus or each in without_gpu]
    return [
        condition(each, *_told(gpus, by_type.get(each)), now, before.get(each)) for each in types
    ]


def _told(gpus: Sequence[Gpu], fault: Fault | None) -> tuple[str, str, str]:
    if fault is None:
        return "False", ConditionReason.HEALTHY.value, "simulated: nothing wrong"
    return "True", _reason(gpus, fault), f"simulated: {_subject(gpus, fault)}"


def _reason(gpus: Sequence[Gpu], fault: Fault) -> str:
    if fault.kind is FaultKind.XID:
        return xid_reason(fault.xid)
    if fault.kind is FaultKind.PENDING_PAGE:
        by_row = gpus[fault.gpu].model.remaps_rows
        return (
            ConditionReason.ROW_REMAP_PENDING if by_row else ConditionReason.PAGE_RETIREMENT_PENDING
        ).value
    return _REASONS[fault.kind].value


def _subject(gpus: Sequence[Gpu], fault: Fault) -> str:
    if fault.kind is FaultKind.NFS_HUNG:
        return f"mount {fault.mount_point}"
    if fault.kind is FaultKind.D_STATE:
        return f"process {fault.command}"
    return f"GPU {fault.gpu} ({gpus[fault.gpu].uuid})"


def gpu_verdict(faults: Sequence[Fault]) -> str:
    """What a probe of a GPU with these faults finds: `pass` or `problem`."""
    return "problem" if any(fault.kind in _FAILS_PROBE for fault in faults) else "pass"


def probe_result(operation: str, boot_id: str, verdicts: Mapping[str, str], now: datetime) -> str:
    """The value of the probe-result annotation, as `ProbeResult` of chassis.contracts has it."""
    gpus = {uuid: ProbeVerdict(verdict) for uuid, verdict in verdicts.items()}
    return ProbeResult.of(operation, boot_id, now, gpus, complete=True).dump()
