"""When a credential may write next, so that GitHub never has to enforce its limits.

Pure functions over `BudgetState`, which the store keeps: a restart must not forget what was just
written. Must not wait, and must not know which incident wants to write.

Every limit turns into the instant from which it allows the next write. That instant depends on the
state alone, so a permission once given stays given as time goes on, and a clock that jumps back can
only make us wait longer (`settle` bounds how much longer).

Limits: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from alerts2gh.config import WriteLimits
from alerts2gh.incident import IntentAction
from alerts2gh.ports import Answer, BudgetState, Outcome

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
FIRST_BACKOFF = timedelta(
    seconds=60
)  # GitHub: "wait for at least one minute", then longer each time
MAX_BACKOFF = timedelta(hours=1)
MAX_BLOCK = timedelta(hours=2)
MAX_REASON = 200

_LONG_AGO = datetime.min.replace(tzinfo=UTC)

# An issue that exists matters more than one that is up to date, and that more than one that reads
# well. An assignment goes before comments: without it nobody reads them. The share is how much of a
# window the kind may fill, so that a flood of edits leaves room for the create that comes next.
_SHARES: dict[IntentAction, float] = {
    IntentAction.CREATE: 1.0,
    IntentAction.REOPEN: 0.95,
    IntentAction.CLOSE: 0.9,
    IntentAction.ASSIGN: 0.85,
    IntentAction.COMMENT: 0.75,
    IntentAction.EDIT: 0.6,
}
PRIORITY: tuple[IntentAction, ...] = tuple(_SHARES)
CONTENT = frozenset({IntentAction.CREATE, IntentAction.COMMENT})


class BudgetReason(StrEnum):
    """Why a write may go, or which limit it waits for."""

    FREE = "free"
    BLOCKED = "blocked"
    """GitHub asked for silence."""
    WRITES_PER_SECOND = "writes_per_second"
    WRITES_PER_MINUTE = "writes_per_minute"
    WRITES_PER_HOUR = "writes_per_hour"
    CONTENT_PER_MINUTE = "content_per_minute"
    CONTENT_PER_HOUR = "content_per_hour"


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a write may go now.

    `at` is from when it may, unless others write in between (the past when allowed).
    """

    allowed: bool
    reason: BudgetReason
    at: datetime


@dataclass(frozen=True, slots=True)
class Usage:
    """How many writes are in each running window, for pages and metrics."""

    writes_minute: int
    writes_hour: int
    content_minute: int
    content_hour: int


def may_write(
    state: BudgetState, limits: WriteLimits, kind: IntentAction, now: datetime
) -> Permission:
    """Say whether a write may go now, and if not, which limit holds it and until when."""
    reason, at = max(_holds(state, limits, kind), key=lambda hold: hold[1])
    if at <= now:
        return Permission(allowed=True, reason=BudgetReason.FREE, at=at)
    return Permission(allowed=False, reason=reason, at=at)


def may_read(state: BudgetState, now: datetime) -> Permission:
    """Reads cost no budget, but while GitHub wants silence it wants it of them too."""
    until = state.blocked_until or _LONG_AGO
    if until <= now:
        return Permission(allowed=True, reason=BudgetReason.FREE, at=until)
    return Permission(allowed=False, reason=BudgetReason.BLOCKED, at=until)


def _holds(
    state: BudgetState, limits: WriteLimits, kind: IntentAction
) -> Iterable[tuple[BudgetReason, datetime]]:
    share = _SHARES[kind]
    writes = sorted(state.writes)
    yield BudgetReason.BLOCKED, state.blocked_until or _LONG_AGO
    gap = timedelta(seconds=1 / limits.writes_per_second)
    yield BudgetReason.WRITES_PER_SECOND, writes[-1] + gap if writes else _LONG_AGO
    minute, hour = limits.writes_per_minute, limits.writes_per_hour
    yield BudgetReason.WRITES_PER_MINUTE, _room_at(writes, minute, share, MINUTE)
    yield BudgetReason.WRITES_PER_HOUR, _room_at(writes, hour, share, HOUR)
    if kind in CONTENT:
        content = sorted(state.content)
        minute, hour = limits.content_per_minute, limits.content_per_hour
        yield BudgetReason.CONTENT_PER_MINUTE, _room_at(content, minute, share, MINUTE)
        yield BudgetReason.CONTENT_PER_HOUR, _room_at(content, hour, share, HOUR)


