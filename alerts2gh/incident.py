"""What alerts2gh knows about one incident, and how a delivery changes it.

An incident is one thing that is wrong: a hash of where it is filed and of the labels that name it. Its members
are alerts, by fingerprint. This module holds the data and folds deliveries into it; it decides nothing about
GitHub (issue_plan does) and does no I/O.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from alerts2gh.config import AssigneeSource, IssuePolicy, TemplateNames
from chassis.alertmanager import Alert, AlertStatus
from chassis.contracts import TimelineEntry

IDENTITY_VERSION = 1
MAX_TOLD = 200  # transitions kept for the next comment; older ones are summed up in `untold`
MAX_FLIPS = 50
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
    """The part of one webhook that belongs to one incident."""

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
    `rolled_told`: that one knows. `stories` are entries of node operations that no comment has told yet.
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


@dataclass(frozen=True, slots=True)
class Folded:
    """The incident after a delivery, and what happened to each alert of it."""

    incident: Incident
    reasons: Mapping[str, FoldReason]

    @property
    def changed(self) -> bool:
        return any(r in _CHANGES for r in self.reasons.values())


_CHANGES = frozenset(
    {
        FoldReason.NEW_MEMBER,
        FoldReason.NEWER_EPISODE,
        FoldReason.RESOLVED,
        FoldReason.FIRING_AGAIN,
    }
)


# Kept, as json.dumps makes an encoder for each call. Ids are made of it: its output must never change.
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def label_key(labels: Mapping[str, str]) -> str:
    """Hash the labels that name an incident, whatever repository it is filed in (32 hex characters)."""
    return _digest([IDENTITY_VERSION, sorted(labels.items())])


def incident_id(target: Target, labels: Mapping[str, str]) -> str:
    """Hash version, target and chosen labels (32 hex characters).

    The credential is left out: a rotated or renamed credential must not open every issue again.
    """
    return _digest([IDENTITY_VERSION, target.full_name.lower(), sorted(labels.items())])


def _digest(value: object) -> str:
    text = _encode(value)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def new_incident(part: DeliveryPart) -> Incident:
    """Make the incident that `part` is the first news of; it has no members yet."""
    return Incident(
        id=part.incident_id,
        label_key=part.label_key,
        disposition=part.disposition,
        labels=part.labels,
        first_seen_at=part.received_at,
        last_delivery_at=part.received_at,
    )


def fold(incident: Incident, part: DeliveryPart) -> Folded:
    """Take a delivery into an incident.

    Deliveries may come twice, late and in any order (two Alertmanagers promise no more), so a member is decided
    by its own startsAt and never by the order of arrival alone; see `member_after`. The target of an incident with an
    open issue stays what it was, whatever the routes have become.
    """
    window = part.disposition.policy.reorder_window
    members = dict(incident.members)
    reasons: dict[str, FoldReason] = {}
    transitions: list[Transition] = []
    for alert in part.alerts:
        before = members.get(alert.fingerprint)
        after, reason = member_after(before, alert, part.received_at, window)
        reasons[alert.fingerprint] = reason
        members[alert.fingerprint] = after
        if reason in _CHANGES:
            transitions.append(
                Transition(alert.fingerprint, after.status, part.received_at, reason)
            )
    changed = replace(
        incident,
        disposition=_disposition_after(incident, part.disposition),
        members=members,
        truncated=part.truncated,
        receiver=part.receiver,
        group_key=part.group_key,
        group_labels=part.group_labels,
        common_annotations=part.common_annotations,
        # Two Alertmanagers may have two addresses; links must not change with each delivery.
        external_url=incident.external_url or part.external_url,
        last_delivery_at=max(part.received_at, incident.last_delivery_at),
    )
    return Folded(after_members_changed(incident, changed, transitions, part.received_at), reasons)


def _disposition_after(incident: Incident, proposed: Disposition) -> Disposition:
    filed = incident.issue is not None or incident.intent is not None or incident.displaced
    if filed and proposed.target.full_name.lower() != incident.disposition.target.full_name.lower():
        return replace(proposed, target=incident.disposition.target)
    return proposed


def member_after(
    before: Member | None, alert: Alert, received_at: datetime, reorder_window: timedelta
) -> tuple[Member, FoldReason]:
    """Decide one member from what was known and one alert of a delivery.

    The newest startsAt wins. On a tie a resolved beats a firing that arrives within `reorder_window` of it: that
    firing is the slower Alertmanager's, not news.
    """
    reason = _fold_reason(before, alert, received_at, reorder_window)
    if before is None or reason in _CHANGES:
        return _member(alert, received_at), reason
    if reason is FoldReason.REPEAT and not _tells_the_same(alert, before):
        return _member(alert, before.changed_at), reason
    return before, reason


def _tells_the_same(alert: Alert, member: Member) -> bool:
    """Whether a repeat changes nothing about the member; most do not, and groups are large."""
    return (
        alert.ends_at == member.ends_at
        and alert.annotations == member.annotations
        and alert.labels == member.labels
        and alert.generator_url == member.generator_url
    )


def _fold_reason(
    before: Member | None, alert: Alert, received_at: datetime, reorder_window: timedelta
) -> FoldReason:
    if before is None:
        return FoldReason.NEW_MEMBER
    if alert.starts_at != before.starts_at:
        newer = alert.starts_at > before.starts_at
        return FoldReason.NEWER_EPISODE if newer else FoldReason.LATE
    if alert.status is before.status:
        return FoldReason.REPEAT
    if alert.status is AlertStatus.RESOLVED:
        return FoldReason.RESOLVED
    soon = received_at - before.changed_at <= reorder_window
    return FoldReason.REORDERED if soon else FoldReason.FIRING_AGAIN


def _member(alert: Alert, changed_at: datetime) -> Member:
    return Member(
        fingerprint=alert.fingerprint,
        status=alert.status,
        starts_at=alert.starts_at,
        ends_at=alert.ends_at,
        changed_at=changed_at,
        labels=alert.labels,
        annotations=alert.annotations,
        generator_url=alert.generator_url,
    )


def after_members_changed(
    before: Incident, changed: Incident, transitions: Iterable[Transition], at: datetime
) -> Incident:
    """Bring what is derived from the members up to date: untold transitions, flips, since when all is quiet."""
    untold = (*before.untold, *transitions)
    flips = before.flips
    if before.members and before.is_firing != changed.is_firing:
        flips = (*flips, at)[-MAX_FLIPS:]
    resolved_since = None if changed.is_firing else (before.resolved_since or at)
    began = changed.is_firing and not before.is_firing
    is_new = began and before.issue is None and not before.past
    return replace(
        changed,
        untold=untold[-MAX_TOLD:],
        untold_dropped=before.untold_dropped + max(0, len(untold) - MAX_TOLD),
        flips=flips,
        resolved_since=resolved_since,
        new_since=at if is_new else before.new_since,
    )
