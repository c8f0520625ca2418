"""One incident on the worker's desk: what was loaded, what is folded but not saved, what GitHub just showed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from alerts2gh.incident import (
    ClosedBy,
    DeliveryPart,
    Incident,
    Issue,
    IssueState,
    Target,
    fold,
    new_incident,
)
from alerts2gh.issue_plan import REFUSING_REASONS, Step, damp
from alerts2gh.node_operations import with_entries
from alerts2gh.ports import TimelineRow, TrackedIssue
from alerts2gh.storm import tidied


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A second open issue of an incident, to be closed; `told` once it says which one was kept."""

    number: int
    kept: int
    told: bool


@dataclass(slots=True)
class Case:
    """Mutable on purpose: it lives for one look at one incident, in one thread."""

    incident: Incident
    folded: tuple[int, ...] = ()
    entries_seen: tuple[int, ...] = ()
    fresh: TrackedIssue | None = None
    duplicate: Duplicate | None = None

    @property
    def target(self) -> Target:
        """Where calls about the issue go: its repository, which a transfer may have changed."""
        target = self.incident.disposition.target
        issue = self.incident.issue
        if issue is None or issue.repository.lower() == target.full_name.lower():
            return target
        owner, _, repo = issue.repository.partition("/")
        return Target(target.credential, owner, repo)


def fold_all(
    incident: Incident | None, parts: Sequence[tuple[int, DeliveryPart]], now: datetime
) -> Case | None:
    """Fold every waiting part, in order of arrival, into the incident (which the first part may begin).

    What a body that is yet to be written will tell needs no comment. While a create is unanswered its body may be out
    already, so what came after it is kept.
    """
    for _, part in parts:
        if incident is not None and part.digest and part.digest == incident.settled_by:
            continue
        incident = fold(incident or new_incident(part), part).incident
    if incident is None:
        return None
    incident = tidied(incident)
    if incident.issue is None and incident.intent is None and incident.untold:
        incident = replace(incident, untold=(), untold_dropped=0)
    return Case(damp(incident, now), tuple(seq for seq, _ in parts))


def take_entries(case: Case, rows: Sequence[TimelineRow], now: datetime) -> None:
    """Take what was told of node operations; a new episode of an alert may change what an old entry means."""
    unseen = [row for row in rows if not row.seen]
    if unseen or case.incident.held_until is not None:
        case.incident = with_entries(
            case.incident, [row.entry for row in rows], [row.entry for row in unseen], now
        )
        case.entries_seen = tuple(row.id for row in unseen)


def issue_of(case: Case, step: Step) -> Issue:
    """The issue that the step is about."""
    issue = case.incident.issue
    if issue is None:
        raise ValueError(f"{step.action} needs an issue; incident {case.incident.id} has none")
    return issue


def issue_from(tracked: TrackedIssue, before: Issue | None, our_login: str, now: datetime) -> Issue:
    """Our record of an issue from GitHub's description; what only we know is carried over from `before`."""
    return Issue(
        number=tracked.number,
        url=tracked.url,
        repository=tracked.repository,
        state=tracked.state,
        created_at=tracked.created_at,
        state_reason=tracked.state_reason,
        closed_at=tracked.closed_at,
        closed_by=_closed_by(tracked, our_login),
        title=before.title if before else tracked.title,
        block_hash=before.block_hash if before else "",
        labels=tracked.labels,
        assignees=tracked.assignees,
        etag=tracked.etag,
        seen_at=now,
        written_at=before.written_at if before else None,
    )


def _closed_by(tracked: TrackedIssue, our_login: str) -> ClosedBy | None:
    if tracked.state is IssueState.OPEN:
        return None
    if tracked.state_reason in REFUSING_REASONS:
        return ClosedBy.HUMAN  # whoever it was: we close the issue of an incident as completed only
    if tracked.closed_by is None or tracked.closed_by.lower() == our_login.lower():
        return ClosedBy.US
    return ClosedBy.HUMAN
