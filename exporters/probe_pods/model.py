"""Nodes and probe pods as the plan sees them, and how a probe can end. Pure data."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from chassis.contracts import DOMAIN

LABELS = MappingProxyType(
    {
        "app.kubernetes.io/name": "nodemend-gpu-probe",
        "app.kubernetes.io/managed-by": "nodemend-gpu-monitor",
    }
)
"""What every probe pod carries, and nothing else in its namespace."""
SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())
NODE_ANNOTATION = f"{DOMAIN}/node"
NODE_UID_ANNOTATION = f"{DOMAIN}/node-uid"
BOOT_ANNOTATION = f"{DOMAIN}/boot-id"
PURPOSE_ANNOTATION = f"{DOMAIN}/probe-purpose"
OPERATION_ANNOTATION = f"{DOMAIN}/operation"
GPUS_ANNOTATION = f"{DOMAIN}/probe-gpus"
"""On a probe pod: the node that it is for, its UID and boot, why it is probed, and how many GPUs it asks for."""


class Purpose(StrEnum):
    """Why a node is probed."""

    PERIODIC = "periodic"
    PROOF = "proof"
    """An operation asks whether its node is healthy."""


class Outcome(StrEnum):
    """How one probe ended: the label `result` of nodemend_gpu_probe_runs_total.

    Only the first three come from a completed probe. None of the others says anything about a GPU.
    """

    PASSED = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    """It ran, and has no verdict on some GPU."""
    SKIPPED_BUSY = "skipped_busy"
    """Others use the GPUs: none was free, or the kubelet had none left (UnexpectedAdmissionError)."""
    PENDING = "pending"
    """The scheduler did not place it in time; it was withdrawn."""
    PREEMPTED = "preempted"
    """A pod with a higher priority took its place."""
    EVICTED = "evicted"
    """The kubelet, a taint or somebody's eviction ended it."""
    IMAGE_PULL_FAILED = "image_pull_failed"
    TIMEOUT = "timeout"
    """It reached its deadline without a report."""
    INTERRUPTED = "interrupted"
    """Its node rebooted or went, or somebody deleted it."""
    REFUSED = "refused"
    """The API did not take the pod: a quota, Pod Security, a PriorityClass that is missing or not negative."""
    ERROR = "error"
    """It ended and nothing that it said could be read."""

    @property
    def is_completed(self) -> bool:
        return self in _COMPLETED


_COMPLETED = frozenset({Outcome.PASSED, Outcome.FAIL, Outcome.INCONCLUSIVE})


class PodStage(StrEnum):
    """How far a probe pod has come."""

    WAITING = "waiting"
    """Not placed on its node."""
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class PodView:
    """A probe pod.

    `trouble` is why it will give no report, or had to end; None as far as nothing speaks against one. `deadline` is
    when its time is over, None before it was started. `message` is what its container left as its last words, `detail`
    what a person should read about its state.
    """

    name: str
    uid: str
    node: str
    node_uid: str
    boot_id: str
    purpose: Purpose
    operation: str
    gpus: int
    created: datetime
    stage: PodStage
    trouble: Outcome | None = None
    is_deleting: bool = False
    deadline: datetime | None = None
    message: str = ""
    exit_code: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ProbeNode:
    """What the plan must know of a node with GPUs.

    Attributes:
        name: Its name.
        uid: Its UID.
        boot_id: Of its current boot, empty if it does not tell.
        is_ready: Whether its kubelet says Ready.
        is_deleting: Whether it is being deleted.
        allocatable: How many GPUs pods may have.
        is_ours: Whether we own its probes; with another owner it is left alone.
        isolated_by: The operation that has isolated it, empty if none.
        request: The operation that asks for a proof and has no answer that counts; empty if none.
        answered: When that operation was last told that there is no verdict, None if never in this boot.
        probed: When a probe last ended, or was given up; None if never in this boot.
    """

    name: str
    uid: str
    boot_id: str
    is_ready: bool
    allocatable: int
    is_ours: bool = True
    is_deleting: bool = False
    isolated_by: str = ""
    request: str = ""
    answered: datetime | None = None
    probed: datetime | None = None
