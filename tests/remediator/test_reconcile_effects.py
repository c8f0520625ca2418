"""Effects run beside the deciding thread: one a name, none after the term, and no failure is lost."""

import threading
from dataclasses import replace

import pytest
import structlog
from prometheus_client import CollectorRegistry

from chassis.errors import PermanentError
from remediator.cluster import Effect, Fleet, NodeView, Observation
from remediator.config import Playbook
from remediator.metrics import ReconcileMetrics
from remediator.operation import NodeOperation, Phase
from remediator.reconcile import Agenda, Errands, Operating, Surroundings
from tests.remediator.building import NOW, SECOND, config_of, faulty, fleet_of, operation_of
from tests.remediator.memory_cluster import MemoryCluster

BUDGET = {"name": "gpu", "max_unavailable": 2}
NAMES = [f"n{number}" for number in range(6)]


class SlowCluster(MemoryCluster):
    """Many nodes; an effect waits until it is let go, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.under_way = threading.Semaphore(0)
        self.views: dict[str, NodeView] = {name: faulty(name) for name in NAMES}
        self.refused = False
        for number, name in enumerate(NAMES):
            self.put(replace(operation_of(f"no-{number}", node=name), uid=f"u{number}"))

    def observe(self, operation: NodeOperation, playbook: Playbook | None) -> Observation:
        assert playbook is not None
        return Observation(self.now, self.views[operation.spec.node], pods=())

    def fleet(self) -> Fleet:
        return fleet_of(*self.views.values(), as_of=self.now)

    def apply(self, operation: NodeOperation, effect: Effect) -> None:
        self.under_way.release()
        assert self.go.wait(10)
        if self.refused:
            raise PermanentError("refused")
        node = operation.spec.node
        self.views[node] = replace(self.views[node], operation_taint=operation.name)
        self.log.append(f"{type(effect).__name__} {node}")


class Desk:
    """An operating leader whose errands are real threads."""

    def __init__(self, *, leads: bool = True) -> None:
        self.cluster = SlowCluster()
        self.ended: list[str] = []
        self.end = threading.Semaphore(0)
        self.leads = leads
        self.errands = Errands(3, ended=self._ended)
        config = config_of(budgets=[BUDGET])
        self.operating = Operating(
            Surroundings(
                cluster=self.cluster,
                config=lambda: config,
                clock=lambda: self.cluster.now,
                leads=lambda: self.leads,
                told=lambda _: 0,
                recorded=lambda _before, _after: None,
                metrics=ReconcileMetrics(CollectorRegistry()),
                log=structlog.get_logger(),
                errands=self.errands,
            )
        )

    def _ended(self, name: str) -> None:
        self.ended.append(name)
        self.end.release()

    def look_at_all(self) -> None:
        for number in range(len(NAMES)):
            self.operating.look(f"no-{number}")

    def phases(self) -> list[Phase]:
        return [each.status.phase for each in self.cluster.operations()]


def test_a_slow_effect_holds_up_no_other_operation_and_no_budget_is_exceeded() -> None:
    desk = Desk()

    desk.look_at_all()

    assert desk.phases().count(Phase.RESERVED) == 2
    assert desk.phases().count(Phase.GATED) == 4
    assert all(desk.cluster.under_way.acquire(timeout=10) for _ in range(2))
    assert desk.operating.look("no-0") is None  # its end wakes it

    desk.cluster.go.set()
    assert all(desk.end.acquire(timeout=10) for _ in range(2))
    desk.errands.close()
    desk.look_at_all()

    assert {node.name for node in desk.cluster.views.values() if node.operation_taint} == {
        "n0",
        "n1",
    }
    assert desk.phases().count(Phase.GATED) == 4


def test_what_went_wrong_in_an_effect_is_dealt_with_at_the_next_look() -> None:
    desk = Desk()
    desk.cluster.refused = True
    desk.cluster.go.set()
    desk.operating.look("no-0")
    assert desk.end.acquire(timeout=10)

    until = desk.operating.look("no-0")

    assert until == NOW + 30 * SECOND
    assert desk.errands.failure("no-0") is None
    desk.errands.close()


def test_effects_that_have_not_begun_when_the_term_ends_never_happen() -> None:
    desk = Desk()
    blocker = threading.Event()

    def waits() -> None:
        assert blocker.wait(10)

    for number in range(3):
        desk.errands.start(f"other-{number}", waits)
    desk.operating.look("no-0")
    assert desk.errands.busy("no-0")

    desk.leads = False
    desk.cluster.go.set()
    blocker.set()
    desk.errands.close()

    assert not desk.errands.busy("no-0")
    assert not [each for each in desk.cluster.log if each.startswith("Isolate")]


def test_without_threads_an_errand_is_done_at_once_and_raises() -> None:
    errands, done = Errands(0), []

    assert errands.start("a", lambda: done.append(1))
    assert done == [1]

    def fails() -> None:
        raise PermanentError("no")

    with pytest.raises(PermanentError):
        errands.start("a", fails)


def test_what_comes_first_is_taken_first_but_keeps_nobody_waiting_for_ever() -> None:
    agenda = Agenda(lambda: NOW)
    agenda.wake(["old-1", "old-2"])
    agenda.wake([f"new-{number}" for number in range(10)], first=True)
    agenda.wake(["new-3"])  # it has its place

    taken = [agenda.take(0) for _ in range(13)]

    assert taken[:9] == [*(f"new-{number}" for number in range(8)), "old-1"]
    assert taken[9:] == ["new-8", "new-9", "old-2", None]


def test_one_that_waits_with_the_rest_may_still_come_first() -> None:
    agenda = Agenda(lambda: NOW)
    agenda.wake(["a", "b"])
    agenda.wake(["b"], first=True)

    assert [agenda.take(0), agenda.take(0), agenda.take(0)] == ["b", "a", None]
