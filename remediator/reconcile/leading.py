"""What a leader does from the beginning of its term to its end.

One thread looks at operations and nodes and decides; a few others carry out effects; everything else only
wakes it.
"""

import threading
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial

from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError, PermanentError
from chassis.kube_lease import Term
from remediator.cluster import NodeView
from remediator.config import Config
from remediator.intake import Intake
from remediator.metrics import ReconcileMetrics
from remediator.operation import NodeOperation, Phase
from remediator.reconcile.agenda import Agenda
from remediator.reconcile.errands import Errands
from remediator.reconcile.operating import Operating
from remediator.reconcile.ports import LeaderCluster
from remediator.reconcile.surroundings import Surroundings
from remediator.triggers import Later, NoMatch, from_conditions

_NODE = "node/"
"""Before the names of nodes on the agenda; an operation's name has no slash."""
_ALL = "*"
_TURN_SECONDS = 1.0
_EFFECT_THREADS = 4
_TIDY_EVERY = timedelta(minutes=1)
_LONGEST_BACKOFF = timedelta(seconds=30)
_REFUSED_AGAIN = timedelta(minutes=1)
_FIRST_BACKOFF = timedelta(milliseconds=500)


class Reconciler:
    """Runs while this replica leads. The listeners may be called from any thread at any time."""

    def __init__(  # noqa: PLR0913 - composition, all by name
        self,
        cluster: LeaderCluster,
        intake: Intake,
        *,
        config: Callable[[], Config],
        clock: Callable[[], datetime],
        metrics: ReconcileMetrics,
        log: FilteringBoundLogger,
        told: Callable[[str], int] = lambda _: 0,
        recorded: Callable[[NodeOperation, NodeOperation], None] = lambda _b, _a: None,
        own_node: str = "",
    ) -> None:
        self._cluster = cluster
        self._intake = intake
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._told = told
        self._recorded = recorded
        self._own_node = own_node
        self._agenda = Agenda(clock)
        self._leading = threading.Event()
        self._failures: dict[str, int] = {}
        self._handed_over: set[str] = set()
        self._stand_back_until: datetime | None = None
        self._last_turn: datetime | None = None

    # What wakes.

    def operations_changed(self, names: Collection[str]) -> None:
        """Look at these operations."""
        if self._leading.is_set():
            new = {name for name in names if self._is_new(name)}
            self._agenda.wake(new, first=True)
            self._agenda.wake([name for name in names if name not in new])

    def _is_new(self, name: str) -> bool:
        stored = self._cluster.stored(name)
        operation = None if stored is None else stored.operation
        return operation is not None and operation.status.phase is Phase.RECEIVED

    def node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        """Look at what concerns a node; room that has become free concerns all that wait for it."""
        if not self._leading.is_set():
            return
        view = new or old
        if view is None:
            return
        names = [each.name for each in self._cluster.of_node(view.name) if _may_move(each)]
        left = None if new is None else new.operation_taint
        if old is not None and old.operation_taint not in {None, left}:
            names.append(str(old.operation_taint))  # its object may be one that cannot be read
        if new is not None and (old is None or _fault_signs(old) != _fault_signs(new)):
            names.append(_NODE + view.name)
        if old is None or new is None or _frees_room(old, new):
            names += [each.name for each in self._cluster.operations() if _waits(each)]
        self._agenda.wake(names)

    def switches_changed(self) -> None:
        """Look at everything that is active."""
        if self._leading.is_set():
            self._agenda.wake([each.name for each in self._cluster.operations() if each.active])

    def config_changed(self) -> None:
        """Look at everything: playbooks may have come for conditions that stand already."""
        self.switches_changed()
        if self._leading.is_set():
            self._agenda.wake(self._with_conditions())

    def _with_conditions(self) -> list[str]:
        if not any(playbook.conditions for playbook in self._config().playbooks):
            return []
        return [_NODE + name for name in self._cluster.nodes()]

    def nudge(self) -> None:
        """Wake the thread, so that it sees the end of its term."""
        self._agenda.nudge()

    @property
    def last_turn(self) -> datetime | None:
        """When the leader's thread last looked around; None while it does not lead."""
        return self._last_turn

    # Leading.

    def lead(self, term: Term) -> None:
        """Work until the term is over."""
        back = self._stand_back_until
        if back is not None and self._clock() < back:
            return  # another replica is to have it
        while not self._cluster.wait_synced(_TURN_SECONDS):
            if term.is_set():
                return
        self._leading.set()
        self._metrics.leader.set(1)
        errands = Errands(_EFFECT_THREADS, ended=lambda name: self._agenda.wake((name,)))
        operating = Operating(self._around(term, errands))
        try:
            self._take_over(term, operating)
            self._work(term, operating)
        finally:
            self._leading.clear()
            errands.close()  # nobody else leads before the last effect has ended
            self._metrics.leader.set(0)
            self._agenda.clear()
            self._cluster.tidy(leading=False)
            self._last_turn = None

    def _around(self, term: Term, errands: Errands) -> Surroundings:
        return Surroundings(
            cluster=self._cluster,
            config=self._config,
            clock=self._clock,
            leads=lambda: not term.is_set(),
            told=self._told,
            recorded=self._step_recorded,
            metrics=self._metrics,
            log=self._log,
            own_node=self._own_node,
            hand_over=lambda operation: self._hand_over(operation, term),
            errands=errands,
        )

    def _take_over(self, term: Term, operating: Operating) -> None:
        """Everything is looked at once, and what a predecessor may be about to write is refused to it."""
        self._insist(term, _ALL, self._cluster.read_all)
        for name in self._cluster.names():
            self._insist(term, name, partial(operating.touch, name))
        self._agenda.wake(self._cluster.names())
        self._agenda.wake(self._with_conditions())

    def _insist(self, term: Term, name: str, work: Callable[[], None]) -> None:
        """Until it is done or can never be, or the term is over."""
        while not term.is_set():
            try:
                work()
            except NodemendError as error:
                self._log.warning("take_over_delayed", operation=name, error=str(error))
                if name != _ALL and isinstance(error, PermanentError):
                    return  # a predecessor cannot write it either, and it must hold up no other
                term.wait(_FIRST_BACKOFF.total_seconds())
            else:
                return

    def _work(self, term: Term, operating: Operating) -> None:
        tidied = self._clock()
        while not term.is_set():
            self._last_turn = now = self._clock()
            if now - tidied >= _TIDY_EVERY:
                tidied = now
                self._tidy()
            name = self._agenda.take(_TURN_SECONDS)
            if name is not None and not term.is_set():
                self._agenda.later(name, self._one(operating, name))

    def _one(self, operating: Operating, name: str) -> datetime | None:
        try:
            if name.startswith(_NODE):
                until = self._conditions_of(name.removeprefix(_NODE))
            else:
                until = operating.look(name)
        except NodemendError as error:
            self._metrics.failed(error)
            self._log.warning("look_failed", name=name, error=str(error))
            return self._clock() + self._backoff(name)
        except Exception as error:  # noqa: BLE001 - one operation must not end all others
            self._metrics.failed(error)
            self._log.exception("look_crashed", name=name)
            return self._clock() + self._backoff(name)
        self._failures.pop(name, None)
        return until

    def _backoff(self, name: str) -> timedelta:
        failures = self._failures[name] = min(self._failures.get(name, 0) + 1, 10)
        doubled: int = 2 ** (failures - 1)
        return min(_LONGEST_BACKOFF, _FIRST_BACKOFF * doubled)

    def _conditions_of(self, name: str) -> datetime | None:
        """Conditions that have lasted become operations; when the next one will have."""
        node = self._cluster.nodes().get(name)
        if node is None:
            return None
        now = self._clock()
        times = []
        for each in from_conditions(node, self._config(), now):
            if isinstance(each, Later):
                times.append(each.until)
            elif isinstance(self._intake.condition(each), NoMatch):
                times.append(now + _REFUSED_AGAIN)
        return min(times, default=None)

    def _step_recorded(self, before: NodeOperation, after: NodeOperation) -> None:
        self._recorded(before, after)
        if before.active and not after.active:
            # Room has become free, and a condition that came meanwhile may begin a new episode.
            waiting = [each.name for each in self._cluster.operations() if _waits(each)]
            self._agenda.wake([*waiting, _NODE + after.spec.node])
        elif before.status.clear_since is None is not after.status.clear_since:
            self._agenda.wake([_NODE + after.spec.node])

    def _hand_over(self, operation: NodeOperation, term: Term) -> bool:
        """Give leadership away, once an operation; whoever has no other replica goes on later."""
        if operation.name in self._handed_over:
            return False
        self._handed_over.add(operation.name)
        self._stand_back_until = self._clock() + self._config().leader.lease_duration
        self._log.warning("leadership_handed_over", operation=operation.name, node=self._own_node)
        term.set()
        return True

    def _tidy(self) -> None:
        """Delete finished operations that count for nothing any more."""
        before = self._clock() - self._config().keep_finished
        self._cluster.tidy()
        for operation in self._cluster.operations():
            ended = operation.status.ended_at
            if operation.active or operation.deleting or ended is None or ended > before:
                continue
            if self._numbers_episodes(operation):
                continue
            try:
                self._cluster.remove(operation)
            except NodemendError as error:
                self._log.warning("not_removed", operation=operation.name, error=str(error))
                return

    def _numbers_episodes(self, operation: NodeOperation) -> bool:
        """Whether the next episode of its node is numbered after this one, and begins after its clear."""
        node = self._cluster.nodes().get(operation.spec.node)
        if node is None or operation.status.node_uid not in {"", node.uid}:
            return False
        others = self._cluster.of_node(node.name)
        return operation.spec.episode >= max(each.spec.episode for each in others)


def _may_move(operation: NodeOperation) -> bool:
    return operation.active or operation.status.clear_since is None or operation.deleting


def _waits(operation: NodeOperation) -> bool:
    return operation.status.phase is Phase.GATED


def _frees_room(old: NodeView, new: NodeView) -> bool:
    """Whether somebody who waits may go now; one more node that is out of service lets nobody go."""
    return _service_signs(old) != _service_signs(new) and not _in_service(old)


def _in_service(node: NodeView) -> bool:
    return _service_signs(node) == (True, True, False, True)


def _service_signs(node: NodeView) -> tuple[bool, bool, bool, bool]:
    return (
        node.counts,
        node.is_ready,
        node.unschedulable,
        node.operation_taint is None,
    )


def _fault_signs(node: NodeView) -> tuple[object, ...]:
    signs = ((each.type, each.status, each.since) for each in node.conditions.values())
    return (node.uid, node.counts, *signs)
