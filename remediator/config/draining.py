"""How a node is emptied before a repair. Deciding which pod goes next is drain's work."""

from datetime import timedelta
from enum import StrEnum

from pydantic import Field

from chassis.config import Duration, MatcherList, Settings
from remediator.config.common import SomeTime


class DrainStrategy(StrEnum):
    """How a pod leaves."""

    NONE = "None"
    EVICT = "Evict"
    DELETE = "Delete"
    FORCE_DELETE = "ForceDelete"
    WAIT_FOR_COMPLETION = "WaitForCompletion"


class OnDeadline(StrEnum):
    """What happens to pods that are still there at the deadline."""

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

    `deadline` counts from the phase Draining, `on_deadline` says what then. `gpu_pods_only` leaves
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
    gpu_resources: tuple[str, ...] = Field(default=("nvidia.com/gpu",))
