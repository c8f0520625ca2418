"""What every store keeps to: which incidents are due, and that one target never has two owners."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from alerts2gh.incident import DeliveryPart, Target
from alerts2gh.ports import StoreConflictError
from alerts2gh.store import SQLStore
from chassis.errors import TemporaryError
from tests.alerts2gh.store_builders import (
    MINUTE,
    NOW,
    TARGET,
    TTL,
    a_part,
    an_alert,
    an_incident,
    saved_from,
)
from tests.contracts.postgres_server import PostgresServer
from tests.contracts.store_databases import DatabaseUnderTest, raw_connection

Parallel = Callable[[list[Callable[[], object]]], list[object]]


def test_incidents_with_parts_or_a_wake_up_in_the_past_are_due_oldest_first(
    store: SQLStore,
) -> None:
    woken = saved_from(store, a_part("woken"), wake_at=NOW - MINUTE)
    saved_from(store, a_part("asleep"), wake_at=None)
    saved_from(store, a_part("later"), wake_at=NOW + MINUTE)
    new, both = a_part("new", received_at=NOW), a_part("woken", received_at=NOW + MINUTE)
    old = a_part("old", received_at=NOW - 2 * MINUTE)
    store.accept([new, both, old])

    assert store.due(TARGET.key, NOW, 10) == (old.incident_id, woken.id, new.incident_id)
    assert store.due(TARGET.key, NOW, 1) == (old.incident_id,)
    assert store.due("other:acme/nodes", NOW, 10) == ()
    assert store.next_wake(TARGET.key) == NOW - MINUTE


def test_a_part_wakes_an_incident_that_sleeps_without_end(store: SQLStore) -> None:
    saved = saved_from(store, a_part(), wake_at=None)
    assert store.due(TARGET.key, NOW + timedelta(days=365), 10) == ()

    store.accept([a_part()])

    assert store.due(TARGET.key, NOW, 10) == (saved.id,)


def test_a_dead_incident_is_due_only_to_fold_its_parts(store: SQLStore) -> None:
    """Left unfolded they would fill the backlog until nobody's webhooks were taken."""
    saved = saved_from(store, a_part())
    saved = store.save(replace(saved, dead_reason="gone"), wake_at=NOW, owner="me")

    assert store.due(TARGET.key, NOW, 10) == ()
    assert store.next_wake(TARGET.key) is None
    assert store.lease_targets("me", NOW, TTL) == ()

    store.accept([a_part()])

    assert store.due(TARGET.key, NOW, 10) == (saved.id,)


def test_only_targets_with_work_are_leased(store: SQLStore) -> None:
    assert store.lease_targets("me", NOW, TTL) == ()

    store.accept([a_part(), a_part(target=Target("main", "acme", "Racks"))])

    assert store.lease_targets("me", NOW, TTL) == ("main:acme/nodes", "main:acme/racks")


def test_a_parts_target_is_the_stored_one_of_its_incident(store: SQLStore) -> None:
    saved_from(store, a_part(target=Target("old", "acme", "nodes")))
    moved = a_part(target=Target("new", "acme", "nodes"))

    store.accept([moved])

    assert store.due("old:acme/nodes", NOW, 10) == (moved.incident_id,)
    assert store.due("new:acme/nodes", NOW, 10) == ()
    assert store.lease_targets("me", NOW, TTL) == ("old:acme/nodes",)


def test_a_lease_is_anothers_only_after_it_expired_or_was_given_back(store: SQLStore) -> None:
    store.accept([a_part()])
    assert store.lease_targets("first", NOW, TTL) == (TARGET.key,)
    assert store.lease_targets("second", NOW, TTL) == ()

    assert store.lease_targets("second", NOW + TTL, TTL) == (TARGET.key,)
    assert store.lease_targets("first", NOW + TTL, TTL) == ()
    store.release("second")

    assert store.lease_targets("first", NOW + TTL, TTL) == (TARGET.key,)


def test_a_renewed_lease_counts_from_the_renewal(store: SQLStore) -> None:
    store.accept([a_part()])
    store.lease_targets("first", NOW, TTL)
    store.lease_targets("first", NOW + TTL / 2, TTL)

    assert store.lease_targets("second", NOW + TTL, TTL) == ()
    assert store.lease_targets("second", NOW + TTL / 2 + TTL, TTL) == (TARGET.key,)


