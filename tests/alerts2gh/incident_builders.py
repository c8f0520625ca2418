"""Incidents for tests, with defaults for everything a test does not speak of."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from alerts2gh.config import AssigneeSource, IssuePolicy, TemplateNames
from alerts2gh.incident import Disposition, Incident, Member, Target
from chassis.alertmanager import AlertStatus

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
ID = "0123456789abcdef0123456789abcdef"


def a_member(
    name: str = "m1",
    *,
    firing: bool = True,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    started: datetime = NOW,
    ended: datetime | None = None,
    generator_url: str = "",
) -> Member:
    return Member(
        fingerprint=name,
        status=AlertStatus.FIRING if firing else AlertStatus.RESOLVED,
        starts_at=started,
        ends_at=None if firing else (ended or started + timedelta(hours=1)),
        changed_at=started,
        labels=labels if labels is not None else {"alertname": "GPUDown", "node": name},
        annotations=annotations or {},
        generator_url=generator_url,
    )


def an_incident(
    members: Sequence[Member] = (),
    *,
    labels: Mapping[str, str] | None = None,
    templates: TemplateNames | None = None,
    assignees: Sequence[AssigneeSource] = (),
    **more: Any,
) -> Incident:
    fields: dict[str, Any] = {
        "id": ID,
        "label_key": ID,
        "disposition": Disposition(
            Target("default", "octo-org", "alerts"),
            "gpu",
            IssuePolicy(),
            templates or TemplateNames(),
            assignees=tuple(assignees),
        ),
        "labels": {"alertname": "GPUDown"} if labels is None else labels,
        "first_seen_at": NOW,
        "last_delivery_at": NOW,
        "members": {member.fingerprint: member for member in members or (a_member(),)},
    }
    return Incident(**(fields | more))
