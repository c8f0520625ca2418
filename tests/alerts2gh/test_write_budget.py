"""When a credential may write: never over a limit, never against GitHub's word, never for ever."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts2gh.config import WriteLimits
from alerts2gh.incident import IntentAction
from alerts2gh.ports import Answer, BudgetState, Outcome, RateLimit
from alerts2gh.write_budget import (
    CONTENT,
    MAX_BACKOFF,
    MAX_BLOCK,
    PRIORITY,
    BudgetReason,
    Permission,
    Usage,
    after_answer,
    after_write,
    may_read,
    may_write,
    settle,
    usage,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
LIMITS = WriteLimits()
CREATE, COMMENT, EDIT = IntentAction.CREATE, IntentAction.COMMENT, IntentAction.EDIT
SMALL = WriteLimits(
    writes_per_second=2,
    writes_per_minute=6,
    writes_per_hour=20,
    content_per_minute=4,
    content_per_hour=10,
)


def wrote(*seconds_ago: float, content: Iterable[float] = ()) -> BudgetState:
    return BudgetState(
        writes=tuple(NOW - timedelta(seconds=s) for s in seconds_ago),
        content=tuple(NOW - timedelta(seconds=s) for s in content),
    )


def limited(
    outcome: Outcome = Outcome.SECONDARY_LIMIT,
    wait: timedelta | None = None,
    reset: timedelta | None = None,
) -> Answer[None]:
    rate = None if reset is None else RateLimit("core", 5000, 0, NOW + reset)
    return Answer(outcome, wait=wait, rate=rate, text="slow down")


def test_every_kind_of_write_has_its_place() -> None:
    assert set(IntentAction) == set(PRIORITY)
    assert sorted(IntentAction, key=PRIORITY.index) == [
        IntentAction.CREATE,
        IntentAction.REOPEN,
        IntentAction.CLOSE,
        IntentAction.ASSIGN,
        IntentAction.COMMENT,
        IntentAction.EDIT,
    ]


@pytest.mark.parametrize(
    ("state", "limits", "kind", "reason", "after"),
    [
        pytest.param(BudgetState(), LIMITS, CREATE, None, None, id="nothing written yet"),
        pytest.param(wrote(0.4), LIMITS, CREATE, BudgetReason.WRITES_PER_SECOND, 0.6, id="a second apart"),
        pytest.param(wrote(1), LIMITS, CREATE, None, None, id="the second is over"),
        pytest.param(
            wrote(0.1), WriteLimits(writes_per_second=4), CREATE, BudgetReason.WRITES_PER_SECOND, 0.15,
            id="a quarter of a second apart when configured so",
        ),
        pytest.param(
            wrote(50, 40, 30, 20, 10, 5), SMALL, CREATE, BudgetReason.WRITES_PER_MINUTE, 10, id="the minute is full"
        ),
        pytest.param(wrote(60, 40, 30, 20, 10, 5), SMALL, CREATE, None, None, id="the oldest has just left"),
        pytest.param(
            wrote(50, 40, 30), SMALL, EDIT, BudgetReason.WRITES_PER_MINUTE, 10, id="edits leave room for creates"
        ),
        pytest.param(wrote(50, 40, 30), SMALL, CREATE, None, None, id="and creates use it"),
        pytest.param(
            wrote(*range(3000, 1000, -100)), SMALL, CREATE, BudgetReason.WRITES_PER_HOUR, 600, id="the hour is full"
        ),
        pytest.param(
            wrote(content=(50, 40, 30)), SMALL, COMMENT, BudgetReason.CONTENT_PER_MINUTE, 10,
            id="comments leave content to creates",
        ),
        pytest.param(wrote(content=(50, 40, 30)), SMALL, CREATE, None, None, id="a create takes the last of it"),
        pytest.param(
            wrote(content=range(3000, 2000, -100)), SMALL, CREATE, BudgetReason.CONTENT_PER_HOUR, 600,
            id="content of the hour",
        ),
        pytest.param(wrote(content=range(3000, 2000, -100)), SMALL, EDIT, None, None, id="an edit is no content"),
        pytest.param(
            BudgetState(blocked_until=NOW + MINUTE), LIMITS, CREATE, BudgetReason.BLOCKED, 60,
            id="GitHub wants silence",
        ),
        pytest.param(BudgetState(blocked_until=NOW), LIMITS, CREATE, None, None, id="the silence is over"),
        pytest.param(
            wrote(-120), LIMITS, CREATE, BudgetReason.WRITES_PER_SECOND, 121, id="a clock that jumped back waits"
        ),
    ],
)  # fmt: skip
def test_a_write_may_go(
    state: BudgetState,
    limits: WriteLimits,
    kind: IntentAction,
    reason: BudgetReason | None,
    after: float | None,
) -> None:
    permission = may_write(state, limits, kind, NOW)

    if reason is None:
        assert (permission.allowed, permission.reason) == (True, BudgetReason.FREE)
    else:
        assert (
            Permission(allowed=False, reason=reason, at=NOW + timedelta(seconds=after or 0))
            == permission
        )


@pytest.mark.parametrize(
    ("answer", "strikes", "blocked_for"),
    [
        pytest.param(limited(wait=30 * SECOND), 0, 30 * SECOND, id="Retry-After"),
        pytest.param(limited(wait=30 * SECOND, reset=HOUR), 0, 30 * SECOND, id="Retry-After before the reset"),
        pytest.param(limited(Outcome.PRIMARY_LIMIT, reset=20 * MINUTE), 0, 20 * MINUTE, id="the reset"),
        pytest.param(limited(), 0, MINUTE, id="a minute when nothing is said"),
        pytest.param(limited(), 1, 2 * MINUTE, id="then two"),
        pytest.param(limited(), 3, 8 * MINUTE, id="then eight"),
        pytest.param(limited(), 60, MAX_BACKOFF, id="an hour at most"),
        pytest.param(limited(reset=-MINUTE), 0, MINUTE, id="a reset gone by says nothing"),
        pytest.param(limited(wait=SECOND), 6, 64 * SECOND, id="a short Retry-After grows when it is said again and again"),
        pytest.param(limited(wait=50 * HOUR), 0, MAX_BLOCK, id="never longer than the longest block"),
        pytest.param(Answer(Outcome.UNKNOWN, wait=20 * SECOND), 0, 20 * SECOND, id="a 503 that says when"),
        pytest.param(
            Answer(Outcome.DONE, rate=RateLimit("core", 5000, 0, NOW + MINUTE)), 0, MINUTE,
            id="the last request of the hour succeeded",
        ),
    ],
)  # fmt: skip
def test_github_is_obeyed(answer: Answer[None], strikes: int, blocked_for: timedelta) -> None:
    state = after_answer(BudgetState(strikes=strikes), answer, NOW)

    assert NOW + blocked_for == state.blocked_until
    assert not may_write(state, LIMITS, CREATE, NOW).allowed
    assert not may_read(state, NOW).allowed
    assert may_read(state, NOW + blocked_for).allowed


@pytest.mark.parametrize(
    "answer",
    [
        Answer(Outcome.UNKNOWN),
        Answer(Outcome.UNREACHABLE),
        Answer(Outcome.FORBIDDEN),
        Answer(Outcome.DONE, rate=RateLimit("core", 5000, 9, NOW + MINUTE)),
        Answer(Outcome.DONE, rate=RateLimit("search", 30, 0, NOW + MINUTE)),
        Answer(Outcome.DONE, rate=RateLimit("core", 5000, 0, NOW - MINUTE)),
    ],
)
def test_other_answers_block_nothing(answer: Answer[None]) -> None:
    assert BudgetState() == after_answer(BudgetState(), answer, NOW)


def test_strikes_count_up_and_a_success_after_the_block_forgives() -> None:
    struck = after_answer(after_answer(BudgetState(), limited(), NOW), limited(), NOW + MINUTE)
    early = after_answer(struck, Answer(Outcome.DONE), NOW + MINUTE)
    late = after_answer(struck, Answer(Outcome.DONE), NOW + 3 * MINUTE)

    assert (struck.strikes, struck.blocked_until) == (2, NOW + 3 * MINUTE)
    assert struck == early, "an answer to what was sent before the block lifts nothing"
    assert BudgetState() == late


def test_a_failure_does_not_forgive() -> None:
    struck = after_answer(BudgetState(), limited(), NOW)

    assert struck == after_answer(struck, Answer(Outcome.UNREACHABLE), NOW + HOUR)


def test_a_shorter_block_does_not_shorten_a_longer_one() -> None:
    long = after_answer(BudgetState(), limited(wait=HOUR), NOW)
    again = after_answer(long, limited(wait=MINUTE), NOW)

    assert (again.blocked_until, again.strikes) == (NOW + HOUR, 2)


def test_the_reason_of_a_block_is_kept_for_people() -> None:
    assert (
        after_answer(BudgetState(), limited(), NOW).blocked_reason == "secondary_limit: slow down"
    )


def test_writes_are_booked_by_kind_and_forgotten_after_an_hour() -> None:
    state = after_write(wrote(3600, 3599, content=(3600,)), COMMENT, NOW)

    assert state.writes == (NOW - 3599 * SECOND, NOW)
    assert state.content == (NOW,)
    assert after_write(state, EDIT, NOW).content == (NOW,)


def test_usage_counts_the_running_windows() -> None:
    state = wrote(3000, 100, 30, 1, content=(100, 1))

    assert Usage(writes_minute=2, writes_hour=4, content_minute=1, content_hour=2) == usage(
        state, NOW
    )


def test_a_corrected_clock_costs_hours_not_days() -> None:
    future = BudgetState(
        writes=(NOW + timedelta(days=3),),
        content=(NOW + timedelta(days=3),),
        blocked_until=NOW + timedelta(days=3),
    )
    settled = settle(future, NOW)

    assert (
        settled.writes,
        settled.content,
        settled.blocked_until,
    ) == ((NOW,), (NOW,), NOW + MAX_BLOCK)
    assert settle(settled, NOW) == settled


Wishes = list[tuple[IntentAction, float]]
KINDS = st.sampled_from(IntentAction)
TINY = st.builds(
    WriteLimits,
    writes_per_second=st.sampled_from([0.1, 0.5, 1.0, 3.0]),
    writes_per_minute=st.integers(1, 12),
    writes_per_hour=st.integers(1, 40),
    content_per_minute=st.integers(1, 8),
    content_per_hour=st.integers(1, 20),
)
# The wish to write comes after so many seconds; some come in bursts.
WISHES = st.lists(st.tuples(KINDS, st.sampled_from([0.0, 0.2, 1.0, 7.0, 61.0, 900.0])), max_size=60)


def most_in(instants: Sequence[datetime], window: timedelta) -> int:
    return max(
        (sum(start <= at < start + window for at in instants) for start in instants), default=0
    )


def drive(
    limits: WriteLimits, wishes: Wishes, *, patient: bool = False
) -> list[tuple[IntentAction, datetime]]:
    """Write whenever allowed (or wait until it is); what was written, with its instants."""
    state, now, done = BudgetState(), NOW, []
    for kind, pause in wishes:
        now += timedelta(seconds=pause)
        permission = may_write(state, limits, kind, now)
        if patient:
            now = max(now, permission.at)
            permission = may_write(state, limits, kind, now)
        if permission.allowed:
            state = after_write(state, kind, now)
            done.append((kind, now))
    return done


@settings(deadline=None)
@given(TINY, WISHES, st.booleans())
def test_no_sliding_window_ever_holds_more_than_its_limit(
    limits: WriteLimits, wishes: Wishes, patient: bool
) -> None:
    done = drive(limits, wishes, patient=patient)
    writes = [at for _, at in done]
    content = [at for kind, at in done if kind in CONTENT]
    gap = timedelta(seconds=1 / limits.writes_per_second)

    assert most_in(writes, MINUTE) <= limits.writes_per_minute
    assert most_in(writes, HOUR) <= limits.writes_per_hour
    assert most_in(content, MINUTE) <= limits.content_per_minute
    assert most_in(content, HOUR) <= limits.content_per_hour
    assert all(b - a >= gap for a, b in pairwise(writes))


@settings(deadline=None)
@given(TINY, WISHES)
def test_who_waits_until_the_named_instant_may_always_write(
    limits: WriteLimits, wishes: Wishes
) -> None:
    assert len(wishes) == len(drive(limits, wishes, patient=True))


STATES = st.builds(
    lambda seconds, content, blocked: BudgetState(
        writes=tuple(NOW + timedelta(seconds=s) for s in seconds),
        content=tuple(NOW + timedelta(seconds=s) for s in content),
        blocked_until=None if blocked is None else NOW + timedelta(seconds=blocked),
    ),
    st.lists(st.integers(-3600, 300), max_size=15),
    st.lists(st.integers(-3600, 300), max_size=8),
    st.none() | st.integers(-60, 600),
)


@settings(deadline=None)
@given(STATES, TINY, KINDS, st.integers(-7200, 7200), st.integers(0, 7200))
def test_a_permission_once_given_stays_given(
    state: BudgetState, limits: WriteLimits, kind: IntentAction, start: int, later: int
) -> None:
    first = may_write(state, limits, kind, NOW + timedelta(seconds=start))
    second = may_write(state, limits, kind, NOW + timedelta(seconds=start + later))

    assert second.allowed or not first.allowed
    assert first.at == second.at


@settings(deadline=None)
@given(STATES, TINY, KINDS, st.integers(-7200, 7200))
def test_a_block_is_obeyed_whatever_else(
    state: BudgetState, limits: WriteLimits, kind: IntentAction, shift: int
) -> None:
    now = NOW + timedelta(seconds=shift)
    permission = may_write(state, limits, kind, now)

    assert not (
        permission.allowed and state.blocked_until is not None and now < state.blocked_until
    )


@settings(deadline=None)
@given(STATES, TINY, st.integers(0, 7200))
def test_what_a_lesser_write_may_a_greater_of_its_sort_may_too(
    state: BudgetState, limits: WriteLimits, shift: int
) -> None:
    now = NOW + timedelta(seconds=shift)
    for sort in (CONTENT, frozenset(IntentAction) - CONTENT):
        allowed = [may_write(state, limits, kind, now).allowed for kind in PRIORITY if kind in sort]

        assert allowed == sorted(allowed, reverse=True)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([COMMENT, EDIT, IntentAction.ASSIGN]), min_size=200, max_size=300))
def test_a_flood_of_lesser_writes_leaves_room_for_a_create_at_once(
    flood: list[IntentAction],
) -> None:
    """With the shipped limits: whatever the flood was, a create waits for nothing but the second between writes."""
    state, now = BudgetState(), NOW
    for kind in flood:
        now = max(now, may_write(state, LIMITS, kind, now).at)
        state = after_write(state, kind, now)

        assert may_write(state, LIMITS, CREATE, now + SECOND).allowed