def _room_at(instants: Sequence[datetime], limit: int, share: float, window: timedelta) -> datetime:
    """From when a sliding window has room: as soon as the capacity-th newest write has left it."""
    capacity = max(1, int(limit * share))  # the least kind still gets an empty window
    return instants[-capacity] + window if len(instants) >= capacity else _LONG_AGO


def after_write(state: BudgetState, kind: IntentAction, now: datetime) -> BudgetState:
    """Book a write. Call it before the request is sent, so that a crash can only book too much."""
    content = (*state.content, now) if kind in CONTENT else state.content
    return replace(state, writes=_lately((*state.writes, now), now), content=_lately(content, now))


def _lately(instants: Iterable[datetime], now: datetime) -> tuple[datetime, ...]:
    return tuple(sorted(at for at in instants if at > now - HOUR))


def after_answer(state: BudgetState, answer: Answer[Any], now: datetime) -> BudgetState:
    """Learn from an answer, a read's too: until when to be silent, and whether GitHub has forgiven.

    A success does not lift a block: it may be the answer to a request that was sent before it.
    """
    until = _silence_until(state, answer, now)
    if until is None:
        done = answer.outcome in {Outcome.DONE, Outcome.NOT_MODIFIED}
        blocked = state.blocked_until is not None and state.blocked_until > now
        return state if blocked or not done else _forgiven(state)
    limited = answer.outcome in _LIMITS
    if state.blocked_until is not None and state.blocked_until >= until:
        return replace(state, strikes=state.strikes + limited)
    return replace(
        state,
        blocked_until=until,
        blocked_reason=f"{_why(answer)}: {answer.text}".rstrip(": ")[:MAX_REASON],
        strikes=state.strikes + limited,
    )


_LIMITS = frozenset({Outcome.PRIMARY_LIMIT, Outcome.SECONDARY_LIMIT})


def _forgiven(state: BudgetState) -> BudgetState:
    if state.blocked_until is None and not state.strikes:
        return state
    return replace(state, blocked_until=None, blocked_reason="", strikes=0)


def _why(answer: Answer[Any]) -> str:
    return "hour_used_up" if answer.outcome is Outcome.DONE else answer.outcome.value


def _silence_until(state: BudgetState, answer: Answer[Any], now: datetime) -> datetime | None:
    latest = now + MAX_BLOCK
    if answer.outcome in _LIMITS:
        return min(now + _limit_wait(state, answer, now), latest)
    if answer.wait is not None:  # a 503 that says when to come back
        return min(now + answer.wait, latest)
    rate = answer.rate
    used_up = rate is not None and rate.remaining == 0 and rate.resource == "core"
    if used_up and rate is not None and rate.reset_at > now:
        return min(rate.reset_at, latest)
    return None


def _limit_wait(state: BudgetState, answer: Answer[Any], now: datetime) -> timedelta:
    """Retry-After, else the reset, else a minute that doubles.

    Struck again and again, a short Retry-After grows too.
    """
    doubled = 1 << min(state.strikes, 20)
    if answer.wait is not None:
        return max(answer.wait, min(timedelta(seconds=doubled), MAX_BACKOFF))
    if answer.rate is not None and answer.rate.remaining == 0 and answer.rate.reset_at > now:
        return answer.rate.reset_at - now
    return min(FIRST_BACKOFF * doubled, MAX_BACKOFF)


def settle(state: BudgetState, now: datetime) -> BudgetState:
    """Bring a loaded state in line with the clock; save what it returns.

    Only a clock that was wrong puts writes in the future or a block further off than any answer can
    ask for. Such writes count as made now and such a block as the longest one, so that a corrected
    clock costs hours, not days.
    """
    blocked = state.blocked_until
    return replace(
        state,
        writes=_lately((min(at, now) for at in state.writes), now),
        content=_lately((min(at, now) for at in state.content), now),
        blocked_until=None if blocked is None else min(blocked, now + MAX_BLOCK),
    )


def usage(state: BudgetState, now: datetime) -> Usage:
    """Count what is in the running windows."""
    return Usage(
        writes_minute=_count(state.writes, now - MINUTE),
        writes_hour=_count(state.writes, now - HOUR),
        content_minute=_count(state.content, now - MINUTE),
        content_hour=_count(state.content, now - HOUR),
    )


def _count(instants: Iterable[datetime], after: datetime) -> int:
    return sum(at > after for at in instants)
