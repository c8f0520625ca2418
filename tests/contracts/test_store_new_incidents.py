"""What every store keeps to: counting new incidents, and the steps of an operation whose alert fires anew."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from alerts2gh.incident import Target, fold
from alerts2gh.store import SQLStore
from chassis.alertmanager import AlertStatus
from chassis.contracts import TimelineEntry, TimelinePhase
from tests.alerts2gh.store_builders import (
    MINUTE,
    NOW,
    TARGET,
    a_part,
    an_alert,
    an_issue,
    saved_from,
)

BEFORE, AFTER = NOW - 5 * MINUTE, NOW + 5 * MINUTE


def count(
    store: SQLStore,
    since: datetime = BEFORE,
    until: datetime = AFTER,
    *,
    but: Sequence[str] = (),
    most: int = 99,
) -> int:
    return store.count_new(TARGET.key, since, until, but=but, most=most)


def test_incidents_that_began_in_the_span_are_counted_stored_or_waiting(store: SQLStore) -> None:
    saved_from(store, a_part("stored"))
    store.accept([a_part("waiting"), a_part("waiting"), a_part("also waiting")])

    assert count(store) == 3


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        pytest.param(NOW - MINUTE, NOW, 2, id="the end belongs to the span"),
        pytest.param(NOW, NOW + MINUTE, 0, id="the beginning does not"),
        pytest.param(NOW + MINUTE, NOW + 2 * MINUTE, 0, id="later"),
        pytest.param(NOW - 2 * MINUTE, NOW - MINUTE, 0, id="earlier"),
    ],
)
def test_the_span_is_half_open(
    store: SQLStore, since: datetime, until: datetime, expected: int
) -> None:
    saved_from(store, a_part("stored"))
    store.accept([a_part("waiting")])

    assert count(store, since, until) == expected


def test_some_are_left_out(store: SQLStore) -> None:
    stored, waiting = saved_from(store, a_part("stored")), a_part("waiting")
    store.accept([waiting])

    assert count(store, but=[stored.id]) == 1
    assert count(store, but=[stored.id, waiting.incident_id]) == 0


def test_nobody_counts_further_than_asked(store: SQLStore) -> None:
    saved_from(store, a_part("stored"))
    store.accept([a_part(f"waiting {n}") for n in range(10)])

    assert count(store, most=3) == 3


def test_other_repositories_have_their_own_count(store: SQLStore) -> None:
    saved_from(store, a_part("elsewhere", target=Target("main", "acme", "other")))

    assert count(store) == 0


def test_a_new_delivery_for_an_incident_at_work_is_not_another_one(store: SQLStore) -> None:
    saved_from(store, a_part("stored"))
    store.accept([a_part("stored")])

    assert count(store) == 1


def test_what_fires_again_without_an_issue_counts_while_it_waits_and_after(store: SQLStore) -> None:
    quiet = saved_from(store, a_part("again", an_alert(status=AlertStatus.RESOLVED)))
    assert count(store) == 0
    later = NOW + MINUTE
    part = a_part("again", an_alert(starts_at=later), received_at=later)
    store.accept([part])
    assert count(store) == 1

    _, parts = store.load(quiet.id)
    fires = fold(quiet, part).incident
    store.save(fires, folded=[seq for seq, _ in parts], wake_at=None, owner="me")

    assert count(store, NOW, later) == 1


def test_what_went_to_the_fallback_repository_makes_no_storm(store: SQLStore) -> None:
    saved = saved_from(store, a_part("displaced"))
    store.save(replace(saved, displaced=True), wake_at=None, owner="me")

    assert count(store) == 0


def test_reconciliation_gets_what_is_told_in_a_rollup(store: SQLStore) -> None:
    saved = saved_from(store, a_part("rolled up"))
    assert store.open_and_firing() == ()
    rolled = store.save(replace(saved, rolled_into="r"), wake_at=None, owner="me")
    assert store.open_and_firing() == (rolled,)
    split = store.save(replace(rolled, issue=an_issue()), wake_at=None, owner="me")

    assert store.open_and_firing() == (split,)


def test_an_operation_goes_on_telling_the_incident_it_began_with(store: SQLStore) -> None:
    saved = saved_from(store, a_part())
    store.add_timeline([_step(TimelinePhase.RECEIVED)], NOW)
    anew = a_part("GPURuntimeError", an_alert(starts_at=NOW + MINUTE), received_at=NOW + MINUTE)
    saved_from(store, anew)

    store.add_timeline([_step(TimelinePhase.SUCCEEDED), _step(operation="another")], NOW)

    phases = [row.entry.phase for row in store.timeline_of(saved.id)]
    assert phases == [TimelinePhase.RECEIVED, TimelinePhase.SUCCEEDED]


def _step(phase: TimelinePhase = TimelinePhase.GATED, *, operation: str = "one") -> TimelineEntry:
    return TimelineEntry(
        fingerprint=an_alert().fingerprint,
        starts_at=NOW,
        operation=operation,
        phase=phase,
        node="node-1",
        at=NOW + timedelta(seconds=1),
        text="x",
    )
