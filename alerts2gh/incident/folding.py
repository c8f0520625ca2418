"""How a delivery changes an incident, whatever order deliveries come in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from alerts2gh.incident.model import (
    DeliveryPart,
    Disposition,
    FoldReason,
    Incident,
    Member,
    Transition,
)
from chassis.alertmanager import Alert, AlertStatus

MAX_TOLD = 200  # transitions kept for the next comment; older ones are summed up in `untold`
MAX_FLIPS = 50


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
    changed = after_members_changed(incident, changed, transitions, part.received_at)
    settled_by = part.digest if _is_settled(changed, part, reasons) else ""
    return Folded(replace(changed, settled_by=settled_by), reasons)


def _is_settled(after: Incident, part: DeliveryPart, reasons: Mapping[str, FoldReason]) -> bool:
    """Whether the same part would change nothing if it came again, however much later.

    A firing that was taken for the slower Alertmanager's may be news later; of an alert that is in the part twice the one
    undoes the other. Where the routes file elsewhere by now, the target is kept only as long as there is an issue.
    """
    here = after.disposition.target == part.disposition.target
    return (
        len(reasons) == len(part.alerts)
        and FoldReason.REORDERED not in reasons.values()
        and (here or after.issue is not None or after.displaced)
    )


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
