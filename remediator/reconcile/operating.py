"""One operation, from one look to the next wait: observe, decide, record or act, again.

Decides nothing itself. An effect happens only after a stored status announced it, and while the Term says
that we lead.
"""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from chassis.errors import NodemendError, PermanentError, TemporaryError
from chassis.kube_client import Conflict
from remediator.cluster import Effect, Isolate
from remediator.lifecycle import Act, Wait
from remediator.operation import NodeOperation, OperationStatus, Phase, Reason
from remediator.reconcile.deciding import Deciding
from remediator.reconcile.ports import Stored
from remediator.reconcile.surroundings import Surroundings

_STEPS = 24
_SOON = timedelta(seconds=1)
_REFUSED = timedelta(seconds=30)
_AT_REST = timedelta(seconds=60)
_DONE = datetime.min.replace(tzinfo=UTC)
"""In place of a time to look again: at once, by the one who looks."""


class Operating:
    """Looks at operations, one after the other, in the leader's one thread."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._deciding = Deciding(around)
        self._acts: dict[str, int] = {}  # how often in a row an operation came to an effect

    def look(self, name: str) -> datetime | None:
        """Take an operation as far as it goes now; when to look again, None for never by itself.

        Raises:
            TemporaryError: The API is away; nothing is lost.
        """
        started = time.perf_counter()
        if self._around.errands.busy(name):
            return None  # its end wakes it
        try:
            if (failure := self._around.errands.failure(name)) is not None:
                raise failure
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
        for _ in range(_STEPS):
            stored = self._around.cluster.stored(name)
            if stored is not None and stored.operation is None:
                return self._unreadable(stored)
            operation = self._prepared(name)
            if operation is None or not self._around.leads():
                return None
            decided = self._deciding.decide(operation)
            if decided.statuses:
                if self._hands_over(operation, decided.statuses[-1]):
                    return None
                operation = self._record(operation, decided.statuses)
            step = decided.last
            if isinstance(step, Wait):
                self._acts.pop(name, None)
                self._save_told(operation)
                return self._wake_of(operation, step)
            if isinstance(step, Act) and (done := self._act(operation, step)) is not _DONE:
                return done
        return self._around.clock() + _SOON

    def _prepared(self, name: str) -> NodeOperation | None:
        """The operation, held by our finalizer while it may have done something to its node."""
        cluster = self._around.cluster
        stored = cluster.stored(name)
        if stored is None:
            return None
        operation = stored.operation
        if operation is None:
            return None
        rests = operation.status.phase.is_final and not operation.status.isolated
        if stored.deleting and rests and stored.has_finalizer and not self._tainted(operation):
            cluster.set_finalizer(name, wanted=False)
            return None
        if not stored.deleting and not stored.has_finalizer and operation.active:
            cluster.set_finalizer(name, wanted=True)
            stored = cluster.stored(name)
        return None if stored is None else stored.operation

    def _unreadable(self, stored: Stored) -> datetime | None:
        """Nothing is decided on what cannot be read. Deleted, it may go when no node carries its taint."""
        around, now = self._around, self._around.clock()
        fleet = around.cluster.fleet()
        isolated = [
            node.name for node in fleet.nodes.values() if node.operation_taint == stored.name
        ]
        fresh = abs(now - fleet.as_of) <= around.config().freshness.nodes
        if stored.deleting and stored.has_finalizer and fresh and not isolated and around.leads():
            around.cluster.set_finalizer(stored.name, wanted=False)
            around.log.warning("unreadable_operation_let_go", operation=stored.name)
            return None
        around.log.error(
            "operation_unreadable",
            operation=stored.name,
            problem=stored.problem,
            isolated_nodes=isolated,
        )
        return now + _AT_REST

    def _tainted(self, operation: NodeOperation) -> bool:
        node = self._around.cluster.nodes().get(operation.spec.node)
        return node is not None and node.operation_taint == operation.name

    def _hands_over(self, operation: NodeOperation, status: OperationStatus) -> bool:
        """Whether another replica goes on, because this step empties the node that we run on."""
        starts_drain = status.phase is Phase.DRAINING is not operation.status.phase
        ours = self._around.empties_us(operation)
        return starts_drain and ours and self._around.hand_over(operation)

    def _record(
        self, operation: NodeOperation, statuses: tuple[OperationStatus, ...]
    ) -> NodeOperation:
        """One write of the last status, whose history has the steps before it; each of them is told."""
        told = max(statuses[-1].told, self._around.told(operation.name))
        stored = self._around.cluster.record(operation, replace(statuses[-1], told=told))
        steps = [*(replace(operation, status=each) for each in statuses[:-1]), stored]
        for before, after in zip([operation, *steps], steps, strict=False):
            self._tell(before, after)
        return stored

    def _tell(self, before: NodeOperation, after: NodeOperation) -> None:
        self._around.metrics.moved(before, after)
        self._around.log.info(
            "operation_step",
            operation=after.name,
            node=after.spec.node,
            phase=after.status.phase.value,
            reason=after.status.reason.value,
            text=after.status.message,
        )
        self._around.recorded(before, after)

    def _save_told(self, operation: NodeOperation) -> None:
        told = self._around.told(operation.name)
        if told > operation.status.told:
            self._around.cluster.record(operation, replace(operation.status, told=told))

    def _act(self, operation: NodeOperation, step: Act) -> datetime | None:
        """Have the effects carried out; when to look again, _DONE for at once."""
        name = operation.name
        self._acts[name] = self._acts.get(name, 0) + 1
        if self._acts[name] > _STEPS:
            del self._acts[name]
            return self._around.clock() + _SOON
        if not self._around.errands.start(name, lambda: self._effects(operation, step)):
            return None
        # Others are isolated before this one is emptied.
        return self._around.clock() if isinstance(step.effects[0], Isolate) else _DONE

    def _effects(self, operation: NodeOperation, step: Act) -> None:
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
