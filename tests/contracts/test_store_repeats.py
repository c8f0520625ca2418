"""When a store says of a delivery that it would change nothing, on SQLite and on PostgreSQL."""

from dataclasses import replace

from alerts2gh.incident import IssueState, Target
from alerts2gh.ports import Repeat
from alerts2gh.store import SQLStore
from tests.alerts2gh.store_builders import MINUTE, NOW, TTL, a_part, an_alert, an_issue, saved_from
from tests.contracts.store_databases import DatabaseUnderTest

PART = a_part()
LATER = replace(PART, received_at=NOW + MINUTE)


def folded(store: SQLStore) -> tuple[Repeat, ...]:
    """Accept PART twice and fold both; how it is recognised."""
    repeats = store.accept([LATER])
    saved_from(store, PART)
    return repeats


def test_what_is_folded_already_is_known_whenever_it_comes_again(store: SQLStore) -> None:
    assert store.is_known(folded(store))


def test_what_was_never_accepted_is_not_known(store: SQLStore) -> None:
    folded(store)

    assert not store.is_known([Repeat(PART.incident_id, PART.label_key, "0" * 32)])
    assert not store.is_known([Repeat("f" * 32, PART.label_key, "0" * 32)])


def test_what_waits_to_be_folded_is_not_known(store: SQLStore) -> None:
    assert not store.is_known(store.accept([PART]))


def test_nothing_is_known_while_something_newer_waits(store: SQLStore) -> None:
    repeats = folded(store)

    store.accept([a_part("GPURuntimeError", an_alert("node-2"))])

    assert not store.is_known(repeats)


def test_what_came_before_something_else_is_news_again(store: SQLStore) -> None:
    repeats = folded(store)

    saved_from(store, a_part("GPURuntimeError", an_alert("node-2")))

    assert not store.is_known(repeats)


def test_a_save_that_changes_no_member_leaves_it_known(store: SQLStore) -> None:
    repeats = folded(store)
    incident, _ = store.load(PART.incident_id)
    assert incident is not None

    store.save(replace(incident, attempts=1), wake_at=None, owner="me")

    assert store.is_known(repeats)


def test_of_several_parts_each_must_be_known(store: SQLStore) -> None:
    both = [PART, a_part("Other")]
    repeats = store.accept(both)
    for part in both:
        saved_from(store, part)
    assert store.is_known(repeats)

    store.accept([a_part("Other", an_alert("node-2"))])

    assert not store.is_known(repeats)


def test_after_a_start_everything_is_looked_at_once_more(database: DatabaseUnderTest) -> None:
    store = database.open()
    repeats = folded(store)
    store.close()

    again = database.open()

    assert not again.is_known(repeats)
    saved_from(again, PART)
    assert again.is_known(repeats)


def test_parts_that_waited_at_the_start_count(database: DatabaseUnderTest) -> None:
    first = database.open()
    saved_from(first, PART)
    first.accept([a_part("GPURuntimeError", an_alert("node-2"))])
    first.close()
    store = database.open()
    store.lease_targets("me", NOW, TTL)
    incident, _ = store.load(PART.incident_id)
    assert incident is not None

    store.save(incident, wake_at=None, owner="me")  # settled by PART, and something newer waits

    assert not store.is_known([Repeat(PART.incident_id, PART.label_key, incident.settled_by)])


def test_the_same_labels_filed_elsewhere_are_for_the_router_to_decide(store: SQLStore) -> None:
    repeats = folded(store)
    elsewhere = saved_from(store, a_part(target=Target("main", "acme", "racks")))
    assert store.is_known(repeats)

    store.save(replace(elsewhere, issue=an_issue(IssueState.OPEN)), wake_at=None, owner="me")

    assert not store.is_known(repeats)


def test_what_is_pruned_is_not_known(store: SQLStore) -> None:
    repeats = folded(store)
    incident, _ = store.load(PART.incident_id)
    assert incident is not None
    over = replace(incident, members={}, settled_by=repeats[0].digest)
    store.save(over, wake_at=None, owner="me")

    assert store.prune(NOW + MINUTE) == 1

    assert not store.is_known(repeats)


def test_what_another_replica_accepted_or_saved_is_seen(shared_database: DatabaseUnderTest) -> None:
    one, other = shared_database.open(), shared_database.open()
    repeats = folded(one)
    assert one.is_known(repeats)

    other.accept([a_part("GPURuntimeError", an_alert("node-2"))])
    assert not one.is_known(repeats)

    incident, parts = other.load(PART.incident_id)
    assert incident is not None
    other.save(incident, folded=[seq for seq, _ in parts], wake_at=None, owner="me")
    assert not one.is_known(repeats)
