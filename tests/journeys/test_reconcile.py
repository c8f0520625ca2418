"""Resolved alerts that a real Alertmanager never reports: silenced, inhibited. And one that merely forgot: restarted."""

import json
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from prometheus_client import CollectorRegistry
from werkzeug.serving import BaseWSGIServer, make_server

from alerts2gh.metrics import ReconcileMetrics
from alerts2gh.reconciliation import SightReason
from alerts2gh.webhook import install_webhook
from alerts2gh.worker import Reconciler
from chassis.alertmanager import Alert
from chassis.monitoring import Access, AlertmanagerClient
from chassis.telemetry import get_logger, new_registry
from chassis.webapp import create_app
from sandbox import programs
from tests.alerts2gh.world import World, a_world
from tests.journeys.service import wait_until

pytestmark = pytest.mark.slow

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
QUIET = 16 * MINUTE
BROKEN = {"alertname": "GPURuntimeError", "node": "gpu-n1"}
DOWN = {"alertname": "NodeDown", "node": "gpu-n1"}


def real_now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Manager:
    """An Alertmanager that posts to a world, and may be stopped and started again."""

    folder: Path
    port: int
    program: programs.Program | None = None
    ahead: timedelta = timedelta()
    """How far the test's clock was ahead of the real one when this was started again."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.program = programs.start_alertmanager(
            self.folder / "alertmanager.yaml", self.folder, self.port
        )
        self.program.wait_until_ready(f"{self.url}/-/ready")

    def stop(self) -> None:
        if self.program is not None:
            self.program.stop()

    def post(self, path: str, body: Any) -> None:
        request = urllib.request.Request(
            f"{self.url}/api/v2/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=5) as answer:
            assert answer.status == 200

    def fire(self, labels: dict[str, str], starts_at: datetime, ends_at: datetime) -> None:
        span = {"startsAt": starts_at.isoformat(), "endsAt": ends_at.isoformat()}
        self.post("alerts", [{"labels": labels, "annotations": {}, **span}])

    def silence(self, node: str) -> None:
        matcher = {"name": "node", "value": node, "isRegex": False, "isEqual": True}
        span = {
            "startsAt": real_now().isoformat(),
            "endsAt": (real_now() + HOUR).isoformat(),
        }
        words = {"createdBy": "test", "comment": "maintenance"}
        self.post("silences", {"matchers": [matcher], **span, **words})

    def suppressed(self) -> int:
        """How many alerts it would not send now."""
        asked = urllib.parse.urlencode({"active": "false", "silenced": "true", "inhibited": "true"})
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts?{asked}", timeout=5) as answer:
            return len(json.load(answer))

    def alerts(self) -> tuple[Alert, ...]:
        return AlertmanagerClient(Access(self.url)).alerts()

    def started_at(self) -> datetime:
        """On the test's clock."""
        return AlertmanagerClient(Access(self.url)).started_at() + self.ahead


