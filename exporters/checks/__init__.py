"""The node checks, one pure file each, and the conditions that they make up. Checks do not know each other."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from chassis.contracts import ConditionReason, ConditionType
from exporters.checks import (
    d_state,
    gpu_lost,
    gpu_pages,
    nfs,
    pcie_speed,
    pcie_width,
    recovery_action,
    xid,
)
from exporters.verdict import CheckSpec, ConditionPolicy

_R = ConditionReason

SPECS: tuple[CheckSpec, ...] = (
    gpu_lost.SPEC,
    recovery_action.SPEC,
    gpu_pages.SPEC,
    pcie_width.SPEC,
    pcie_speed.SPEC,
    xid.SPEC,
    d_state.SPEC,
    nfs.SPEC,
)

SEVERITY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        ConditionType.GPU_IS_LOST: (
            _R.GPU_FALLEN_OFF_BUS,
            _R.GPU_IS_LOST,
            _R.RESET_REQUIRED,
            _R.GPU_COUNT_MISMATCH,
        ),
        ConditionType.GPU_PENDING_PAGE: (
            _R.ROW_REMAP_FAILED,
            _R.ROW_REMAP_PENDING,
            _R.PAGE_RETIREMENT_PENDING,
        ),
        ConditionType.PCIE_LINK_DEGRADED: (_R.LINK_WIDTH_REDUCED, _R.LINK_SPEED_REDUCED),
        ConditionType.D_STATE_PROCESS: (_R.GPU_PROCESS_STUCK, _R.PROCESS_STUCK),
        ConditionType.NFS_MOUNT_STUCK: (
            _R.SERVER_NOT_RESPONDING,
            _R.MOUNT_TIMEOUT,
            _R.STALE_HANDLE,
        ),
        ConditionType.GPU_XID_ERROR: ("Xid79", "Xid95", "Xid48", "Xid64", "Xid140"),
        ConditionType.GPU_RUNTIME_ERROR: (
            _R.CUDA_RESULT_MISMATCH,
            _R.CUDA_TIMEOUT,
            _R.CUDA_INIT_FAILED,
            _R.CUDA_CONTEXT_FAILED,
            _R.CUDA_MEMORY_FAILED,
            _R.CUDA_LAUNCH_FAILED,
            _R.SYSTEM_NOT_READY,
        ),
    }
)
"""The reasons of each condition, the worst first: which one is told when several GPUs differ."""


def policy_of(condition: ConditionType, checks: Collection[str]) -> ConditionPolicy:
    """How the named checks make up a condition. Checks of other conditions are left out."""
    own = {
        spec.name: spec.damping
        for spec in SPECS
        if spec.condition == condition and spec.name in checks
    }
    return ConditionPolicy(condition, own, SEVERITY[condition])
