"""One operation on one node: what is to be done, how far it has come, and why it waits.

Pure. The same data as the Kubernetes object NodeOperation; `codec` reads and writes it. The status
is written by the leader alone, one write a step, and the intent stands in it before the effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from chassis.contracts import TimelineOutcome
from remediator.operation.reasons import (
    AttemptOutcome,
    CauseKind,
    IntentAction,
    Phase,
    Reason,
    Trigger,
    Wish,
)

MAX_CAUSES = 32
MAX_HISTORY = 64
MAX_ATTEMPTS = 64


@dataclass(frozen=True, slots=True)
class Cause:
    """An alert, a condition or a person for whose sake an operation exists.

    An alert is known by `fingerprint` (16 hexadecimal digits) and `since`, its startsAt; a
    condition by its type. `labels` are those of the alert that repairs may need (mount, GPU).
    """

    kind: CauseKind
    name: str
    """The alert's name, the condition's type, the person's user name."""
    since: datetime
    fingerprint: str = ""
    text: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[CauseKind, str, str]:
        """Causes with the same key are one cause, told again."""
        return (self.kind, self.name, self.fingerprint)


@dataclass(frozen=True, slots=True)
class OperationSpec:
    """What was asked for. Nothing in it changes but `causes`, which grows."""

    node: str
    playbook: str
    trigger: Trigger
    episode: int
    dry_run: bool = False
    requested_by: str = ""
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class Intent:
    """An announced effect.

    `boot_id` is the node's when it was announced: the repair refuses in any other boot. `job` is
    the Job's name, `job_seen` whether the Job was seen to exist: gone after that is lost.
    """

    action: IntentAction
    at: datetime
    boot_id: str = ""
    job: str = ""
    destructive: bool = False
    """Whether doing it twice would harm: never repeated when its outcome is unknown."""
    job_seen: bool = False
    giving_up: bool = False
    """Whether the Job never began within its time and is being deleted."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one rung, counted before its effect."""

    rung: int
    number: int
    started_at: datetime
    ended_at: datetime | None = None
    outcome: AttemptOutcome = AttemptOutcome.RUNNING
    text: str = ""


@dataclass(frozen=True, slots=True)
class HeldBy:
    """A gate that holds an operation back now; `until` is None when nobody knows."""

    gate: str
    text: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A step that was taken; `number` counts from 1 and never restarts."""

    number: int
    at: datetime
    phase: Phase
    reason: Reason
    rung: int
    attempt: int
    text: str


@dataclass(frozen=True, slots=True)
class OperationStatus:
    """How far an operation has come.

    `since` is when the phase began, `deadline` when it must be over, `wake_at` when to look again
    at the latest. `rung` counts from 0, `attempt` within a rung from 1 (0: none yet). `isolated`
    means that our taint stands, or may.
    """

    phase: Phase = Phase.RECEIVED
    reason: Reason = Reason.ACCEPTED
    message: str = ""
    since: datetime | None = None
    deadline: datetime | None = None
    wake_at: datetime | None = None
    node_uid: str = ""
    boot_id: str = ""
    """The node's boot when the present attempt began, before that when it was accepted, after that the one that is proven."""
    rung: int = 0
    rung_name: str = ""
    attempt: int = 0
    isolated: bool = False
    isolated_at: datetime | None = None
    """When isolation was announced: what the rate limit and the breaker count."""
    intent: Intent | None = None
    attempts: tuple[Attempt, ...] = ()
    held_by: tuple[HeldBy, ...] = ()
    history: tuple[HistoryEntry, ...] = ()
    fixed_at: datetime | None = None
    """When the last repair was seen to have ended: proof must be newer."""
    clear_since: datetime | None = None
    """Since when every cause has been clear, while it is being proven."""
    wish: Wish | None = None
    wish_by: str = ""
    told: int = 0
    """The number of the last history entry that alerts2gh has taken."""
    ended_at: datetime | None = None
    outcome: TimelineOutcome | None = None


@dataclass(frozen=True, slots=True)
class NodeOperation:
    """A NodeOperation object as it is stored; `resource_version` goes into each write."""

    name: str
    uid: str
    resource_version: str
    created_at: datetime
    spec: OperationSpec
    status: OperationStatus = OperationStatus()
    annotations: Mapping[str, str] = field(default_factory=dict)
    deleting: bool = False

    @property
    def active(self) -> bool:
        """Whether it has, or may have, something to do; an escalated one keeps its node isolated."""
        return not self.status.phase.is_final or self.status.phase is Phase.ESCALATED

    @property
    def running(self) -> bool:
        """Whether it moves by itself."""
        return not self.status.phase.is_final

    @property
    def holds_capacity(self) -> bool:
        """Whether its node counts as taken in every budget: reserved, isolated, or still tainted."""
        return self.active and (self.status.isolated or self.status.phase is Phase.RESERVED)

    @property
    def repaired(self) -> bool:
        """Whether a repair was announced, so that the node may not be as it was found."""
        return bool(self.status.attempts)

    @property
    def age_order(self) -> tuple[datetime, str]:
        """The order in which operations are served: oldest first, then by name."""
        return (self.created_at, self.name)
