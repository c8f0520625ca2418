"""Whether an alert that was never reported as resolved is over: what all Alertmanagers say, and for how long.

An alert that resolves while it is silenced or inhibited, or while its Alertmanager restarts, is never sent as resolved. So
open incidents are compared with GET /api/v2/alerts. Absence counts only when every Alertmanager has been asked, answered,
and run long enough to know; anything else is unknown, and unknown changes nothing. No I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from alerts2gh.incident import DeliveryPart, Incident, Member
from chassis.alertmanager import Alert, AlertStatus

SETTLE_AFTER_START = timedelta(minutes=10)
"""A restarted Alertmanager knows an alert again once Prometheus has resent it, at the latest after a few minutes."""

Key = tuple[str, str]
"""Incident id and fingerprint."""


class SightReason(StrEnum):
    """Whether the Alertmanagers' answers can be relied on."""

    COMPLETE = "complete"
    UNREACHABLE = "unreachable"
    JUST_STARTED = "just_started"
    NOT_CONFIGURED = "not_configured"


@dataclass(frozen=True, slots=True)
class View:
    """What one Alertmanager answered; None for both when it did not.

    `alerts` are all it has that have not resolved, silenced and inhibited ones included.
    """

    url: str
    alerts: tuple[Alert, ...] | None
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class Sight:
    """All views together. `present` is meaningful only when the reason is COMPLETE."""

    reason: SightReason
    present: Mapping[str, Alert]


def see(views: Sequence[View], now: datetime) -> Sight:
    """Put the views together; one that is missing or fresh makes the whole unknown."""
    present = {a.fingerprint: a for view in views for a in view.alerts or ()}
    if not views:
        return Sight(SightReason.NOT_CONFIGURED, {})
    if any(v.alerts is None or v.started_at is None for v in views):
        return Sight(SightReason.UNREACHABLE, present)
    if any(v.started_at and now - v.started_at < SETTLE_AFTER_START for v in views):
        return Sight(SightReason.JUST_STARTED, present)
    return Sight(SightReason.COMPLETE, present)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Deliveries to make up for the resolved ones that never came, and since when what is absent has been so."""

    parts: tuple[DeliveryPart, ...]
    absent_since: Mapping[Key, datetime]


def reconcile(
    incidents: Iterable[Incident],
    sight: Sight,
    absent_since: Mapping[Key, datetime],
    now: datetime,
) -> Reconciled:
    """Compare firing members with what the Alertmanagers have.

    A member absent everywhere for the policy's `close_after` is resolved. A sight that is not complete starts the
    counting anew for what it does not show: a gap must not count as absence.
    """
    if sight.reason is not SightReason.COMPLETE:
        return Reconciled((), {})
    since: dict[Key, datetime] = {}
    parts: list[DeliveryPart] = []
    for incident in incidents:
        if incident.is_own:
            continue  # its alerts are ours; no Alertmanager ever knew them
        over: list[Member] = []
        for member in incident.firing:
            if member.fingerprint in sight.present:
                continue
            first = absent_since.get((incident.id, member.fingerprint), now)
            if now - first >= incident.disposition.policy.close_after:
                over.append(member)
            else:
                since[incident.id, member.fingerprint] = first
        truncated = _still_truncated(incident, sight)
        if over or truncated != incident.truncated:
            parts.append(_made_up(incident, over, truncated, now))
    return Reconciled(tuple(parts), since)


def _still_truncated(incident: Incident, sight: Sight) -> int:
    """Members that a truncated delivery hid are over when no alert of the group is left at all."""
    if not incident.truncated or not incident.group_labels:
        return incident.truncated
    group = incident.group_labels.items()
    left = any(all(a.labels.get(k) == v for k, v in group) for a in sight.present.values())
    return incident.truncated if left else 0


def _made_up(
    incident: Incident, over: Iterable[Member], truncated: int, now: datetime
) -> DeliveryPart:
    return DeliveryPart(
        incident_id=incident.id,
        label_key=incident.label_key,
        disposition=incident.disposition,
        labels=incident.labels,
        alerts=tuple(_resolved(m, now) for m in over),
        received_at=now,
        receiver=incident.receiver,
        group_key=incident.group_key,
        group_labels=incident.group_labels,
        common_annotations=incident.common_annotations,
        external_url=incident.external_url,
        truncated=truncated,
    )


def _resolved(member: Member, now: datetime) -> Alert:
    return Alert(
        status=AlertStatus.RESOLVED,
        labels=member.labels,
        annotations=member.annotations,
        starts_at=member.starts_at,
        ends_at=now,
        generator_url=member.generator_url,
        fingerprint=member.fingerprint,
    )
