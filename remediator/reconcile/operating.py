"""One operation, from one look to the next wait: observe, decide, record or act, again.

Decides nothing itself. An effect happens only after a stored status announced it, and while the Term says
that we lead.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError, PermanentError, TemporaryError
from chassis.kube_client import Conflict
from remediator.cluster import Effect, Fleet, Isolate
from remediator.config import Config
from remediator.gates import breaker_after
from remediator.lifecycle import Act, Policy, Record, Wait, next_step
from remediator.metrics import ReconcileMetrics
from remediator.operation import NodeOperation, OperationStatus, Phase, Reason
from remediator.reconcile.ports import LeaderCluster

_STEPS = 24
_SOON = timedelta(seconds=1)
_REFUSED = timedelta(seconds=30)
_AT_REST = timedelta(seconds=60)


@dataclass(slots=True)
class Surroundings:
    """What looking at operations needs.

    `leads` tells whether we still may; `told` how far alerts2gh knows an operation's history; `recorded`
    is told each step; `own_node` is the node that this process runs on, `hand_over` gives leadership away.
    """

    cluster: LeaderCluster
    config: Callable[[], Config]
    clock: Callable[[], datetime]
    leads: Callable[[], bool]
    told: Callable[[str], int]
    recorded: Callable[[NodeOperation, NodeOperation], None]
    metrics: ReconcileMetrics
    log: FilteringBoundLogger
    own_node: str = ""
    hand_over: Callable[[NodeOperation], bool] = lambda _: False


class Operating:
    """Looks at operations, one after the other, in the leader's one thread."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    def look(self, name: str) -> datetime | None:
        """Take an operation as far as it goes now; when to look again, None for never by itself.

        Raises:
            TemporaryError: The API is away; nothing is lost.
        """
        started = time.perf_counter()
        try:
            return self._look(name)
        except Conflict as error:
            self._around.metrics.failed(error)
            self._around.cluster.refresh_name(name)
            self._around.log.info("operation_changed_meanwhile", operation=name, error=str(error))
            return self._around.clock() + _SOON
        except PermanentError as error:
            self._around.metrics.failed(error)
            self._around.log.warning("operation_step_refused", operation=name, error=str(error))
            return self._around.clock() + _REFUSED
        finally:
            self._around.metrics.passes.observe(time.perf_counter() - started)

    def _look(self, name: str) -> datetime | None:
        until: datetime | None = None
        for _ in range(_STEPS):
            operation = self._prepared(name)
            if operation is None or not self._around.leads():
                return None
            step = self._decide(operation)
            if isinstance(step, Wait):
                self._save_told(operation)
                return self._wake_of(operation, step)
            if isinstance(step, Record):
                if self._hands_over(operation, step.status):
                    return None
                self._record(operation, step.status)
            else:
                until = step.until
                self._act(operation, step)
                if isinstance(step.effects[0], Isolate):
                    return self._around.clock()  # others are isolated before this one is emptied
        return until or self._around.clock() + _SOON

    def _prepared(self, name: str) -> NodeOperation | None:
        """The operation, held by our finalizer while it may have done something to its node."""
        cluster = self._around.cluster
        stored = cluster.stored(name)
        if stored is None:
            return None
        operation = stored.operation
        if operation is None:
            self._around.log.error("operation_unreadable", operation=name, problem=stored.problem)
            return None
        rests = operation.status.phase.is_final and not operation.status.isolated
        if stored.deleting and rests and stored.has_finalizer and not self._tainted(operation):
            cluster.set_finalizer(name, wanted=False)
            return None
        if not stored.deleting and not stored.has_finalizer and operation.active:
            cluster.set_finalizer(name, wanted=True)
            stored = cluster.stored(name)
        return None if stored is None else stored.operation

    def _tainted(self, operation: NodeOperation) -> bool:
        node = self._around.cluster.nodes().get(operation.spec.node)
        return node is not None and node.operation_taint == operation.name

    def _decide(self, operation: NodeOperation) -> Wait | Record | Act:
        cluster, config = self._around.cluster, self._around.config()
        playbook = config.playbook(operation.spec.playbook)
        observation = cluster.observe(operation, playbook)
        fleet = cluster.fleet()
        others = cluster.operations()
        now = self._around.clock()
        if operation.status.phase is Phase.GATED:
            fleet = self._with_breaker(fleet, others, config, now)
        return next_step(operation, observation, Policy(config), fleet, others, now)

    def _with_breaker(
        self, fleet: Fleet, operations: Sequence[NodeOperation], config: Config, now: datetime
    ) -> Fleet:
        state = breaker_after(fleet, operations, config.breaker, now) if fleet.state_known else None
        if state is None:
            return fleet
        self._around.cluster.remember_breaker(state)
        self._around.log.error("breaker_opened", text=state.text)
        return replace(fleet, breaker=state)

    def _hands_over(self, operation: NodeOperation, status: OperationStatus) -> bool:
        """Whether another replica goes on, because this step empties the node that we run on."""
        starts_drain = status.phase is Phase.DRAINING is not operation.status.phase
        ours = bool(self._around.own_node) and operation.spec.node == self._around.own_node
        return starts_drain and ours and self._around.hand_over(operation)

    def _record(self, operation: NodeOperation, status: OperationStatus) -> None:
        told = max(status.told, self._around.told(operation.name))
        after = self._around.cluster.record(operation, replace(status, told=told))
        self._around.metrics.moved(operation, after)
        self._around.log.info(
            "operation_step",
            operation=operation.name,
            node=operation.spec.node,
            phase=after.status.phase.value,
            reason=after.status.reason.value,
            text=after.status.message,
        )
        self._around.recorded(operation, after)

    def _save_told(self, operation: NodeOperation) -> None:
        told = self._around.told(operation.name)
        if told > operation.status.told:
            self._around.cluster.record(operation, replace(operation.status, told=told))

    def _act(self, operation: NodeOperation, step: Act) -> None:
        for effect in step.effects:
            if not self._around.leads():
                return
            self._one_effect(operation, effect)

    def _one_effect(self, operation: NodeOperation, effect: Effect) -> None:
        try:
            self._around.cluster.apply(operation, effect)
        except NodemendError:
            self._around.metrics.effect(effect, "failed")
            raise
        self._around.metrics.effect(effect, "done")
        self._around.log.info(
            "effect",
            operation=operation.name,
            effect=type(effect).__name__,
            node=operation.spec.node,
        )

    def _wake_of(self, operation: NodeOperation, step: Wait) -> datetime | None:
        """An operation that rests is looked at while its fault has not been seen clear."""
        if step.until is not None:
            return step.until
        status = operation.status
        if operation.active:
            return self._around.clock() + _AT_REST
        latest = self._around.cluster.of_node(operation.spec.node)
        is_latest = bool(latest) and max(latest, key=_episode).name == operation.name
        waits = is_latest and status.clear_since is None
        return self._around.clock() + _AT_REST if waits else None

    def touch(self, name: str) -> None:
        """Write an operation that waits anew, so that a predecessor's late write meets a conflict."""
        stored = self._around.cluster.stored(name)
        operation = None if stored is None else stored.operation
        if operation is None or operation.status.phase not in {Phase.RECEIVED, Phase.GATED}:
            return
        now = self._around.clock()
        status = operation.status
        if status.since is None:
            status = replace(status, since=now, reason=Reason.ACCEPTED)
        try:
            self._around.cluster.record(operation, replace(status, wake_at=now))
        except TemporaryError:
            self._around.cluster.refresh_name(name)
            raise


def _episode(operation: NodeOperation) -> int:
    return operation.spec.episode
