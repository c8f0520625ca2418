"""How a node is emptied before a repair. Deciding which pod goes next is drain's work."""

from datetime import timedelta
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from chassis.config import Duration, MatcherList, Settings
from remediator.config.common import SomeTime, Word


class DrainStrategy(StrEnum):
    """How a pod leaves.

    `None`: it stays. `Evict`: as its PodDisruptionBudget allows. `Delete`: whatever that says, with its
    grace period. `ForceDelete`: the same, and without it once that is over. `WaitForCompletion`: it is
    left to end by itself.
    """

    NONE = "None"
    EVICT = "Evict"
    DELETE = "Delete"
    FORCE_DELETE = "ForceDelete"
    WAIT_FOR_COMPLETION = "WaitForCompletion"


class OnDeadline(StrEnum):
    """What happens at the deadline to pods that are still there.

    `escalate`: nothing; a person is told, and the node stays isolated. `delete`: they are deleted with
    their grace period, which no PodDisruptionBudget holds. `force_delete`: they are deleted without it,
    so that their processes may still run. `proceed`: the repair begins with them on the node. With the
    middle two, pods that `keep` is said of still stay, and are told to a person.
    """

    ESCALATE = "escalate"
    DELETE = "delete"
    FORCE_DELETE = "force_delete"
    PROCEED = "proceed"


class EmptyDirPolicy(StrEnum):
    """What happens to pods whose emptyDir volumes would be lost."""

    DELETE = "delete"
    KEEP = "keep"


class UnmanagedPolicy(StrEnum):
    """What happens to pods that nothing would create again."""

    DELETE = "delete"
    KEEP = "keep"


class DrainRule(Settings):
    """Another strategy for some pods; the first rule that fits decides.

    `namespace` is a name, empty for all; `selector` matchers on the pod's labels.
    """

    namespace: str = ""
    selector: MatcherList = ()
    strategy: DrainStrategy


class Checkpoint(Settings):
    """Ask the pods that `selector` fits for a checkpoint, and wait for it up to `wait`."""

    selector: MatcherList = ()
    wait: SomeTime = timedelta(minutes=5)


class DrainSettings(Settings):
    """How a node is emptied.

    `strategy` is for every pod that no rule fits: of `rules` the first one that fits decides. Pods of
    DaemonSets, static pods, finished pods and our own repairs always stay. `gpu_resources`: what makes
    a pod one with a GPU; `*` stands for any characters. `deadline` counts from the phase Draining, `on_deadline` says what then. `gpu_pods_only` leaves
    pods without a GPU. `grace` replaces the pods' own grace period. A pod that `keep` is said of
    makes the drain wait until its deadline.
    """

    strategy: DrainStrategy = DrainStrategy.EVICT
    rules: tuple[DrainRule, ...] = ()
    deadline: SomeTime = timedelta(minutes=15)
    on_deadline: OnDeadline = OnDeadline.ESCALATE
    empty_dir: EmptyDirPolicy = EmptyDirPolicy.DELETE
    unmanaged: UnmanagedPolicy = UnmanagedPolicy.KEEP
    gpu_pods_only: bool = False
    grace: Duration | None = None
    checkpoint: Checkpoint | None = None
    gpu_resources: tuple[Word, ...] = Field(
        default=("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*")
    )

    @model_validator(mode="after")
    def _checkpoint_ends_first(self) -> Self:
        if self.checkpoint is not None and self.checkpoint.wait >= self.deadline:
            raise ValueError("checkpoint.wait must be shorter than deadline, or no pod ever leaves")
        return self
