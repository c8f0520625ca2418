"""Events are a courtesy: they appear on the operation and its node, and never hold anything up."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import structlog
from structlog.testing import capture_logs

from chassis.kube_client import EVENTS, KubeClient, KubeSettings
from remediator.kube_cluster import Events
from remediator.kube_cluster.events import events_of
from remediator.operation import HistoryEntry, NodeOperation, Phase, Reason
from tests.contracts.kubernetes_peers import kube, kubernetes_peer, wait_for
from tests.remediator.building import NOW, pinned
from tests.remediator.http_peer import dead_kubeconfig

__all__ = ["kube", "kubernetes_peer"]  # fixtures that are made elsewhere


def now() -> datetime:
    return datetime.now(UTC)


def an_operation(phase: Phase = Phase.GATED, number: int = 1, **changes: Any) -> NodeOperation:
    entry = HistoryEntry(number, NOW, phase, Reason.ACCEPTED, 0, 0, "so")
    whole = {"history": (entry,), "message": "waits for a window"} | changes
    return pinned("no-1", phase, **whole)


@contextmanager
def writing(client: KubeClient) -> Iterator[Events]:
    events = Events(client, clock=now, log=structlog.get_logger(), instance="pod-1")
    events.start()
    try:
        yield events
    finally:
        events.stop()


def stored(client: KubeClient, uid: str) -> list[dict[str, Any]]:
    """The Events about an operation of this UID and its node, oldest first."""
    found = client.list(EVENTS, "default").items
    ours = [each for each in found if f".{uid[:8]}." in each["metadata"]["name"]]
    return sorted(ours, key=lambda each: int(each["metadata"]["resourceVersion"]))


def test_each_new_phase_is_told_on_the_operation_and_on_its_node(kube: KubeClient) -> None:
    uid = str(uuid4())
    received = an_operation(Phase.RECEIVED, 1, uid=uid)
    reserved = an_operation(Phase.RESERVED, 2, uid=uid, reason=Reason.GATES_OPEN)
    stuck = an_operation(Phase.ESCALATED, 3, uid=uid, reason=Reason.RUNGS_EXHAUSTED)

    with writing(kube) as events:
        events.changed(received, reserved)
        events.changed(reserved, replace(reserved, annotations={"a": "b"}))  # no other phase
        events.changed(reserved, stuck)
        found = wait_for(lambda: len(stored(kube, uid)) == 4 and stored(kube, uid), "four Events")

    told = [
        (
            e["involvedObject"]["kind"],
            e["involvedObject"]["name"],
            e["type"],
            e["reason"],
            e["action"],
        )
        for e in found
    ]
    assert told == [
        ("NodeOperation", "no-1", "Normal", "Reserved", "GatesOpen"),
        ("Node", "n1", "Normal", "Reserved", "GatesOpen"),
        ("NodeOperation", "no-1", "Warning", "Escalated", "RungsExhausted"),
        ("Node", "n1", "Warning", "Escalated", "RungsExhausted"),
    ]
    assert [each["message"] for each in found[:2]] == [
        "waits for a window",
        "no-1 (gpu): waits for a window",
    ]
    assert found[0]["involvedObject"]["uid"] == uid
    assert found[0]["reportingComponent"] == "nodemend-remediator"


def test_a_step_that_is_told_again_after_a_crash_is_one_event(kube: KubeClient) -> None:
    uid = str(uuid4())
    before = an_operation(Phase.RECEIVED, uid=uid)
    for _ in range(2):
        with writing(kube) as events:
            events.changed(before, an_operation(Phase.RESERVED, 2, uid=uid))
            events.changed(before, an_operation(Phase.ISOLATED, 3, uid=uid))
            wait_for(lambda: len(stored(kube, uid)) >= 4, "the last Event")

    assert len(stored(kube, uid)) == 4


def test_a_long_name_and_a_long_message_still_make_an_event(kube: KubeClient) -> None:
    uid = str(uuid4())
    long = replace(an_operation(Phase.RESERVED, uid=uid, message="x" * 1024), name="n" * 253)

    with writing(kube) as events:
        events.changed(an_operation(Phase.GATED, uid=uid), long)
        wait_for(lambda: len(stored(kube, uid)) == 2, "both Events")


def test_of_a_burst_the_oldest_are_dropped_and_nobody_waits(kube: KubeClient) -> None:
    uid = str(uuid4())
    before = an_operation(Phase.RECEIVED, uid=uid)
    events = Events(kube, clock=now, log=structlog.get_logger())
    started = time.monotonic()
    for number in range(1, 1001):
        events.changed(before, an_operation(Phase.GATED, number, uid=uid))
    took = time.monotonic() - started

    events.start()
    first = wait_for(lambda: stored(kube, uid), "an Event")[0]
    events.stop()

    assert first["metadata"]["name"].endswith(".operation.745")
    assert took < 5
    assert len(stored(kube, uid)) < 256


@pytest.fixture
def nowhere(tmp_path: Path) -> Iterator[KubeClient]:
    """A client of an API that is away."""
    settings = KubeSettings(kubeconfig=dead_kubeconfig(tmp_path), timeout=timedelta(seconds=1))
    client = KubeClient(settings, structlog.get_logger())
    yield client
    client.close()


def test_an_api_that_is_away_is_said_once_and_holds_up_nothing(nowhere: KubeClient) -> None:
    before = an_operation(Phase.RECEIVED)
    with capture_logs() as logs, writing(nowhere) as events:
        for number in range(3):
            events.changed(before, an_operation(Phase.GATED, number))
        wait_for(lambda: not events._waiting, "the queue to be empty")

    assert [each["event"] for each in logs] == ["events_not_written"]


def test_before_the_node_is_known_and_while_it_only_waits_the_node_is_told_nothing() -> None:
    waits = an_operation(Phase.GATED)
    unknown = an_operation(Phase.NODE_GONE, node_uid="")

    for each in (waits, unknown):
        kinds = [event["involvedObject"]["kind"] for event in events_of(each, NOW, "pod-1")]
        assert kinds == ["NodeOperation"]
