"""What every store keeps to: budgets, dead letters, refusals, and what pages and metrics are told."""

from dataclasses import replace
from datetime import timedelta

import pytest

from alerts2gh.incident import IssueState
from alerts2gh.ports import BudgetState, Refusal, StoreConflictError
from alerts2gh.store import IncidentState, SQLStore
from chassis.alertmanager import AlertStatus
from tests.alerts2gh.store_builders import (
    MINUTE,
    NOW,
    TARGET,
    a_part,
    an_alert,
    an_issue,
    saved_from,
)
from tests.contracts.store_databases import DatabaseUnderTest


def test_a_budget_is_empty_at_first_and_then_what_was_saved_last(store: SQLStore) -> None:
    state = BudgetState((NOW, NOW + MINUTE), (NOW,), NOW + MINUTE, "secondary limit", 2)

    assert store.load_budget("main") == BudgetState()
    store.save_budget("main", BudgetState(strikes=1))
    store.save_budget("main", state)
    assert store.load_budget("main") == state
    assert store.load_budget("other") == BudgetState()


def test_dead_letters_come_back_to_life(store: SQLStore) -> None:
    dead = replace(saved_from(store, a_part()), dead_reason="gone", attempts=9, retry_at=NOW)
    dead = store.save(dead, wake_at=NOW, owner="me")
    first = store.bury(dead.id, TARGET.key, "gone", "410", NOW)
    second = store.bury(None, TARGET.key, "no_repository", "?", NOW)
    assert store.due(TARGET.key, NOW, 10) == ()
    assert store.counts()["dead"] == 1

    assert store.requeue([first, 999], NOW + MINUTE) == 1

    alive, _ = store.load(dead.id)
    assert alive == replace(dead, dead_reason=None, attempts=0, retry_at=None, version=3)
    assert store.due(TARGET.key, NOW + MINUTE, 10) == (dead.id,)
    assert [letter.id for letter in store.dead_letters()] == [second]
    with pytest.raises(StoreConflictError):
        store.save(dead, wake_at=None, owner="me")


def test_refusals_are_counted_by_reason_with_the_last_text(store: SQLStore) -> None:
    store.count_refusal("bad_json", "first", NOW)
    store.count_refusal("no_route", "other", NOW)

    second = store.count_refusal("bad_json", "second", NOW + MINUTE)

    assert second == Refusal("bad_json", 2, NOW, NOW + MINUTE, "second")
    assert store.refusals() == (second, Refusal("no_route", 1, NOW, NOW, "other"))


def test_pages_get_the_incidents_changed_last(database: DatabaseUnderTest) -> None:
    store = database.open()
    for minute, name in enumerate(["A", "B", "C"]):
        database.now = NOW + minute * MINUTE
        saved_from(store, a_part(name, an_alert(name)))
    database.now = NOW + timedelta(hours=1)
    first = saved_from(store, a_part("A", an_alert("A")))

    found = store.incidents(limit=2)

    assert found[0] == first
    assert [each.labels["alertname"] for each in found] == ["A", "C"]


def test_reconciliation_gets_open_incidents_that_fire_or_hide_members(store: SQLStore) -> None:
    over = an_alert(status=AlertStatus.RESOLVED)
    cases = [
        ("fires", an_alert(), {"issue": an_issue()}),
        ("hides members", over, {"issue": an_issue(), "truncated": 1}),
        ("is over", over, {"issue": an_issue()}),
        ("is closed", an_alert(), {"issue": an_issue(IssueState.CLOSED)}),
        ("is dead", an_alert(), {"issue": an_issue(), "dead_reason": "gone"}),
        ("has no issue", an_alert(), {}),
    ]
    for name, alert, fields in cases:
        saved = saved_from(store, a_part(name, alert))
        store.save(replace(saved, **fields), wake_at=None, owner="me")  # type: ignore[arg-type]  # fields by name

    found = {each.labels["alertname"] for each in store.open_and_firing()}

    assert found == {"fires", "hides members"}


def test_counts_name_every_state_backlog_and_dead_letters(store: SQLStore) -> None:
    saved = saved_from(store, a_part("open"))
    store.save(replace(saved, issue=an_issue()), wake_at=None, owner="me")
    saved_from(store, a_part("unfiled"))
    saved_from(store, a_part("quiet", an_alert(status=AlertStatus.RESOLVED)))
    store.accept([a_part("waiting")])

    assert store.counts() == {
        **dict.fromkeys((state.value for state in IncidentState), 0),
        "open": 1,
        "unfiled": 1,
        "quiet": 1,
        "backlog": 1,
        "dead_letters": 0,
    }
