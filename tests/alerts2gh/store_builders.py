"""Alerts, parts and incidents for the tests of the store, with defaults for all that does not matter."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alerts2gh.config import Database, IssuePolicy
from alerts2gh.incident import (
    DeliveryPart,
    Disposition,
    Incident,
    Issue,
    IssueState,
    Target,
    fold,
    incident_id,
    label_key,
    new_incident,
)
from alerts2gh.store import SQLStore, open_store
from chassis.alertmanager import Alert, AlertStatus, fingerprint

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TTL = timedelta(seconds=30)
TARGET = Target("main", "acme", "nodes")
POLICY = IssuePolicy()


def an_alert(
    node: str = "node-1",
    status: AlertStatus = AlertStatus.FIRING,
    *,
    starts_at: datetime = NOW,
    **fields: Any,
) -> Alert:
    labels = {"alertname": "GPURuntimeError", "node": node}
    given = {
        "status": status,
        "labels": labels,
        "annotations": {"summary": f"{node} is broken"},
        "starts_at": starts_at,
        "ends_at": None,
        "generator_url": "http://prometheus/graph",
        "fingerprint": fingerprint(labels),
    }
    return Alert(**{**given, **fields})


def a_part(
    name: str = "GPURuntimeError",
    *alerts: Alert,
    target: Target = TARGET,
    received_at: datetime = NOW,
    labels: Mapping[str, str] | None = None,
) -> DeliveryPart:
    labels = {"alertname": name} if labels is None else labels
    return DeliveryPart(
        incident_id=incident_id(target, labels),
        label_key=label_key(labels),
        disposition=Disposition(target, "default", POLICY),
        labels=labels,
        alerts=alerts or (an_alert(),),
        received_at=received_at,
        receiver="alerts2gh",
        group_labels=labels,
    )


def an_issue(state: IssueState = IssueState.OPEN, **fields: Any) -> Issue:
    given = {
        "number": 7,
        "url": "https://github.example/acme/nodes/issues/7",
        "repository": "acme/nodes",
        "state": state,
        "created_at": NOW,
    }
    return Issue(**{**given, **fields})


def an_incident(part: DeliveryPart | None = None) -> Incident:
    part = part or a_part()
    return fold(new_incident(part), part).incident


def saved_from(
    store: SQLStore,
    part: DeliveryPart,
    *,
    owner: str = "me",
    wake_at: datetime | None = None,
) -> Incident:
    """Accept a part and fold and save it as the worker would."""
    store.accept([part])
    store.lease_targets(owner, NOW, TTL)
    incident, parts = store.load(part.incident_id)
    incident = incident or new_incident(part)
    for _, each in parts:
        incident = fold(incident, each).incident
    return store.save(incident, folded=[seq for seq, _ in parts], wake_at=wake_at, owner=owner)


def open_migrated(database: Database, *, now: Callable[[], datetime]) -> SQLStore:
    """Open a store; a new file begins as a copy of one with all tables, which takes a third of the time."""
    if database.sqlite_file and not database.sqlite_file.exists():
        database.sqlite_file.write_bytes(_with_all_tables())
    return open_store(database, now=now)


@cache
def _with_all_tables() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "empty.db"
        open_store(Database(sqlite_file=file), now=lambda: NOW).close()
        return file.read_bytes()
