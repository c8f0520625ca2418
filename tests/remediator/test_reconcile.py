"""The leader's loop: the intent is stored before the effect, nothing happens after the term, nothing is forgotten."""

import threading
import time
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from chassis.errors import PermanentError, TemporaryError
from chassis.kube_lease import Term
from remediator.cluster import BreakerState, NodeView
from remediator.config import Config
from remediator.intake import Intake
from remediator.metrics import IntakeMetrics, ReconcileMetrics
from remediator.operation import (
    HeldBy,
    NodeOperation,
    OperationStatus,
    Phase,
    Reason,
    Trigger,
    operation_name,
)
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
OTHER_CONDITION = {"any": [{"type": "DiskPressure"}]}


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
    assert cluster.log == ["Reserved", "Isolate"]
    operating.look("no-1")

    assert cluster.log[:3] == ["Reserved", "Isolate", "Draining"]
    assert cluster.log.index("Executing") < cluster.log.index("CreateJob")


def test_steps_that_nothing_comes_between_are_one_write_and_each_is_in_the_history() -> None:
    cluster = MemoryCluster().put(operation_of())
    told: list[tuple[str, str]] = []

    def recorded(before: NodeOperation, after: NodeOperation) -> None:
        told.append((before.status.phase.value, after.status.phase.value))

    operating = Operating(around(cluster, recorded=recorded))
    operating.look("no-1")
    operating.look("no-1")

    (stored,) = cluster.operations()
    steps = ["Gated", "Reserved", "Isolated", "Draining", "Executing"]
    assert list(dict.fromkeys(each.phase.value for each in stored.status.history)) == steps
    assert told[:4] == list(pairwise(["Received", *steps]))[:4]


def test_a_conflict_leaves_none_of_the_steps_of_a_write() -> None:
    cluster = MemoryCluster(conflicts=1).put(operation_of())
    told: list[str] = []

    def recorded(_: NodeOperation, after: NodeOperation) -> None:
        told.append(after.name)

    Operating(around(cluster, recorded=recorded)).look("no-1")

    (stored,) = cluster.operations()
    assert (stored.status.phase, stored.status.history, told) == (Phase.RECEIVED, (), [])


def test_once_the_term_is_over_nothing_is_written_and_nothing_done() -> None:
    cluster = MemoryCluster().put(operation_of())
    steps = iter([True, False])

    Operating(around(cluster, leads=lambda: next(steps, False))).look("no-1")

    assert cluster.log == ["Reserved"]


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


def unreadable(cluster: MemoryCluster, *, deleting: bool = True) -> MemoryCluster:
    cluster.put(operation_of())
    kept = cluster.kept["no-1"]
    kept.operation, kept.problem, kept.deleting = None, "status.phase is wrong", deleting
    return cluster


UNREADABLE = {
    "U1 while it stands nothing is done about it": (False, None, timedelta(0), ["no-1"]),
    "U2 deleted, it keeps the node that carries its taint": (True, "no-1", timedelta(0), ["no-1"]),
    "U3 deleted, it goes when no node does": (True, None, timedelta(0), []),
    "U4 another one's taint is not its": (True, "no-2", timedelta(0), []),
    "U5 nodes that were read long ago tell nothing": (True, None, HOUR, ["no-1"]),
}


@pytest.mark.parametrize("sentence", UNREADABLE)
def test_an_object_that_cannot_be_read_is_left_to_a_person_and_can_be_deleted(
    sentence: str,
) -> None:
    deleting, taint, age, left = UNREADABLE[sentence]
    node = faulty(operation_taint=taint)
    fleet = fleet_of(node, as_of=NOW - age)
    cluster = unreadable(MemoryCluster(node=node, fleet_now=fleet), deleting=deleting)

    until = Operating(around(cluster)).look("no-1")

    assert list(cluster.kept) == left
    assert until == (NOW + 60 * SECOND if left else None)
    assert cluster.log == ([] if left else ["finalizer off"])


@pytest.mark.parametrize("left", [faulty(), None], ids=["the taint", "the whole node"])
def test_an_object_that_cannot_be_read_goes_as_soon_as_nothing_carries_its_taint(
    left: NodeView | None,
) -> None:
    tainted = faulty(operation_taint="no-1")
    cluster = unreadable(MemoryCluster(node=tainted, fleet_now=fleet_of(tainted)))
    one = reconciler(cluster)

    def freed() -> bool:
        if one.last_turn is not None and cluster.fleet_now == fleet_of(tainted):
            cluster.fleet_now = fleet_of(*([left] if left else []))
            one.node_changed(tainted, left)
        return "no-1" not in cluster.kept

    lead_until(one, freed)


