"""The faults of a simulated node, what each shows, and what heals it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Remedy(StrEnum):
    """What may be done to a node that clears some faults."""

    REBOOT = "reboot"
    GPU_RESET = "gpu_reset"
    REMOUNT = "remount"
    RESTART_UNIT = "restart_unit"


class FaultKind(StrEnum):
    """What can be wrong with a node."""

    GPU_RUNTIME_ERROR = "gpu_runtime_error"
    """CUDA fails on the GPU."""
    PROBE_FAILS = "probe_fails"
    """The probe on request finds the GPU broken, and no condition shows it."""
    GPU_LOST = "gpu_lost"
    """The driver has lost the GPU; it is no longer allocatable."""
    PENDING_PAGE = "pending_page"
    PCIE_WIDTH_REDUCED = "pcie_width_reduced"
    XID = "xid"
    """The kernel logs an XID."""
    NFS_HUNG = "nfs_hung"
    D_STATE = "d_state"
    """A process waits uninterruptibly."""

    KUBELET_SILENT = "kubelet_silent"
    """No heartbeat, no pod handled; what runs, goes on."""
    NOT_READY = "not_ready"
    """The kubelet lives and says that the node is not ready."""
    CLAIMS_HEALTH = "claims_health"
    """The agent's conditions and probe answers say healthy, whatever is broken."""
    KEEPS_BOOT_ID = "keeps_boot_id"
    """The API is told the same boot id after a reboot."""
    JOBS_HANG = "jobs_hang"
    """Pods of Jobs start, do nothing, and never end."""
    REBOOT_IGNORED = "reboot_ignored"
    """A reboot is accepted, and nothing happens."""
    REBOOT_REFUSED = "reboot_refused"
    """Asking for a reboot ends with an error."""
    REBOOT_SLOW = "reboot_slow"
    """A reboot takes `seconds`."""
    REBOOT_NEVER_READY = "reboot_never_ready"
    """After a reboot the node stays NotReady."""
    REBOOT_NEVER_RETURNS = "reboot_never_returns"
    """After a reboot the node stays silent."""
    IGNORES_SIGTERM = "ignores_sigterm"
    """Pods whose name matches `match` end only when they are killed."""
    PODS_REBORN = "pods_reborn"
    """Pods whose name matches `match` come back under their name, as from a StatefulSet pinned here."""
    IMAGE_PULL_FAILS = "image_pull_fails"
    """Images that match `match` cannot be pulled."""


_BY_REBOOT = frozenset({Remedy.REBOOT})

DEFAULT_REMEDIES: Mapping[FaultKind, frozenset[Remedy]] = MappingProxyType(
    {
        FaultKind.GPU_RUNTIME_ERROR: _BY_REBOOT,
        FaultKind.GPU_LOST: _BY_REBOOT,
        FaultKind.PENDING_PAGE: frozenset({Remedy.REBOOT, Remedy.GPU_RESET}),
        FaultKind.XID: _BY_REBOOT,
        FaultKind.NFS_HUNG: frozenset({Remedy.REBOOT, Remedy.REMOUNT}),
        FaultKind.D_STATE: _BY_REBOOT,
        FaultKind.KUBELET_SILENT: frozenset({Remedy.REBOOT, Remedy.RESTART_UNIT}),
    }
)
"""What heals a fault unless it says otherwise; nothing heals the kinds that are not here."""

GPU_FAULTS = frozenset(
    {
        FaultKind.GPU_RUNTIME_ERROR,
        FaultKind.PROBE_FAILS,
        FaultKind.GPU_LOST,
        FaultKind.PENDING_PAGE,
        FaultKind.PCIE_WIDTH_REDUCED,
        FaultKind.XID,
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one node; the fields that its kind does not use are ignored.

    `gpu` is an index, `match` a shell pattern of pod names or images. With `times_needed` 2 only the second
    reboot heals. `healed_by` None means DEFAULT_REMEDIES; an empty set: nothing but `clear`.
    """

    kind: FaultKind
    gpu: int = 0
    xid: int = 79
    width: int = 8
    mount_point: str = "/mnt/data"
    command: str = "python3"
    seconds: float = 600
    match: str = "*"
    healed_by: frozenset[Remedy] | None = None
    times_needed: int = 1

    @property
    def remedies(self) -> frozenset[Remedy]:
        if self.healed_by is not None:
            return self.healed_by
        return DEFAULT_REMEDIES.get(self.kind, frozenset())
