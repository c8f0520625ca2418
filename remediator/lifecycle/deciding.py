"""`next_step`: one decision for one operation. Pure, total, and the only door to the phases."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from remediator.budgets import Allocation
from remediator.cluster import Fleet, Observation, fault_is_clear
from remediator.lifecycle import beginning, common, emptying, proving, repairing
from remediator.lifecycle.orphaned import without_playbook
from remediator.lifecycle.step import LOOK_AGAIN, Case, Policy, Step, Wait, record
from remediator.operation import NodeOperation, Phase, Reason

_PHASES: Mapping[Phase, Callable[[Case], Step]] = MappingProxyType(
    {
        Phase.RECEIVED: beginning.received,
        Phase.GATED: beginning.gated,
        Phase.RESERVED: beginning.reserved,
        Phase.ISOLATED: emptying.isolated,
        Phase.DRAINING: emptying.draining,
        Phase.EXECUTING: repairing.executing,
        Phase.AWAITING_RETURN: repairing.awaiting_return,
        Phase.VERIFYING: proving.verifying,
        Phase.RELEASING: proving.releasing,
        Phase.RETRYING: emptying.retrying,
        Phase.NEXT_RUNG: emptying.next_rung,
        Phase.ESCALATED: proving.escalated,
    }
)


def next_step(  # noqa: PLR0913 - everything that a decision may look at
    operation: NodeOperation,
    observation: Observation,
    policy: Policy,
    fleet: Fleet,
    others: Sequence[NodeOperation],
    now: datetime,
    *,
    allocation: Allocation | None = None,
) -> Step:
    """What is to be done about an operation now.

    Args:
        operation: As it is stored; its resourceVersion goes into the write or guards the effects.
        observation: What `wants(operation)` asks for, read after the operation.
        policy: The configuration.
        fleet: All nodes, pause, breaker.
        others: All stored operations, finished ones included.
        now: Aware, UTC.
        allocation: The budgets over this fleet and all stored operations, if somebody keeps them.
    """
    config, status = policy.config, operation.status
    if common.is_stale(observation, config, now):
        return Wait(now + LOOK_AGAIN, Reason.STALE_DATA, "the node was read too long ago")
    if status.phase.is_final and status.phase is not Phase.ESCALATED:
        if status.isolated and status.phase in {Phase.SUCCEEDED, Phase.CANCELLED}:
            return _by_decree(operation, now)
        clear = fault_is_clear(operation, observation, now, config.freshness.alerts)
        return common.at_rest(operation, observation, now, clear=clear)
    playbook = config.playbook(operation.spec.playbook)
    ended = (
        common.without_node(operation, observation, now)
        or _edited(operation, now)
        or common.wish(operation, now)
        or without_playbook(operation, observation, playbook, now)
    )
    if ended is not None or playbook is None or observation.node is None:
        ended = ended or Wait(now + LOOK_AGAIN, status.reason, status.message)
        return common.without_its_job(operation, observation, config, now, ended)
    case = Case(
        operation,
        observation,
        observation.node,
        playbook,
        config,
        fleet,
        common.without(operation, others),
        now,
        allocation,
    )
    if (ended := common.taint_removed(case)) is not None:
        return common.without_its_job(operation, observation, config, now, ended)
    return _PHASES[status.phase](case)


def _by_decree(operation: NodeOperation, now: datetime) -> Step:
    """An end that somebody wrote by hand releases nothing: the last write of ours says "not isolated"."""
    phase = operation.status.phase.value
    text = f"the status was edited by hand: {phase}, but status.isolated is set; release the node to have it proven"
    return record(operation, now, Phase.ESCALATED, Reason.INVALID_OPERATION, text, clear_since=None)


def _edited(operation: NodeOperation, now: datetime) -> Step | None:
    problem = common.inconsistent(operation)
    if problem is None or operation.status.phase is Phase.ESCALATED:
        return None
    text = f"the status was edited by hand: {problem}"
    return record(operation, now, Phase.ESCALATED, Reason.INVALID_OPERATION, text, clear_since=None)
