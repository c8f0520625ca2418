"""Incidents, alerts and deliveries with defaults, for tests that care about one thing each."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from alerts2gh.config import IssuePolicy
from alerts2gh.incident import (
    Assignment,
    ClosedBy,
    DeliveryPart,
    Disposition,
    Incident,
    Issue,
    IssueState,
    Member,
    Target,
    incident_id,
    label_key,
)
from chassis.alertmanager import Alert, AlertStatus, fingerprint

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
EARLIER = NOW - timedelta(minutes=30)
TARGET = Target("main", "acme", "alerts")
LABELS = {"alertname": "GPURuntimeError"}


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def an_alert(
    node: str = "gpu-n1",
    *,
    firing: bool = True,
    starts_at: datetime = NOW,
    annotations: Mapping[str, str] | None = None,
) -> Alert:
    labels = {"alertname": "GPURuntimeError", "node": node}
    return Alert(
        status=AlertStatus.FIRING if firing else AlertStatus.RESOLVED,
        labels=labels,
        annotations=annotations or {"summary": f"CUDA fails on {node}"},
        starts_at=starts_at,
        ends_at=None if firing else starts_at + minutes(1),
        generator_url="http://prometheus.example/graph",
        fingerprint=fingerprint(labels),
    )


def a_disposition(policy: IssuePolicy | None = None, **others: Any) -> Disposition:
    return Disposition(
        target=others.pop("target", TARGET),
        route="default",
        policy=policy or IssuePolicy(),
        issue_labels=("alerts2gh",),
        **others,
    )


def a_part(
    *alerts: Alert,
    received_at: datetime = NOW,
    disposition: Disposition | None = None,
    truncated: int = 0,
) -> DeliveryPart:
    disposition = disposition or a_disposition()
    return DeliveryPart(
        incident_id=incident_id(disposition.target, LABELS),
        label_key=label_key(LABELS),
        disposition=disposition,
        labels=LABELS,
        alerts=alerts,
        received_at=received_at,
        receiver="team",
        group_key='{}:{alertname="GPURuntimeError"}',
        group_labels=LABELS,
        external_url="http://alertmanager.example:9093",
        truncated=truncated,
    )


def a_member(
    node: str = "gpu-n1",
    *,
    firing: bool = True,
    starts_at: datetime = EARLIER,
    changed_at: datetime = EARLIER,
    annotations: Mapping[str, str] | None = None,
) -> Member:
    alert = an_alert(node, firing=firing, starts_at=starts_at, annotations=annotations)
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


def an_issue(
    *,
    state: IssueState = IssueState.OPEN,
    closed_by: ClosedBy | None = None,
    closed_at: datetime | None = None,
    block_hash: str = "as-written",
    **others: Any,
) -> Issue:
    return Issue(
        number=others.pop("number", 7),
        url="http://github.example/acme/alerts/issues/7",
        repository=others.pop("repository", "acme/alerts"),
        state=state,
        created_at=NOW - minutes(60),
        closed_by=closed_by,
        closed_at=closed_at,
        block_hash=block_hash,
        **others,
    )


def an_incident(
    *members: Member,
    issue: Issue | None = None,
    policy: IssuePolicy | None = None,
    **others: Any,
) -> Incident:
    disposition = others.pop("disposition", None) or a_disposition(policy)
    incident = Incident(
        id=incident_id(TARGET, LABELS),
        label_key=label_key(LABELS),
        disposition=disposition,
        labels=LABELS,
        first_seen_at=NOW - minutes(60),
        last_delivery_at=NOW,
        members=_by_fingerprint(members),
        issue=issue,
        assignment=others.pop("assignment", Assignment(settled=True)),
    )
    return replace(incident, **others)


def _by_fingerprint(members: Iterable[Member]) -> dict[str, Member]:
    return {m.fingerprint: m for m in members}
