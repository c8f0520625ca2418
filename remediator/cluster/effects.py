"""What may be done to a cluster: each effect is frozen, idempotent, and named in an intent before.

Pure data. `kube_cluster` carries them out; its dry-run twin writes them down instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class PodRef:
    """A pod that is meant and no other of its name: the UID is a precondition of each effect."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Isolate:
    """Our taint, and the mark against scale-down. Only on the node of this UID."""

    node: str
    node_uid: str
    operation: str


@dataclass(frozen=True, slots=True)
class Release:
    """Our taint (this operation's, nobody else's), our scale-down mark and probe request off.

    What was proven is one boot of the node: with `boot_id` nothing is released in another one.
    """

    node: str
    node_uid: str
    operation: str
    operation_uid: str
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class AskCheckpoint:
    """The annotation that asks a pod for a checkpoint."""

    pod: PodRef
    operation: str


@dataclass(frozen=True, slots=True)
class EvictPod:
    """An eviction, which a PodDisruptionBudget may refuse. `grace` None is the pod's own."""

    pod: PodRef
    grace: timedelta | None = None


@dataclass(frozen=True, slots=True)
class DeletePod:
    """A delete, which no PodDisruptionBudget holds; grace 0 forces."""

    pod: PodRef
    grace: timedelta | None = None


@dataclass(frozen=True, slots=True)
class CreateJob:
    """A repair Job, whole. One of the same name with our labels for this attempt is this one."""

    name: str
    namespace: str
    manifest: Mapping[str, Any] = field(hash=False)
    destructive: bool = True


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """A Job that never began, so that it will not begin later."""

    name: str
    namespace: str


@dataclass(frozen=True, slots=True)
class AskProbe:
    """The probe-request annotation on the node."""

    node: str
    node_uid: str
    operation_uid: str


@dataclass(frozen=True, slots=True)
class ForgetWish:
    """A person's annotation off the operation, once the status has taken it up; only this value."""

    operation: str
    annotation: str
    value: str


Effect = (
    Isolate
    | Release
    | AskCheckpoint
    | EvictPod
    | DeletePod
    | CreateJob
    | DeleteJob
    | AskProbe
    | ForgetWish
)

DESTRUCTIVE: tuple[type[Effect], ...] = (EvictPod, DeletePod, CreateJob)
"""Effects that take something from somebody; an open breaker and a pause hold these back."""
