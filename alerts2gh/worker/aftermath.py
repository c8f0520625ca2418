"""What follows from a write that did not simply succeed: a pure decision from GitHub's answer."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from alerts2gh.config import Recovery
from alerts2gh.incident import Incident, IntentAction
from alerts2gh.ports import Answer, Outcome

TRIES_BEFORE_GIVING_UP = 5
MAY_PASS = frozenset(
    {
        Outcome.UNKNOWN,
        Outcome.UNREACHABLE,
        Outcome.PRIMARY_LIMIT,
        Outcome.SECONDARY_LIMIT,
        Outcome.UNAUTHORISED,
    }
)
"""Failures that say nothing about the request itself."""


class Course(StrEnum):
    """Where to go from a failed request."""

    CLEAR_UP = "clear_up"
    """The write may have happened: keep the intent and look for it."""
    WAIT_FOR_LIMIT = "wait_for_limit"
    RETRY = "retry"
    VANISHED = "vanished"
    """The issue is gone."""
    SKIP = "skip"
    """This write will never succeed, and nothing depends on it."""
    FALL_BACK = "fall_back"
    """The repository will never take it: file it in the fallback repository."""
    GIVE_UP = "give_up"


@dataclass(frozen=True, slots=True)
class Aftermath:
    """The incident after the failure, where to go, and when to look again."""

    course: Course
    incident: Incident
    wake_at: datetime | None


def after_failure(
    incident: Incident,
    kind: IntentAction | None,
    answer: Answer[object],
    recovery: Recovery,
    now: datetime,
    *,
    can_move: bool = True,
) -> Aftermath:
    """Decide what a failed request means. `kind` is None for reads. The budget has been taught already.

    `can_move` is whether there is another repository to file the incident in.
    """
    course = _course(incident, kind, answer)
    if answer.outcome is Outcome.LOCKED and incident.issue and incident.is_firing and can_move:
        course = Course.FALL_BACK  # an issue that tells nobody of what comes is none
    if course is Course.CLEAR_UP and incident.intent:
        unknown = replace(incident.intent, unknown_since=now)
        return Aftermath(course, replace(incident, intent=unknown), now + recovery.look_after[0])
    if kind is not None:
        incident = replace(incident, intent=None)
    if course is Course.WAIT_FOR_LIMIT:
        return Aftermath(course, incident, now + (answer.wait or timedelta(minutes=1)))
    if course is Course.SKIP:
        return Aftermath(course, skipped(incident, kind, answer), now)
    if course in (Course.VANISHED, Course.FALL_BACK, Course.GIVE_UP):
        return Aftermath(course, replace(incident, attempts=0, retry_at=None), now)
    retry_at = now + backoff(incident.attempts, recovery, answer.wait)
    return Aftermath(
        course, replace(incident, attempts=incident.attempts + 1, retry_at=retry_at), retry_at
    )


def skipped(incident: Incident, kind: IntentAction | None, answer: Answer[object]) -> Incident:
    """Leave out a write that GitHub will never take, and what asked for it."""
    if kind is IntentAction.ASSIGN:
        note = f"GitHub refused the assignment: {answer.text}"
        notes = (*incident.assignment.notes, note)
        incident = replace(
            incident, assignment=replace(incident.assignment, settled=True, notes=notes)
        )
    if kind is IntentAction.COMMENT:
        incident = replace(incident, untold=(), untold_dropped=0, stories=(), stories_dropped=0)
    return replace(incident, attempts=0, retry_at=None)


def backoff(attempts: int, recovery: Recovery, asked: timedelta | None) -> timedelta:
    """Double from `retry_after` to `retry_at_most`; never sooner than GitHub asked."""
    doubled: timedelta = recovery.retry_after * 2 ** min(attempts, 20)
    return max(min(doubled, recovery.retry_at_most), asked or timedelta())


_ANYWHERE = {
    Outcome.PRIMARY_LIMIT: Course.WAIT_FOR_LIMIT,
    Outcome.SECONDARY_LIMIT: Course.WAIT_FOR_LIMIT,
    Outcome.ARCHIVED: Course.FALL_BACK,
    Outcome.ISSUES_DISABLED: Course.FALL_BACK,
    Outcome.MOVED: Course.FALL_BACK,
}
_BY_KIND: dict[IntentAction, dict[Outcome, Course]] = {
    IntentAction.CREATE: {
        Outcome.UNKNOWN: Course.CLEAR_UP,
        Outcome.NOT_FOUND: Course.FALL_BACK,
        Outcome.GONE: Course.FALL_BACK,
        Outcome.FORBIDDEN: Course.FALL_BACK,
        Outcome.INVALID: Course.FALL_BACK,
    },
    IntentAction.COMMENT: {
        Outcome.UNKNOWN: Course.CLEAR_UP,
        Outcome.LOCKED: Course.SKIP,
        Outcome.INVALID: Course.SKIP,
    },
    IntentAction.ASSIGN: {
        Outcome.NOT_FOUND: Course.SKIP,
        Outcome.INVALID: Course.SKIP,
        Outcome.FORBIDDEN: Course.SKIP,
    },
}
_NEVER = frozenset({Outcome.INVALID, Outcome.FORBIDDEN, Outcome.LOCKED})
_VANISHED = frozenset({Outcome.GONE, Outcome.NOT_FOUND})
"""GONE is said of a deleted issue; NOT_FOUND also for a moment after it was made, or while a token lacks rights."""


def _course(incident: Incident, kind: IntentAction | None, answer: Answer[object]) -> Course:
    outcome = answer.outcome
    special = _BY_KIND.get(kind, {}) if kind is not None else {}
    course = special.get(outcome) or _ANYWHERE.get(outcome)
    if course is not None:
        return course
    last_try = incident.attempts + 1 >= TRIES_BEFORE_GIVING_UP
    if outcome in _VANISHED:
        if incident.issue is None:
            return Course.FALL_BACK
        return Course.VANISHED if outcome is Outcome.GONE or last_try else Course.RETRY
    if outcome in _NEVER and last_try:
        return Course.SKIP if kind is IntentAction.COMMENT else Course.GIVE_UP
    return Course.RETRY