@dataclass
class Scene:
    """A world that a real Alertmanager posts to, and a reconciler that asks it; the world's clock is the test's."""

    world: World
    manager: Manager
    reconciler: Reconciler

    def wait_for_news(self) -> None:
        wait_until("a webhook", lambda: self.world.store.backlog() > 0, 20)
        self.world.settle()

    def restart(self) -> None:
        self.manager.stop()
        self.manager.ahead = self.world.clock.at - real_now()
        self.manager.start()

    def reconcile_for(self, span: timedelta) -> list[SightReason]:
        """A comparison every minute; nothing may come from Alertmanager itself."""
        seen = []
        for _ in range(span // MINUTE):
            assert self.world.store.backlog() == 0
            seen.append(self.reconciler.turn())
            self.world.settle()
            self.world.advance(MINUTE)
        return seen


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as one:
        one.clock.at = real_now() + HOUR  # so that the Alertmanager has been running for an hour
        yield one


@pytest.fixture
def receiver(world: World) -> Iterator[BaseWSGIServer]:
    log = get_logger("test")
    registry = new_registry("alerts2gh", "0")
    app = create_app("alerts2gh", registry=registry, log=log, max_body_bytes=1_000_000, auth=None)
    install_webhook(app, world.intake, 1_000_000)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def scene(world: World, receiver: BaseWSGIServer, tmp_path: Path) -> Iterator[Scene]:
    if programs.find("prometheus-alertmanager") is None:
        pytest.skip(programs.HOW_TO_GET["prometheus-alertmanager"])
    url = f"http://127.0.0.1:{receiver.server_port}/v1/webhook"
    config = {
        "route": {
            "receiver": "alerts2gh",
            "group_by": ["alertname"],
            "group_wait": "100ms",
            "group_interval": "500ms",
            "repeat_interval": "4h",
        },
        "receivers": [
            {"name": "alerts2gh", "webhook_configs": [{"url": url, "send_resolved": True}]}
        ],
        "inhibit_rules": [
            {
                "source_matchers": ["alertname=NodeDown"],
                "target_matchers": ["alertname=GPURuntimeError"],
                "equal": ["node"],
            }
        ],
    }
    (tmp_path / "alertmanager.yaml").write_text(yaml.safe_dump(config))
    manager = Manager(tmp_path, programs.free_port())
    reconciler = Reconciler(
        world.store,
        lambda: {manager.url: manager},
        every=lambda: MINUTE,
        poke=lambda: None,
        clock=world.clock,
        metrics=ReconcileMetrics(CollectorRegistry()),
        log=structlog.wrap_logger(structlog.ReturnLogger()),
    )
    manager.start()
    try:
        yield Scene(world, manager, reconciler)
    finally:
        manager.stop()


def test_an_alert_that_resolves_while_silenced_closes_its_issue(scene: Scene) -> None:
    began = real_now()
    scene.manager.fire(BROKEN, began, began + HOUR)
    scene.wait_for_news()
    assert scene.world.states() == ["open"]
    scene.manager.silence("gpu-n1")
    wait_until("the silence", lambda: scene.manager.suppressed() == 1)
    assert set(scene.reconcile_for(2 * QUIET)) == {SightReason.COMPLETE}
    assert scene.world.incident().is_firing

    scene.manager.fire(BROKEN, began, real_now())
    wait_until("its end", lambda: scene.manager.suppressed() == 0)
    scene.reconcile_for(QUIET)
    assert not scene.world.incident().is_firing
    scene.reconcile_for(QUIET)

    assert scene.world.states() == ["closed"]


def test_an_alert_that_resolves_while_inhibited_closes_its_issue(scene: Scene) -> None:
    began = real_now()
    scene.manager.fire(BROKEN, began, began + HOUR)
    scene.wait_for_news()
    scene.manager.fire(DOWN, began, began + HOUR)
    scene.wait_for_news()
    assert scene.world.states() == ["open", "open"]
    wait_until("the inhibition", lambda: scene.manager.suppressed() == 1)

    scene.manager.fire(BROKEN, began, real_now())
    wait_until("its end", lambda: scene.manager.suppressed() == 0)
    scene.reconcile_for(2 * QUIET)

    states = {issue.title.split()[0]: issue.state for issue in scene.world.issues()}
    assert states == {"GPURuntimeError": "closed", "NodeDown": "open"}


def test_an_alert_that_a_restarted_alertmanager_has_forgotten_goes_on(scene: Scene) -> None:
    began = real_now()
    scene.manager.fire(BROKEN, began, began + HOUR)
    scene.wait_for_news()
    assert scene.reconciler.turn() is SightReason.COMPLETE
    scene.manager.stop()
    assert set(scene.reconcile_for(QUIET)) == {SightReason.UNREACHABLE}

    scene.restart()
    assert scene.manager.alerts() == ()
    assert set(scene.reconcile_for(8 * MINUTE)) == {SightReason.JUST_STARTED}
    scene.manager.fire(BROKEN, began, began + HOUR)  # Prometheus sends what fires again and again
    wait_until("the alert", lambda: len(scene.manager.alerts()) == 1)
    assert SightReason.COMPLETE in scene.reconcile_for(2 * QUIET)

    assert scene.world.incident().is_firing
    assert scene.world.states() == ["open"]


def test_an_alert_that_ended_while_alertmanager_was_down_closes_its_issue_in_the_end(
    scene: Scene,
) -> None:
    began = real_now()
    scene.manager.fire(BROKEN, began, began + HOUR)
    scene.wait_for_news()
    scene.restart()

    seen = scene.reconcile_for(10 * MINUTE + 2 * QUIET)

    assert seen[0] is SightReason.JUST_STARTED
    assert seen[-1] is SightReason.COMPLETE
    assert scene.world.states() == ["closed"]
