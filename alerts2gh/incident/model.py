"""What is remembered of an incident: its members, its issue, what is under way. Data only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from alerts2gh.config import AssigneeSource, IssuePolicy, TemplateNames
from chassis.alertmanager import Alert, AlertStatus
from chassis.contracts import TimelineEntry

ROLLUP_ALERTNAME = "Alerts2ghStorm"
REFUSED_ALERTNAME = "Alerts2ghRefusedWebhooks"
OWN_ALERTNAMES = frozenset({ROLLUP_ALERTNAME, REFUSED_ALERTNAME})
"""Incidents that alerts2gh makes itself; no Alertmanager knows their alerts."""


class FoldReason(StrEnum):
    """Why an alert in a delivery did, or did not, change its member."""

    NEW_MEMBER = "new_member"
    NEWER_EPISODE = "newer_episode"
    RESOLVED = "resolved"
    FIRING_AGAIN = "firing_again"
    REPEAT = "repeat"
    LATE = "late"
    REORDERED = "reordered"


class IssueState(StrEnum):
    """GitHub's two states of an issue."""

    OPEN = "open"
    CLOSED = "closed"


class ClosedBy(StrEnum):
    """Who closed the issue, as far as we know."""

    US = "us"
    HUMAN = "human"


class IntentAction(StrEnum):
    """A write to GitHub, as it is noted before it is made."""

    CREATE = "create"
    REOPEN = "reopen"
    CLOSE = "close"
    COMMENT = "comment"
    EDIT = "edit"
    ASSIGN = "assign"


@dataclass(frozen=True, slots=True)
class Target:
    """Where an incident is filed: a credential's name and a repository."""

    credential: str
    owner: str
    repo: str

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.repo}"

    @property
    def key(self) -> str:
        return f"{self.credential}:{self.owner}/{self.repo}".lower()


@dataclass(frozen=True, slots=True)
class Disposition:
    """What the routes say about one part of a delivery."""

    target: Target
    route: str
    policy: IssuePolicy
    templates: TemplateNames = field(default_factory=TemplateNames)
    issue_labels: tuple[str, ...] = ()
    milestone: str | None = None
    assignees: tuple[AssigneeSource, ...] = ()


@dataclass(frozen=True, slots=True)
class DeliveryPart:
    """The part of one webhook that belongs to one incident.

    `digest` stands for all of it but `received_at`; the store gives it, it is empty before.
    """

    incident_id: str
    label_key: str
    disposition: Disposition
    labels: Mapping[str, str]
    alerts: tuple[Alert, ...]
    received_at: datetime
    receiver: str = ""
    group_key: str = ""
    group_labels: Mapping[str, str] = field(default_factory=dict)
    common_annotations: Mapping[str, str] = field(default_factory=dict)
    external_url: str = ""
    truncated: int = 0
    digest: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Member:
    """One alert of an incident. `changed_at` is when its present status reached us."""

    fingerprint: str
    status: AlertStatus
    starts_at: datetime
    ends_at: datetime | None
    changed_at: datetime
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    generator_url: str = ""

    @property
    def firing(self) -> bool:
        return self.status is AlertStatus.FIRING


@dataclass(frozen=True, slots=True)
class Transition:
    """A member changed its status; kept until a comment or a body has told it."""

    fingerprint: str
    status: AlertStatus
    at: datetime
    reason: FoldReason


@dataclass(frozen=True, slots=True)
class Issue:
    """The GitHub issue of an incident, as last seen in one of GitHub's answers."""

    number: int
    url: str
    repository: str
    state: IssueState
    created_at: datetime
    state_reason: str | None = None
    closed_at: datetime | None = None
    closed_by: ClosedBy | None = None
    title: str = ""
    block_hash: str = ""
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    etag: str = ""
    seen_at: datetime | None = None
    written_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """A write that was decided and may or may not have reached GitHub.

    `token` is unique to this write and stands in its text (issue marker or comment marker), so that a write
    with an unknown outcome can be found again. `unknown_since` is set once an answer failed to come. `covers` is how
    many of the untold transitions a comment tells, `tells` how many of the stories.
    """

    action: IntentAction
    token: str
    started_at: datetime
    attempts: int = 1
    unknown_since: datetime | None = None
    looked_at: datetime | None = None
    looks: int = 0
    covers: int = 0
    tells: int = 0


@dataclass(frozen=True, slots=True)
class PastIssue:
    """An earlier issue of this incident, and how it ended."""

    number: int
    url: str
    ended: str
    opened_at: datetime
    closed_at: datetime | None


@dataclass(frozen=True, slots=True)
class LeftIssue:
    """An issue that the incident has moved away from while it was open; it is still to be closed."""

    target: Target
    number: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """Whom we assigned, from which source, and what we could not do. `settled` ends our interest in it.

    `tried` names the sources whose people GitHub did not take.
    """

    settled: bool = False
    tried: tuple[str, ...] = ()
    by_us: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Incident:
    """Everything remembered about one incident; the store keeps it as one row and its members as rows beside it.

    `version` counts saves: a save that finds another version than it loaded fails, and is done again.
    `audit_at` is when to look for a duplicate that a lagging list may have hidden; `held_until` is how long a running
    node operation holds back the close (datetime.max: until it says otherwise). `displaced`: its repository did not
    take it, so it is filed in the fallback repository until that issue is over. `new_since` is when it last began to fire
    while it had no issue. `rolled_into` is the incident of the rollup issue that stands in for its own until `split_at`;
    `rolled_told`: that one knows. `stories` are entries of node operations that no comment has told yet. `settled_by` is
    the digest of the delivery that the incident says the same as: that one again, whenever, would change nothing. `left` is
    an open issue elsewhere, to be closed once this one's is there.
    """

    id: str
    label_key: str
    disposition: Disposition
    labels: Mapping[str, str]
    first_seen_at: datetime
    last_delivery_at: datetime
    receiver: str = ""
    group_key: str = ""
    group_labels: Mapping[str, str] = field(default_factory=dict)
    common_annotations: Mapping[str, str] = field(default_factory=dict)
    external_url: str = ""
    truncated: int = 0
    members: Mapping[str, Member] = field(default_factory=dict)
    untold: tuple[Transition, ...] = ()
    untold_dropped: int = 0
    flips: tuple[datetime, ...] = ()
    resolved_since: datetime | None = None
    issue: Issue | None = None
    intent: Intent | None = None
    assignment: Assignment = Assignment()
    past: tuple[PastIssue, ...] = ()
    suppressed_members: tuple[str, ...] = ()
    flapping_until: datetime | None = None
    flapping_label: bool = False
    audit_at: datetime | None = None
    held_until: datetime | None = None
    recreated: int = 0
    displaced: bool = False
    new_since: datetime | None = None
    rolled_into: str | None = None
    rolled_told: bool = False
    split_at: datetime | None = None
    stories: tuple[TimelineEntry, ...] = ()
    stories_dropped: int = 0
    settled_by: str = ""
    left: LeftIssue | None = None
    attempts: int = 0
    retry_at: datetime | None = None
    dead_reason: str | None = None
    version: int = 0

    @property
    def firing(self) -> tuple[Member, ...]:
        return tuple(m for m in self.members.values() if m.firing)

    @property
    def is_firing(self) -> bool:
        return any(m.firing for m in self.members.values())

    @property
    def is_own(self) -> bool:
        """Whether alerts2gh made it itself, so that no Alertmanager knows its alerts."""
        return self.labels.get("alertname") in OWN_ALERTNAMES

    @property
    def is_rollup(self) -> bool:
        return self.labels.get("alertname") == ROLLUP_ALERTNAME
