"""How an operation comes to its end: proof, release, or the next try after a failure. Pure."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from remediator.lifecycle.step import Case, Step, clipped, escalate, go
from remediator.operation import (
    Attempt,
    AttemptOutcome,
    Intent,
    IntentAction,
    Phase,
    Reason,
    Wish,
)

RELEASE = timedelta(minutes=10)
"""How long taking the taint off may take before a person is told."""


def prove(case: Case, reason: Reason, text: str, **changes: Any) -> Step:
    """To the proof: whatever is proven must be newer than now, and of the boot that is seen now."""
    return go(
        case,
        Phase.VERIFYING,
        reason,
        text,
        fixed_at=case.now,
        boot_id=case.node.boot_id,
        clear_since=None,
        deadline=case.now + case.playbook.proof.deadline,
        **changes,
    )


def give_back(case: Case) -> Step:
    """A person wants it to end. An untouched node goes back as it was; a repaired one only proven."""
    by = case.status.wish_by
    if case.operation.repaired:
        return prove(case, Reason.RELEASE_REQUESTED, f"to be ended by {by}: proving first")
    return release(case, Reason.CANCELLED_BY_PERSON, f"cancelled by {by} before any repair")


def called_off(case: Case) -> Step:
    """A repair that was announced and that a person ended before it began: the node is proven, as it was counted."""
    text = f"called off by {case.status.wish_by} before it began"
    attempts = closed(case, AttemptOutcome.FAILED, text)
    return prove(case, Reason.RELEASE_REQUESTED, f"{text}: proving first", attempts=attempts)


def release(case: Case, reason: Reason, text: str, **changes: Any) -> Step:
    """Announce that the taint goes."""
    return go(
        case,
        Phase.RELEASING,
        reason,
        text,
        intent=Intent(IntentAction.RELEASE, case.now, case.node.boot_id),
        deadline=case.now + RELEASE,
        **changes,
    )


def closed(case: Case, outcome: AttemptOutcome, text: str) -> tuple[Attempt, ...]:
    """The attempts with the last one ended, if it was not yet."""
    attempts = case.status.attempts
    if not attempts:
        return attempts
    last = attempts[-1]
    ended = replace(last, ended_at=case.now, outcome=outcome, text=clipped(text))
    return (*attempts[:-1], ended)


def failed(
    case: Case, reason: Reason, text: str, outcome: AttemptOutcome, *, again: bool = True
) -> Step:
    """After an attempt that did not help: the same rung, the next one, or a person.

    `again` is False when the same repair must not be repeated. What ended unknown is never followed
    by anything but a person.
    """
    attempts = closed(case, outcome, text)
    if case.status.wish is not None:
        by = case.status.wish_by
        return escalate(
            case, reason, f"{text}; asked to end by {by}, but not proven", attempts=attempts
        )
    if outcome is AttemptOutcome.AMBIGUOUS:
        return escalate(
            case, Reason.AMBIGUOUS, f"{text}; it may have happened or not", attempts=attempts
        )
    if again and case.status.attempt < case.rung.attempts:
        return go(
            case,
            Phase.RETRYING,
            reason,
            text,
            attempts=attempts,
            deadline=case.now + case.rung.cooldown,
            clear_since=None,
        )
    return _up(case, reason, text, attempts)


def _up(case: Case, reason: Reason, text: str, attempts: tuple[Attempt, ...]) -> Step:
    following = case.status.rung + 1
    if following >= len(case.playbook.ladder):
        return escalate(case, Reason.RUNGS_EXHAUSTED, f"{text}; no rung is left", attempts=attempts)
    rung = case.playbook.ladder[following]
    if rung.repair.hand_over is not None:
        return escalate(
            case, Reason.NO_KNOWN_FIX, f"{text}. {rung.repair.hand_over.text}", attempts=attempts
        )
    return go(
        case,
        Phase.NEXT_RUNG,
        reason,
        f"{text}; next is {rung.name}",
        attempts=attempts,
        rung=following,
        rung_name=rung.name,
        attempt=0,
        clear_since=None,
    )


def ends_as(case: Case) -> tuple[Phase, Reason, str]:
    """What a released operation is: healed only if something was repaired, or proof was asked for."""
    if case.status.reason is Reason.CANCELLED_BY_PERSON:
        return Phase.CANCELLED, Reason.CANCELLED_BY_PERSON, case.status.message
    if case.operation.repaired or case.status.wish is Wish.RELEASE:
        return Phase.SUCCEEDED, Reason.HEALED, "proven healthy and back in service"
    text = "every cause cleared by itself; proven healthy and back in service"
    return Phase.CANCELLED, Reason.CLEARED_BEFORE_ACTION, text
