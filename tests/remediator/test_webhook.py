"""POST /v1/webhook and the pages: what a sender and a person are told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from flask import Flask
from prometheus_client import CollectorRegistry

from chassis.config import SecretFile
from chassis.errors import TemporaryError
from chassis.webapp import AuthSettings, create_app
from remediator.cluster import BreakerState, Fleet, NodeView, Pause
from remediator.intake import Intake
from remediator.metrics import IntakeMetrics
from remediator.operation import HeldBy, NodeOperation, Phase, Reason
from remediator.webhook import Page, Receiver, install_page, install_webhook, protected_prefixes
from tests.journeys.remediator_world import webhook
from tests.remediator.building import NOW, config_of, fleet_of, node_of, pinned, playbook_of
from tests.remediator.test_intake import MemoryDoor

PLAYBOOK = playbook_of(
    match=['alertname="GPURuntimeError"'],
    proof={"soak": "1m", "deadline": "10m", "alerts": False},
)


class Away(MemoryDoor):
    def find_node(self, name: str) -> NodeView | None:
        raise TemporaryError(f"the API cannot be asked about {name}")


def app_of(
    door: MemoryDoor,
    operations: tuple[NodeOperation, ...] = (),
    fleet: Fleet | None = None,
    auth: AuthSettings | None = None,
) -> Flask:
    registry, log = CollectorRegistry(), structlog.get_logger()
    metrics = IntakeMetrics(registry)
    budget = {"name": "all", "max_unavailable": 2}
    config = config_of(PLAYBOOK, budgets=[budget])
    app = create_app(
        "remediator",
        registry=registry,
        log=log,
        max_body_bytes=100_000,
        auth=auth,
        protected_prefixes=protected_prefixes(auth),
    )
    intake = Intake(door, lambda: config, clock=lambda: NOW, metrics=metrics, log=log)
    install_webhook(app, Receiver(intake, metrics))
    page = Page(
        operations=lambda: operations,
        fleet=lambda: fleet or fleet_of(node_of()),
        config=lambda: config,
        leads=lambda: True,
        clock=lambda: NOW,
        protected=auth,
    )
    install_page(app, page)
    return app


@pytest.mark.parametrize(
    ("body", "result"),
    [
        (webhook("n1"), "created"),
        (webhook("n1", status="resolved"), "resolved"),
        (webhook("n9"), "unknown_node"),
        (webhook("n1", alertname="Other"), "no_playbook"),
        (webhook(""), "no_node_label"),
    ],
    ids=["a fault", "resolved only", "unknown node", "no match", "no node named"],
)
def test_every_alert_is_answered_with_what_became_of_it(body: dict[str, Any], result: str) -> None:
    answer = app_of(MemoryDoor()).test_client().post("/v1/webhook", json=body)

    assert answer.status_code == 200
    assert answer.get_json()["alerts"][0]["result"] == result


def test_a_cluster_that_is_away_is_503_so_that_alertmanager_comes_again() -> None:
    answer = app_of(Away()).test_client().post("/v1/webhook", json=webhook("n1"))

    assert (answer.status_code, answer.get_json()["reason"]) == (503, "temporary_error")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "bad_json"),
        (b"{}", "custom_payload"),
        (b'{"version":"3","alerts":[]}', "wrong_version"),
    ],
)
def test_what_is_no_webhook_is_refused_with_what_to_do(body: bytes, reason: str) -> None:
    answer = app_of(MemoryDoor()).test_client().post("/v1/webhook", data=body)

    assert (answer.status_code, answer.get_json()["reason"]) == (400, reason)


HELD = pinned(held_by=(HeldBy("window", "outside the <maintenance> windows"),))


def test_the_first_page_shows_operations_budgets_breaker_and_pause() -> None:
    fleet = fleet_of(
        node_of(),
        node_of("n2", ready="Unknown"),
        pause=Pause("ann", "moving racks"),
        breaker=BreakerState(open=True, since=NOW, text="too many at once"),
    )
    stuck = replace(pinned("no-2", Phase.ESCALATED, node="n2"))

    page = app_of(MemoryDoor(), (HELD, stuck), fleet).test_client().get("/").get_data(as_text=True)

    for text in ("moving racks", "too many at once", "no-1", "no-2", "Escalated", ">all<"):
        assert text in page


def test_what_cannot_be_read_and_taints_without_an_owner_are_shown_with_what_to_do() -> None:
    fleet = fleet_of(
        node_of(operation_taint="no-broken"),
        node_of("n2", operation_taint="no-gone"),
        node_of("n3", operation_taint="no-1"),
        unreadable={"no-broken": "NodeOperation no-broken: status.phase <must> be one of"},
    )
    client = app_of(MemoryDoor(), (HELD,), fleet).test_client()

    page = " ".join(client.get("/").get_data(as_text=True).split())

    assert "Operation no-broken cannot be read" in page
    assert "status.phase &lt;must&gt; be one of" in page
    assert "It keeps n1 isolated." in page
    assert "kubectl delete nodeoperation no-broken" in page
    assert "Node n2 is isolated by no-gone, which is no operation any more" in page
    assert "kubectl taint node n2 nodemend.dev/operation-" in page
    assert "Node n3 is isolated" not in page


def test_an_operations_page_escapes_what_it_was_told_and_runs_nothing() -> None:
    answer = app_of(MemoryDoor(), (HELD,)).test_client().get("/operations/no-1")
    page = answer.get_data(as_text=True)

    assert "outside the &lt;maintenance&gt; windows" in page
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_an_operation_that_is_not_there_is_404() -> None:
    answer = app_of(MemoryDoor()).test_client().get("/operations/no-9")

    assert (answer.status_code, answer.get_json()["reason"]) == (404, "not_found")


def test_a_stranger_sees_numbers_only(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("let-me-in")
    auth = AuthSettings(bearer_token_file=(SecretFile(tmp_path / "token"),))
    client = app_of(MemoryDoor(), (HELD,), auth=auth).test_client()

    assert "no-1" not in client.get("/").get_data(as_text=True)
    assert client.get("/operations/no-1").status_code == 401
    known = client.get("/", headers={"Authorization": "Bearer let-me-in"})
    assert "no-1" in known.get_data(as_text=True)


def test_the_page_of_an_escalated_operation_says_what_to_do_next() -> None:
    stuck = pinned("no-2", Phase.ESCALATED, reason=Reason.AMBIGUOUS)
    client = app_of(MemoryDoor(), (stuck, HELD)).test_client()

    page = client.get("/operations/no-2").get_data(as_text=True)
    assert "look at the node before anything else" in page
    assert "<code>remediator release n1</code>" in page
    assert "look at the node" not in client.get("/operations/no-1").get_data(as_text=True)
