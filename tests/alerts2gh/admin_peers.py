"""A service in this process without its threads, for tests of what it answers to the admin."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog
from flask.testing import FlaskClient

from alerts2gh.incident import DeliveryPart, Incident, Issue, fold, new_incident
from alerts2gh.service import Service
from alerts2gh.store import SQLStore
from chassis.telemetry import new_registry
from tests.alerts2gh.store_builders import NOW, TTL, a_part, an_issue, open_migrated
from tests.alerts2gh.world import configuration

UNREACHED = "http://127.0.0.1:9"
TOKEN = "t0ken"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Peer:
    """The service, its store, and a client of its HTTP face."""

    service: Service
    store: SQLStore
    client: FlaskClient

    def rung(self) -> int:
        """How often the worker was woken."""
        return self.service._loop._bell.heard()

    def filed(
        self, part: DeliveryPart | None = None, issue: Issue | None = None, **changes: Any
    ) -> Incident:
        """Store an incident with an issue, as the worker would have left it."""
        part = part or a_part()
        self.store.lease_targets("test", NOW, TTL)
        self.store.accept([part])
        self.store.lease_targets("test", NOW, TTL)
        _, parts = self.store.load(part.incident_id)
        incident = fold(new_incident(part), part).incident
        incident = replace(incident, issue=issue or an_issue(), untold=(), **changes)
        folded = [seq for seq, _ in parts]
        return self.store.save(incident, folded=folded, wake_at=None, owner="test")


@contextmanager
def a_service(
    folder: Path,
    *,
    base_url: str = UNREACHED,
    auth: Mapping[str, Any] | None = None,
    now: datetime = NOW,
    **changes: Any,
) -> Iterator[Peer]:
    """A service with these sections of the configuration changed; `token` and `password` are files beside it."""
    (folder / "token").write_text(TOKEN)
    (folder / "password").write_text("pass")
    sections = {**changes, "auth": dict(auth)} if auth else changes
    config = configuration(folder, base_url, sections)
    store = open_migrated(config.database, now=lambda: now)
    service = Service(
        config,
        new_registry("alerts2gh", "1.2.3"),
        structlog.wrap_logger(structlog.ReturnLogger()),
        store=store,
        owner="test",
        clock=lambda: now,
        version="1.2.3",
    )
    try:
        yield Peer(service, store, service._application(config).test_client())
    finally:
        service.close()
