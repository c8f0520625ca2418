"""Isolated, Draining, Retrying, NextRung: from the taint to the moment a repair is announced. Pure."""

from datetime import datetime, timedelta

from chassis.config import format_duration
from remediator import drain
from remediator.cluster import AskCheckpoint, DrainStep, fault_is_clear
from remediator.gates import before_harm, too_many_operations
from remediator.lifecycle.ending import give_back, prove
from remediator.lifecycle.step import Act, Case, Step, act, escalate, go, stay
from remediator.operation import (
    MAX_ATTEMPTS,
    Attempt,
    Intent,
    IntentAction,
    Phase,
    Reason,
    Wish,
    job_name,
)

CLOSING = timedelta(minutes=10)
"""What a drain's deadline policy may take after the deadline before a person is told."""


def isolated(case: Case) -> Step:
    """Hand over what needs a person at once, else empty the node."""
    if (ended := _no_longer_needed(case)) is not None:
        return ended
    former = too_many_operations(case.for_gates())
    if former:
        limit = case.playbook.operations_limit
        text = f"{len(former)} repairs in {format_duration(limit.within)} did not last; inspect the node"
        return escalate(case, Reason.TOO_MANY_OPERATIONS, text)
    hand_over = case.rung.repair.hand_over
    if hand_over is not None:
        return escalate(case, Reason.NO_KNOWN_FIX, hand_over.text)
    return _held_back(case) or begin_draining(case)


def begin_draining(case: Case) -> Step:
    """Announce the drain of the present rung."""
    return go(
        case,
        Phase.DRAINING,
        Reason.EVICTING,
        f"emptying the node by {case.rung.drain.strategy.value}",
        intent=Intent(IntentAction.DRAIN, case.now, case.node.boot_id),
        deadline=case.now + case.rung.drain.deadline,
    )


def draining(case: Case) -> Step:
    """Empty the node, then announce the repair."""
    if (ended := _no_longer_needed(case)) is not None:
        return ended
    if case.observation.pods is None:
        return stay(case, case.status.reason, "the node's pods have not been read")
    step = drain.next_drain(case.operation, case.observation.pods, case.rung.drain, case.now)
    if step.done:
        return _held_back(case) or announce(case, step.text or "no pod is left that has to go")
    if step.stuck is not None:
        return escalate(case, step.stuck, step.text)
    return _empty(case, step)


def _empty(case: Case, step: DrainStep) -> Step:
    if step.effects:
        return _held_back(case) or _ask_or_evict(case, step)
    if case.status.deadline is not None and case.now >= case.status.deadline + CLOSING:
        return escalate(case, Reason.DRAIN_DEADLINE, step.text or "the node does not get empty")
    reason = step.waiting[0].reason if step.waiting else Reason.PODS_TERMINATING
    return stay(case, reason, step.text, step.wake_at)


def _ask_or_evict(case: Case, step: DrainStep) -> Act:
    asks = [each for each in step.effects if isinstance(each, AskCheckpoint)]
    return act(case, *(asks or step.effects))


def announce(case: Case, text: str) -> Step:
    """Count the attempt and write down what will be done, before it is done."""
    repair = case.rung.repair
    if not case.node.boot_id and (repair.on_node or repair.reboots):
        return escalate(
            case, Reason.CANNOT_PROVE, "the node shows no boot id, so a reboot could not be proven"
        )
    number = case.status.attempt + 1
    pods = repair.restart_pods is not None
    intent = Intent(
        IntentAction.RESTART_PODS if pods else IntentAction.RUN_JOB,
        case.now,
        case.node.boot_id,
        job="" if pods else job_name(case.operation.uid, case.status.rung, number),
        destructive=repair.destructive,
    )
    return go(
        case,
        Phase.EXECUTING,
        Reason.DRAINED,
        f"{text}; {repair.kind}, attempt {number} of {case.rung.attempts}",
        attempt=number,
        attempts=(*case.status.attempts, Attempt(case.status.rung, number, case.now))[
            -MAX_ATTEMPTS:
        ],
        boot_id=case.node.boot_id,
        intent=intent,
        deadline=case.now + case.rung.timeout,
    )


def retrying(case: Case) -> Step:
    """After the cooldown the same rung begins again, with a look at the pods first."""
    if (ended := _no_longer_needed(case)) is not None:
        return ended
    if case.status.deadline is None or case.overdue:
        return _held_back(case) or begin_draining(case)
    return stay(case, Reason.COOLDOWN, case.status.message, case.status.deadline)


def next_rung(case: Case) -> Step:
    """The next rung begins with its own drain."""
    return _no_longer_needed(case) or _held_back(case) or begin_draining(case)


def _held_back(case: Case) -> Step | None:
    """A pause or an open breaker stops what would take something away, but not for ever."""
    held = before_harm(case.for_gates())
    if not held:
        return None
    text = "; ".join(each.text for each in held)
    if case.now >= _longest(case):
        return escalate(case, Reason.GATE_DEADLINE, f"held back for too long: {text}")
    return stay(case, Reason.HELD, text, held_by=held)


def _longest(case: Case) -> datetime:
    return (case.status.since or case.now) + case.playbook.gates.max_wait


def _no_longer_needed(case: Case) -> Step | None:
    if case.status.wish is Wish.CANCEL:
        return give_back(case)
    untouched = not case.operation.repaired and case.status.fixed_at is None
    clear = fault_is_clear(case.operation, case.observation, case.now, case.config.freshness.alerts)
    if untouched and clear:
        return prove(case, Reason.CLEARED_BEFORE_ACTION, "every cause has cleared before a repair")
    return None
