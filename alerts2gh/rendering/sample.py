"""Made-up incidents, on which an admin's templates are tried when they are loaded.

Must not resemble anybody's: what they hold may appear in an error message.
"""

from datetime import UTC, datetime, timedelta

from alerts2gh.config import IssuePolicy
from alerts2gh.incident import (
    Assignment,
    Disposition,
    FoldReason,
    Incident,
    Member,
    PastIssue,
    Target,
    Transition,
)
from chassis.alertmanager import AlertStatus

_START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_LATER = _START + timedelta(minutes=10)


def sample_incidents() -> tuple[Incident, ...]:
    """One with a firing and a resolved alert and everything else set, one with nothing."""
    bare = Incident(
        id="0" * 32,
        label_key="0" * 32,
        disposition=Disposition(Target("sample", "octo-org", "alerts"), "sample", IssuePolicy()),
        labels={},
        first_seen_at=_START,
        last_delivery_at=_START,
    )
    return bare, _full(bare)


def _full(bare: Incident) -> Incident:
    labels = {"alertname": "SampleAlert", "severity": "critical"}
    members = [_member("a", AlertStatus.FIRING, labels), _member("b", AlertStatus.RESOLVED, labels)]
    return Incident(
        id="1" * 32,
        label_key="1" * 32,
        disposition=bare.disposition,
        labels=labels,
        first_seen_at=_START,
        last_delivery_at=_LATER,
        receiver="sample",
        group_labels=labels,
        external_url="https://alertmanager.example",
        truncated=1,
        members={member.fingerprint: member for member in members},
        untold=(
            Transition("a", AlertStatus.FIRING, _START, FoldReason.NEW_MEMBER),
            Transition("b", AlertStatus.RESOLVED, _LATER, FoldReason.RESOLVED),
        ),
        assignment=Assignment(by_us=("octocat",), source="static", notes=("a note",)),
        past=(PastIssue(1, "https://github.example/o/r/issues/1", "resolved", _START, _LATER),),
        flapping_until=_LATER,
    )


def _member(name: str, status: AlertStatus, labels: dict[str, str]) -> Member:
    return Member(
        fingerprint=name,
        status=status,
        starts_at=_START,
        ends_at=None if status is AlertStatus.FIRING else _LATER,
        changed_at=_LATER,
        labels={**labels, "node": f"node-{name}"},
        annotations={"summary": f"Node {name} is down", "runbook_url": "https://wiki.example/x"},
        generator_url="https://prometheus.example/graph",
    )
