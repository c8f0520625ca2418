"""What is seen of nodes, pods, Jobs, alerts and queries: only what decisions need.

Pure data, made by `kube_cluster` and by tests. A text that is absent is empty.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class ConditionView:
    """One Node Condition. `heartbeat` is when it was judged last, `since` when the status changed."""

    type: str
    status: str
    """`True`, `False` or `Unknown`."""
    since: datetime
    heartbeat: datetime
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node. `operation_taint` is the value of our taint, None if it has none."""

    name: str
    uid: str
    boot_id: str = ""
    ready: str = "True"
    """Status of the condition Ready: `True`, `False` or `Unknown`."""
    unschedulable: bool = False
    operation_taint: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, ConditionView] = field(default_factory=dict)
    is_virtual: bool = False
    scaling_in: bool = False
    control_plane: bool = False
    gpus: int = 0
    """Allocatable GPUs; of a node whose plugin is down, its capacity; of one cut into MIG devices, its label's."""
    created_at: datetime | None = None

    @property
    def counts(self) -> bool:
        """Whether budgets know it at all."""
        return not self.is_virtual and not self.scaling_in

    @property
    def is_ready(self) -> bool:
        """Whether the kubelet says so and is heard."""
        return self.ready == "True"


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """How the last try to remove a pod ended; remembered by the leader, not persisted."""

    kind: "EvictionKind"
    at: datetime
    text: str = ""
    retry_at: datetime | None = None


class EvictionKind(StrEnum):
    """What the API said to an eviction."""

    ACCEPTED = "accepted"
    GONE = "gone"
    """404, or another UID: as good as evicted."""
    BUDGET = "budget"
    """429 of a PodDisruptionBudget."""
    THROTTLED = "throttled"
    """429 of the API server itself."""
    SEVERAL_BUDGETS = "several_budgets"
    """500: the pod has more than one PodDisruptionBudget, so it can never be evicted."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod on the node, whatever its phase."""

    namespace: str
    name: str
    uid: str
    phase: str = "Running"
    owner_kind: str = ""
    owner_name: str = ""
    mirror: bool = False
    daemon_set: bool = False
    terminating_since: datetime | None = None
    grace: timedelta = timedelta(seconds=30)
    gpus: int = 0
    empty_dir: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    created_at: datetime | None = None
    answer: EvictionAnswer | None = None
    """What the API said when we last tried to remove it."""

    @property
    def finished(self) -> bool:
        """Whether no container of it runs or will."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class JobState(StrEnum):
    """How far a repair Job is. It is missing only by a live read of its name."""

    MISSING = "missing"
    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FOREIGN = "foreign"
    """One of this name without our labels for this attempt: not ours, whatever it says."""
    UNKNOWN = "unknown"
    """Not read (yet)."""


EXIT_OTHER_BOOT = 75
"""A repair script's exit code: the boot id differs from the intent's, so nothing was done."""
EXIT_NOTHING_DONE = 76
"""A repair script's exit code: it could not begin, nothing was changed."""
EXIT_FAILED = 70
"""A repair script's exit code: it began, and failed in a way that it could see."""
EXIT_REPEATED = 71
"""A repair script's exit code: this attempt has begun before, and nobody knows how that ended."""
EXIT_UNKNOWN = 72
"""A repair script's exit code: it began, and cannot tell whether it worked."""


@dataclass(frozen=True, slots=True)
class JobView:
    """The Job of the present attempt.

    `began`: whether a container of it ever started. `image_failed`: its image cannot be had.
    `exit_code`: of its container, None if unknown (the pod went with the node).
    """

    name: str
    state: JobState = JobState.UNKNOWN
    began: bool = False
    image_failed: bool = False
    exit_code: int | None = None
    text: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def did_nothing(self) -> bool:
        """Whether it is certain that the repair changed nothing."""
        refused = self.exit_code in {EXIT_OTHER_BOOT, EXIT_NOTHING_DONE}
        return refused or (not self.began and self.exit_code is None)


class Sight(StrEnum):
    """What is known of an alert."""

    FIRING = "firing"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    """An Alertmanager cannot be reached or has just restarted: neither firing nor resolved."""


@dataclass(frozen=True, slots=True)
class AlertView:
    """An alert by fingerprint, as all Alertmanagers together know it.

    `since` is startsAt while it fires. `silenced` tells that a silence holds it; that none does is
    certain only with `silences_known`.
    """

    fingerprint: str
    sight: Sight
    as_of: datetime
    since: datetime | None = None
    silenced: bool = False
    silence: str = ""
    """The silence's author and comment."""
    silences_known: bool = True


class QueryResult(StrEnum):
    """How a PromQL expression answered."""

    PASSED = "pass"
    FAILED = "fail"
    NO_DATA = "no_data"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class QueryView:
    """The last answer to a query, by its name in the playbook."""

    name: str
    result: QueryResult
    as_of: datetime
    text: str = ""


class ProbeState(StrEnum):
    """How the active probe that an operation asked for stands."""

    NOT_ASKED = "not_asked"
    ASKED = "asked"
    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class ProbeView:
    """The probe-request and probe-result annotations, as far as they are this operation's.

    A result for another operation or another boot is none. `at` is when it was answered.
    """

    state: ProbeState = ProbeState.NOT_ASKED
    boot_id: str = ""
    at: datetime | None = None
    text: str = ""
