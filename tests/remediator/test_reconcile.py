"""The leader's loop: the intent is stored before the effect, nothing happens after the term, nothing is forgotten."""

import threading
import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from chassis.errors import TemporaryError
from chassis.kube_lease import Term
from remediator.cluster import BreakerState
from remediator.config import Config
from remediator.intake import Intake
from remediator.metrics import IntakeMetrics, ReconcileMetrics
from remediator.operation import NodeOperation, Phase, Trigger
from remediator.reconcile import Agenda, Operating, Reconciler, Surroundings
from tests.remediator.building import (
    HOUR,
    NOW,
    SECOND,
    config_of,
    faulty,
    fleet_of,
    node_of,
    operation_of,
    pinned,
    playbook_of,
)
from tests.remediator.memory_cluster import MemoryCluster
from tests.remediator.test_intake import MemoryDoor

LOG = structlog.get_logger()


def around(cluster: MemoryCluster, **changes: Any) -> Surroundings:
    config = changes.pop("config", config_of())
    whole: dict[str, Any] = {
        "cluster": cluster,
        "config": lambda: config,
        "clock": lambda: cluster.now,
        "leads": lambda: True,
        "told": lambda _: 0,
        "recorded": lambda _before, _after: None,
        "metrics": ReconcileMetrics(CollectorRegistry()),
        "log": LOG,
    }
    return Surroundings(**(whole | changes))


def test_an_operation_goes_as_far_as_it_can_and_each_effect_follows_its_stored_intent() -> None:
    cluster = MemoryCluster().put(operation_of())
    operating = Operating(around(cluster))

    assert operating.look("no-1") == NOW
    assert cluster.log == ["Gated", "Reserved", "Isolate"]
    operating.look("no-1")

    assert cluster.log[:5] == ["Gated", "Reserved", "Isolate", "Isolated", "Draining"]
    assert cluster.log.index("Executing") < cluster.log.index("CreateJob")


def test_once_the_term_is_over_nothing_is_written_and_nothing_done() -> None:
    cluster = MemoryCluster().put(operation_of())
    steps = iter([True, True, False])

    Operating(around(cluster, leads=lambda: next(steps, False))).look("no-1")

    assert cluster.log == ["Gated", "Reserved"]


def test_a_conflict_is_read_anew_and_tried_again_soon() -> None:
    cluster = MemoryCluster(conflicts=1).put(operation_of())
    operating = Operating(around(cluster))

    assert operating.look("no-1") == NOW + SECOND
    assert cluster.log == ["refresh no-1"]
    operating.look("no-1")
    assert "Isolate" in cluster.log


def test_the_breaker_is_stored_before_anything_is_done_in_its_light() -> None:
    nodes = [faulty(), *(node_of(f"x{n}", ready="False") for n in range(4))]
    cluster = MemoryCluster(fleet_now=fleet_of(*nodes)).put(pinned(since=NOW))
    config = config_of(breaker={"max_unavailable": 2, "min_nodes": 4})

    Operating(around(cluster, config=config)).look("no-1")

    assert isinstance(cluster.breaker, BreakerState)
    assert cluster.breaker.open
    assert cluster.log[0] == "breaker"
    assert "Isolate" not in cluster.log


def test_an_operation_made_by_hand_gets_our_finalizer_before_anything_else() -> None:
    cluster = MemoryCluster().put(operation_of(trigger=Trigger.MANUAL))
    cluster.kept["no-1"].has_finalizer = False

    Operating(around(cluster)).look("no-1")

    assert cluster.log[0] == "finalizer on"


def test_a_deleted_operation_goes_once_its_node_is_in_order() -> None:
    ended = pinned("no-1", Phase.CANCELLED, isolated=False, ended_at=NOW, deleting=True)
    tainted = MemoryCluster(node=faulty(operation_taint="no-1")).put(ended)

    Operating(around(tainted)).look("no-1")

    assert tainted.log == ["Release"] * tainted.log.count("Release") + ["finalizer off"]
    assert "no-1" not in tainted.kept


def test_an_object_that_cannot_be_read_ends_nothing_else() -> None:
    cluster = MemoryCluster().put(operation_of())
    cluster.kept["no-1"].operation = None

    assert Operating(around(cluster)).look("no-1") is None
    assert cluster.log == []


def test_how_far_alerts2gh_was_told_goes_with_the_next_write() -> None:
    cluster = MemoryCluster().put(operation_of())

    Operating(around(cluster, told=lambda _: 7)).look("no-1")

    (stored,) = cluster.operations()
    assert stored.status.told == 7


def test_leadership_is_handed_over_before_our_own_node_is_emptied() -> None:
    cluster = MemoryCluster().put(operation_of())
    given: list[str] = []

    def hand_over(operation: NodeOperation) -> bool:
        given.append(operation.name)
        return True

    operating = Operating(around(cluster, own_node="n1", hand_over=hand_over))
    operating.look("no-1")
    operating.look("no-1")

    assert given == ["no-1"]
    assert cluster.log[-1] == "Isolated"


