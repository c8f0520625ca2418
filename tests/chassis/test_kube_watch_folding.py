"""What a cache makes of what it is told: changes, back-off, and when it must list anew."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import NodemendError
from chassis.kube_client import Throttled, error_from_status
from chassis.kube_watch import Backoff, Change, ChangeKind
from chassis.kube_watch.folding import Entry, fold_relist, fold_seen, history_went_back
from chassis.kube_watch.recovery import must_relist

ADDED, MODIFIED, DELETED = ChangeKind.ADDED, ChangeKind.MODIFIED, ChangeKind.DELETED


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, Entry("a", "u1", "1"), [Change(ADDED, "k", None, "a")]),
        (Entry("a", "u1", "1"), Entry("b", "u1", "2"), [Change(MODIFIED, "k", "a", "b")]),
        (Entry("a", "u1", "1"), Entry("a", "u1", "1"), []),
        (
            Entry("a", "u1", "1"),
            Entry("b", "u2", "1"),
            [Change(DELETED, "k", "a", None), Change(ADDED, "k", None, "b")],
        ),
    ],
    ids=["new", "another version", "seen already", "another object of the same name"],
)
def test_an_object_that_is_seen_changes_what_it_must(
    old: Entry[str] | None, new: Entry[str], expected: list[Change[str]]
) -> None:
    assert list(fold_seen("k", old, new)) == expected


ENTRIES = st.dictionaries(
    st.sampled_from("abcde"),
    st.builds(Entry, st.integers(0, 9), st.sampled_from(["u1", "u2"]), st.sampled_from("123")),
)


@given(ENTRIES, ENTRIES, st.booleans())
def test_after_a_relist_the_changes_lead_from_what_was_held_to_what_there_is(
    held: dict[str, Entry[int]], fresh: dict[str, Entry[int]], same_history: bool
) -> None:
    state = {key: entry.value for key, entry in held.items()}
    for change in fold_relist(held, fresh, same_history=same_history):
        assert state.get(change.key) == change.old
        if change.new is None:
            del state[change.key]
        else:
            state[change.key] = change.new

    unchanged = {
        key for key in fresh if same_history and key in held and held[key][1:] == fresh[key][1:]
    }
    assert state.keys() == fresh.keys()
    assert all(state[key] == fresh[key].value for key in fresh.keys() - unchanged)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("10", "9", True),
        ("9", "10", False),
        ("10", "10", False),
        (None, "1", False),
        ("x", "1", False),
    ],
)
def test_a_server_behind_us_has_lost_writes(
    before: str | None, now: str, *, expected: bool
) -> None:
    assert history_went_back(before, now) is expected


def test_waits_double_up_to_the_limit_and_half_of_each_is_chance() -> None:
    low, high = Backoff(dice=lambda: 0.0), Backoff(dice=lambda: 1.0)

    assert [low.next_wait().total_seconds() for _ in range(4)] == [0.25, 0.5, 1, 2]
    assert [high.next_wait().total_seconds() for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    for _ in range(2000):
        high.next_wait()
    assert high.next_wait() == timedelta(seconds=30)


def test_a_healthy_stretch_makes_the_next_failure_the_first_and_a_short_one_does_not() -> None:
    backoff = Backoff(dice=lambda: 1.0)
    for _ in range(5):
        backoff.next_wait()

    backoff.went_well_for(timedelta(seconds=29))
    assert backoff.failures == 5
    backoff.went_well_for(timedelta(seconds=30))
    assert backoff.next_wait() == timedelta(milliseconds=500)


def test_a_wait_is_never_shorter_than_the_server_asked_for() -> None:
    assert Backoff().next_wait(timedelta(minutes=2)) == timedelta(minutes=2)


FUTURE = {"details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}


@pytest.mark.parametrize(
    ("error", "failures", "expected"),
    [
        (error_from_status(410, {}), 1, True),
        (error_from_status(400, {}), 1, True),
        (error_from_status(504, FUTURE), 1, True),
        (error_from_status(503, {}), 1, False),
        (error_from_status(503, {}), 3, True),
        (error_from_status(0, {}), 50, False),
        (error_from_status(403, {}), 9, False),
        (error_from_status(401, {}), 9, False),
        (Throttled("wait", status=429, reason="TooManyRequests"), 9, False),
    ],
    ids=[
        "the version is forgotten",
        "the version is nonsense",
        "the version is of the future",
        "the server is ill",
        "the server is ill again and again",
        "a broken connection, however often",
        "not allowed",
        "not known",
        "throttled",
    ],
)
def test_everything_is_listed_anew_only_when_going_on_makes_no_sense(
    error: NodemendError, failures: int, *, expected: bool
) -> None:
    assert must_relist(error, failures) is expected
