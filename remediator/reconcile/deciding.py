"""Reads what a decision looks at, once for decisions that nothing comes between, and asks the lifecycle.

Decides nothing itself and writes nothing but the breaker, which is stored before anything is done in its light.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from remediator.budgets import Account, Allocation
from remediator.cluster import Fleet, Observation
from remediator.config import Config
from remediator.gates import breaker_after
from remediator.lifecycle import Policy, Record, Step, next_step
from remediator.operation import NodeOperation, OperationStatus, Phase
from remediator.reconcile.surroundings import Surroundings

_ON_ONE_LOOK = frozenset({Phase.GATED, Phase.RESERVED, Phase.ISOLATED})
"""Phases whose first decision needs no newer look than the one that led there: nothing was done in between,
and the effect that follows reads the node again itself."""
_LONGEST = 6


@dataclass(frozen=True, slots=True)
class Decided:
    """Statuses that follow one another, the last of which is to be written, and what is to be done then.

    `last` is None when only a newer look can tell.
    """

    statuses: tuple[OperationStatus, ...]
    last: Step | None


class Deciding:
    """Asks for one operation after the other; for the leader's one thread."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._allocation = Allocation(Account(()))

    def decide(self, operation: NodeOperation) -> Decided:
        """Everything that can be decided on one look at an operation's surroundings.

        Raises:
            TemporaryError: The API cannot be asked.
        """
        around, config = self._around, self._around.config()
        playbook = config.playbook(operation.spec.playbook)
        observation = around.cluster.observe(_as_gated(operation), playbook)
        seen = _Seen(observation, around.cluster.fleet(), around.cluster.operations(), config)
        statuses: list[OperationStatus] = []
        step = self._step(operation, seen)
        while isinstance(step, Record):
            if statuses and self._parts_with_us(operation, step.status):
                return Decided(tuple(statuses), None)
            statuses.append(step.status)
            if step.status.phase not in _ON_ONE_LOOK or len(statuses) == _LONGEST:
                return Decided(tuple(statuses), None)
            step = self._step(replace(operation, status=step.status), seen)
        return Decided(tuple(statuses), step)

    def _parts_with_us(self, operation: NodeOperation, status: OperationStatus) -> bool:
        """Whether what comes first must be stored now, as another replica may go on from there."""
        return status.phase is Phase.DRAINING and self._around.empties_us(operation)

    def _step(self, operation: NodeOperation, seen: "_Seen") -> Step:
        fleet, now, allocation = seen.fleet, self._around.clock(), None
        if operation.status.phase is Phase.GATED:
            allocation = self._kept(seen)
            fleet = self._with_breaker(seen, now)
        return next_step(
            operation,
            seen.observation,
            Policy(seen.config),
            fleet,
            seen.operations,
            now,
            allocation=allocation,
        )

    def _kept(self, seen: "_Seen") -> Allocation:
        if self._allocation.account.budgets != seen.config.budgets:
            self._allocation = Allocation(Account(seen.config.budgets))
        self._allocation.account.update(seen.fleet, seen.operations)
        return self._allocation

    def _with_breaker(self, seen: "_Seen", now: datetime) -> Fleet:
        if not seen.fleet.state_known:
            return seen.fleet
        account = self._allocation.account
        state = breaker_after(seen.fleet, seen.operations, seen.config.breaker, now, account)
        if state is None:
            return seen.fleet
        self._around.cluster.remember_breaker(state)
        self._around.log.error("breaker_opened", text=state.text)
        return replace(seen.fleet, breaker=state)


@dataclass(frozen=True, slots=True)
class _Seen:
    observation: Observation
    fleet: Fleet
    operations: Sequence[NodeOperation]
    config: Config


def _as_gated(operation: NodeOperation) -> NodeOperation:
    """One that has just come is looked at as one at the gates, where it will be at once."""
    if operation.status.phase is not Phase.RECEIVED:
        return operation
    return replace(operation, status=replace(operation.status, phase=Phase.GATED))