def test_taking_over_makes_a_predecessors_late_write_a_conflict() -> None:
    cluster = MemoryCluster().put(pinned())
    (late,) = cluster.operations()

    Operating(around(cluster)).touch("no-1")

    with pytest.raises(TemporaryError):
        cluster.record(late, replace(late.status, phase=Phase.RESERVED))


def test_an_operation_that_rests_is_looked_at_until_its_fault_is_seen_clear() -> None:
    ended = pinned("no-1", Phase.CANCELLED, isolated=False, ended_at=NOW)
    cluster = MemoryCluster().put(ended)
    operating = Operating(around(cluster))

    assert operating.look("no-1") == NOW + 60 * SECOND

    cluster.node = node_of()
    cluster.put(replace(ended, status=replace(ended.status, clear_since=NOW)))
    assert operating.look("no-1") is None


# The agenda.


def test_what_is_woken_often_is_looked_at_once_and_in_the_order_it_came() -> None:
    agenda = Agenda(lambda: NOW)
    agenda.wake(["b", "a"])
    agenda.wake(["a", "b"])

    assert [agenda.take(0), agenda.take(0), agenda.take(0)] == ["b", "a", None]


def test_a_time_that_has_come_wakes_and_a_later_word_replaces_it() -> None:
    now = [NOW]
    agenda = Agenda(lambda: now[0])
    agenda.later("a", NOW + SECOND)
    agenda.later("b", NOW + SECOND)
    agenda.later("b", NOW + HOUR)
    agenda.later("c", NOW + SECOND)
    agenda.later("c", None)
    assert agenda.take(0) is None

    now[0] = NOW + 2 * SECOND
    assert [agenda.take(0), agenda.take(0)] == ["a", None]


def test_whoever_waits_is_woken_at_once() -> None:
    agenda = Agenda(lambda: NOW)
    threading.Timer(0.05, agenda.wake, [["a"]]).start()
    started = time.monotonic()

    assert agenda.take(10) == "a"
    assert time.monotonic() - started < 5


# A whole term.


def a_term() -> Term:
    return Term(time.monotonic, time.monotonic() + 60)


def reconciler(
    cluster: MemoryCluster, door: MemoryDoor | None = None, **changes: Any
) -> Reconciler:
    config: Config = changes.pop("config", config_of())
    intake = Intake(
        door or MemoryDoor(),
        lambda: config,
        clock=lambda: cluster.now,
        metrics=IntakeMetrics(CollectorRegistry()),
        log=LOG,
    )
    return Reconciler(
        cluster,
        intake,
        config=lambda: config,
        clock=lambda: cluster.now,
        metrics=ReconcileMetrics(CollectorRegistry()),
        log=LOG,
        **changes,
    )


def lead_until(one: Reconciler, holds: Any, seconds: float = 10) -> None:
    """Lead in a thread until something holds; fail if it never does."""
    term = a_term()
    thread = threading.Thread(target=one.lead, args=(term,))
    thread.start()
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    term.set()
    one.nudge()
    thread.join(5)
    assert not thread.is_alive()
    assert holds()


def test_a_new_leader_looks_at_everything_that_is_stored() -> None:
    cluster = MemoryCluster().put(operation_of())

    lead_until(reconciler(cluster), lambda: "CreateJob" in cluster.log)

    assert cluster.log[-1] == "rest"


def test_a_condition_that_lasts_becomes_an_operation_at_the_start_of_a_term() -> None:
    door = MemoryDoor()

    lead_until(reconciler(MemoryCluster(), door), lambda: bool(door.kept))

    assert [each.spec.trigger for each in door.kept.values()] == [Trigger.CONDITION]


def test_an_outage_of_the_api_ends_nothing() -> None:
    cluster = MemoryCluster(failure=TemporaryError("away")).put(operation_of())
    one = reconciler(cluster)
    threading.Timer(0.2, lambda: setattr(cluster, "failure", None)).start()
    moving = threading.Timer(0.3, lambda: setattr(cluster, "now", NOW + 5 * SECOND))
    moving.start()

    lead_until(one, lambda: "Isolate" in cluster.log)


def test_finished_operations_go_once_they_count_for_nothing() -> None:
    long_ago: datetime = NOW - timedelta(days=40)
    old = pinned("no-old", Phase.SUCCEEDED, isolated=False, ended_at=long_ago, clear_since=long_ago)
    young = pinned("no-new", Phase.SUCCEEDED, isolated=False, ended_at=NOW, clear_since=NOW)
    stuck = pinned("no-stuck", Phase.ESCALATED, ended_at=long_ago)
    cluster = MemoryCluster(node=node_of()).put(old, young, stuck)
    one = reconciler(cluster)
    threading.Timer(0.3, lambda: setattr(cluster, "now", NOW + 90 * SECOND)).start()

    lead_until(one, lambda: "remove no-old" in cluster.log)

    assert set(cluster.kept) == {"no-new", "no-stuck"}


def test_whoever_handed_over_stands_back_for_a_while() -> None:
    cluster = MemoryCluster().put(operation_of())
    one = reconciler(cluster, own_node="n1", config=config_of(playbook_of()))
    term = a_term()
    one.lead(term)
    assert term.is_set()
    assert "Draining" not in cluster.log

    again = a_term()
    one.lead(again)
    assert not again.is_set()
    assert cluster.log.count("rest") == 1