def test_who_lost_the_lease_can_not_save(store: SQLStore) -> None:
    saved = saved_from(store, a_part(), owner="first", wake_at=NOW)
    store.lease_targets("second", NOW + TTL, TTL)

    with pytest.raises(StoreConflictError, match="first holds no lease"):
        store.save(saved, wake_at=None, owner="first")
    store.save(saved, wake_at=None, owner="second")


def test_a_new_incident_is_not_saved_without_a_lease(store: SQLStore) -> None:
    with pytest.raises(StoreConflictError):
        store.save(an_incident(), wake_at=None, owner="me")

    assert store.load(a_part().incident_id) == (None, ())


def test_owners_that_ask_at_once_never_share_a_target(
    database: DatabaseUnderTest, in_parallel: Parallel
) -> None:
    stores = _stores(database, 3)
    for each in range(20):
        stores[0].accept([a_part(target=Target("main", "acme", f"r{each}"))])

    for turn in range(10):
        moment = NOW + turn * TTL  # every lease of the turn before has just expired
        jobs = [_leasing(store, f"owner-{n}", moment) for n, store in enumerate(stores)]
        taken = [key for keys in in_parallel(jobs) for key in keys]  # type: ignore[attr-defined]  # tuples of keys
        assert len(taken) == len(set(taken))
        assert set(taken) <= {f"main:acme/r{each}" for each in range(20)}
        assert taken


def _leasing(store: SQLStore, owner: str, moment: datetime) -> Callable[[], object]:
    return lambda: store.lease_targets(owner, moment, TTL)


def _stores(database: DatabaseUnderTest, count: int) -> list[SQLStore]:
    """A store for each replica; SQLite has but one process, so there they share one."""
    if database.settings.sqlite_file:
        return [database.open()] * count
    return [database.open() for _ in range(count)]


def test_of_saves_at_once_one_wins(database: DatabaseUnderTest, in_parallel: Parallel) -> None:
    stores = _stores(database, 4)
    saved = saved_from(stores[0], a_part("A", an_alert("node-1"), an_alert("node-2")))

    def saving(store: SQLStore, number: int) -> Callable[[], object]:
        def job() -> object:
            try:
                return store.save(replace(saved, truncated=number), wake_at=None, owner="me")
            except StoreConflictError:
                return None

        return job

    results = in_parallel([saving(store, n + 1) for n, store in enumerate(stores)])

    (winner,) = [each for each in results if each is not None]
    assert stores[1].load(saved.id)[0] == winner


def test_parts_accepted_at_once_by_many_are_all_there(
    database: DatabaseUnderTest, in_parallel: Parallel
) -> None:
    stores = _stores(database, 2)
    parts = [a_part(f"A{n}") for n in range(40)]

    in_parallel([_accepting(stores[n % 2], parts[n::8]) for n in range(8)])

    assert set(stores[0].due(TARGET.key, NOW, 100)) == {part.incident_id for part in parts}


def _accepting(store: SQLStore, parts: list[DeliveryPart]) -> Callable[[], object]:
    def job() -> object:
        for part in parts:
            store.accept([part])
        return None

    return job


def test_the_backlog_of_a_shared_database_is_counted_anew(
    shared_database: DatabaseUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = shared_database.open(), shared_database.open()
    one.accept([a_part()])
    monkeypatch.setattr("alerts2gh.store.backlog._COUNT_AGAIN", timedelta(0))

    assert other.backlog() == 1


def test_a_lost_server_is_told_as_temporary_and_nothing_acknowledged_is_lost(
    postgres: PostgresServer, shared_database: DatabaseUnderTest
) -> None:
    store = shared_database.open()
    before, after = a_part("before"), a_part("after")
    store.accept([before])
    postgres.stop()
    try:
        with pytest.raises(TemporaryError, match="storing a delivery failed"):
            store.accept([a_part("during")])
        with pytest.raises(TemporaryError):
            store.due(TARGET.key, NOW, 10)
    finally:
        postgres.start()

    store.accept([after])

    assert set(store.due(TARGET.key, NOW, 10)) == {before.incident_id, after.incident_id}


def test_a_server_that_acknowledges_too_early_is_overruled(
    shared_database: DatabaseUnderTest,
) -> None:
    shared_database.open().close()
    with raw_connection(shared_database.settings) as connection:
        name = connection.exec_driver_sql("SELECT current_database()").scalar_one()
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET synchronous_commit = off')

    store = shared_database.open()

    with store._connections.read("looking") as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"