def test_an_object_that_cannot_be_read_is_not_let_go_by_one_that_leads_no_more() -> None:
    cluster = unreadable(MemoryCluster())

    Operating(around(cluster, leads=lambda: False)).look("no-1")

    assert list(cluster.kept) == ["no-1"]


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
    configs: list[Config] = changes.pop("configs", [changes.pop("config", config_of())])
    intake = Intake(
        door or MemoryDoor(),
        lambda: configs[-1],
        clock=lambda: cluster.now,
        metrics=IntakeMetrics(CollectorRegistry()),
        log=LOG,
    )
    return Reconciler(
        cluster,
        intake,
        config=lambda: configs[-1],
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
    young = pinned(
        "no-new", Phase.SUCCEEDED, isolated=False, ended_at=NOW, clear_since=NOW, episode=2
    )
    stuck = pinned("no-stuck", Phase.ESCALATED, ended_at=long_ago)
    cluster = MemoryCluster(node=node_of()).put(old, young, stuck)
    one = reconciler(cluster)
    threading.Timer(0.3, lambda: setattr(cluster, "now", NOW + 90 * SECOND)).start()

    lead_until(one, lambda: "remove no-old" in cluster.log)

    assert set(cluster.kept) == {"no-new", "no-stuck"}


LONG_AGO = NOW - timedelta(days=40)
KEPT: dict[str, tuple[dict[str, Any], bool]] = {
    "K1 a node's last one numbers its episodes": ({}, True),
    "K2 one of an earlier node of the name does not": ({"node_uid": "uid-old"}, False),
    "K3 one of a node that is gone does not": ({"node": "n9"}, False),
}


@pytest.mark.parametrize("sentence", KEPT)
def test_the_last_operation_of_a_node_is_kept_as_long_as_the_node(sentence: str) -> None:
    changes, kept = KEPT[sentence]
    last = pinned(
        "no-last",
        Phase.SUCCEEDED,
        isolated=False,
        ended_at=LONG_AGO,
        clear_since=LONG_AGO,
        **changes,
    )
    cluster = MemoryCluster(node=node_of()).put(last)
    threading.Timer(0.2, lambda: setattr(cluster, "now", NOW + 90 * SECOND)).start()

    lead_until(reconciler(cluster), lambda: "tidy" in cluster.log)

    assert ("no-last" in cluster.kept) is kept


def test_the_end_of_one_operation_wakes_those_that_wait() -> None:
    ending = pinned("no-1", Phase.RELEASING, reason=Reason.CANCELLED_BY_PERSON)
    waiting = pinned("no-2", node="n1", held_by=(HeldBy("busy_node", "no-1 is active"),))
    cluster = MemoryCluster(node=faulty(operation_taint="no-1")).put(waiting, ending)

    lead_until(reconciler(cluster), lambda: cluster.log.count("Isolate") == 1)

    # The clock stands still, so nothing but the end of the first can have woken the second.
    assert cluster.log.index("Cancelled") < cluster.log.index("Reserved")
    assert cluster.node.operation_taint == "no-2"


def test_a_playbook_that_comes_with_a_reload_takes_conditions_that_stand_already() -> None:
    door, configs = MemoryDoor(), [config_of(playbook_of(conditions=OTHER_CONDITION))]
    cluster = MemoryCluster()
    one = reconciler(cluster, door, configs=configs)

    def reloaded() -> bool:
        if not door.kept and one.last_turn is not None and len(configs) == 1:
            configs.append(config_of())
            one.config_changed()
        return bool(door.kept)

    lead_until(one, reloaded)


def test_a_condition_of_a_node_whose_operation_cannot_be_read_is_looked_at_again() -> None:
    door = MemoryDoor(unreadable={operation_name("uid-n1", 1)})
    cluster = MemoryCluster()
    one = reconciler(cluster, door)

    def mended() -> bool:
        if one.last_turn is not None and door.unreadable:
            door.unreadable.clear()
            cluster.now += 2 * 60 * SECOND
        return bool(door.kept)

    lead_until(one, mended)


class OneRefused(MemoryCluster):
    """Writes of no-1 are refused for good, as by a definition that has become stricter."""

    def record(self, operation: NodeOperation, status: OperationStatus) -> NodeOperation:
        if operation.name == "no-1":
            raise PermanentError("refused")
        return super().record(operation, status)


def test_an_operation_that_cannot_be_written_holds_up_no_other_when_leadership_begins() -> None:
    waits = replace(operation_of("no-2", node="n2"), uid="uid-2")
    cluster = OneRefused().put(operation_of(), waits)

    def since(name: str) -> datetime | None:
        operation = cluster.kept[name].operation
        assert operation is not None
        return operation.status.since

    lead_until(reconciler(cluster), lambda: since("no-2") is not None)

    assert since("no-1") is None


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
