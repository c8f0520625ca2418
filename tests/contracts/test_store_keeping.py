"""What every store keeps to: the timeline, pruning, and tables that agree with the migrations."""

from dataclasses import replace
from datetime import datetime, timedelta

import alembic.autogenerate
import pytest
from alembic.runtime.migration import MigrationContext

from alerts2gh.incident import Incident, Intent, IntentAction, IssueState
from alerts2gh.store import SQLStore
from alerts2gh.store.schema import metadata
from chassis.alertmanager import AlertStatus
from chassis.contracts import TimelineEntry, TimelinePhase
from chassis.errors import PermanentError
from tests.alerts2gh.store_builders import (
    MINUTE,
    NOW,
    TARGET,
    a_part,
    an_alert,
    an_issue,
    saved_from,
)
from tests.contracts.store_databases import DatabaseUnderTest, raw_connection

DAY = timedelta(days=1)


def an_entry(
    phase: TimelinePhase = TimelinePhase.ISOLATED,
    *,
    node: str = "node-1",
    starts_at: datetime = NOW,
    attempt: int = 1,
) -> TimelineEntry:
    return TimelineEntry(
        fingerprint=an_alert(node).fingerprint,
        starts_at=starts_at,
        operation="op-1",
        phase=phase,
        node=node,
        at=NOW + MINUTE,
        text="The node is isolated.",
        attempt=attempt,
    )


def test_an_entry_wakes_its_alerts_incident_until_a_save_has_seen_it(store: SQLStore) -> None:
    saved = saved_from(store, a_part())
    assert store.add_timeline([an_entry()], NOW) == 1
    (row,) = store.timeline_of(saved.id)
    assert (row.entry, row.seen) == (an_entry(), False)
    assert store.due(TARGET.key, NOW, 10) == (saved.id,)
    assert store.lease_targets("me", NOW, MINUTE) == (TARGET.key,)

    store.save(saved, wake_at=None, owner="me", timeline_seen=[row.id])

    assert store.due(TARGET.key, NOW, 10) == ()
    assert [each.seen for each in store.timeline_of(saved.id)] == [True]


def test_an_entry_told_again_changes_nothing(store: SQLStore) -> None:
    saved = saved_from(store, a_part())
    again = an_entry(attempt=2)

    assert store.add_timeline([an_entry(), an_entry()], NOW) == 1
    assert store.add_timeline([an_entry(), again], NOW) == 1
    assert [row.entry for row in store.timeline_of(saved.id)] == [an_entry(), again]


def test_an_entry_before_its_alert_waits_for_it(store: SQLStore) -> None:
    store.add_timeline([an_entry(), an_entry(TimelinePhase.DRAINING, node="node-9")], NOW)

    saved = saved_from(store, a_part())

    assert [row.entry for row in store.timeline_of(saved.id)] == [an_entry()]
    assert store.due(TARGET.key, NOW, 10) == (saved.id,)


def test_an_entry_belongs_to_every_incident_of_its_alert(store: SQLStore) -> None:
    first, second = saved_from(store, a_part("A")), saved_from(store, a_part("B"))

    store.add_timeline([an_entry()], NOW)

    assert len(store.timeline_of(first.id)) == len(store.timeline_of(second.id)) == 1


def test_an_entry_of_another_episode_does_not_belong_to_the_incident(store: SQLStore) -> None:
    saved = saved_from(store, a_part())

    store.add_timeline([an_entry(starts_at=NOW - DAY)], NOW)

    assert store.timeline_of(saved.id) == ()


def test_entries_whose_alert_never_came_expire_and_others_stay(store: SQLStore) -> None:
    saved = saved_from(store, a_part())
    store.add_timeline([an_entry(), an_entry(TimelinePhase.GATED, node="node-9")], NOW)

    assert store.expire_timeline(NOW) == 0
    assert store.expire_timeline(NOW + DAY) == 1
    assert len(store.timeline_of(saved.id)) == 1


def _closed(store: SQLStore, name: str, **changes: object) -> Incident:
    saved = saved_from(store, a_part(name, an_alert(name, AlertStatus.RESOLVED)))
    wake_at = changes.pop("wake_at", None)
    issue = an_issue(IssueState.CLOSED, closed_at=changes.pop("closed_at", NOW))
    changed = replace(saved, **{"issue": issue, **changes})  # type: ignore[arg-type]  # fields by name
    return store.save(changed, wake_at=wake_at, owner="me")  # type: ignore[arg-type]  # a datetime


def test_pruning_drops_what_is_long_over_and_nothing_else(database: DatabaseUnderTest) -> None:
    store = database.open()
    over = _closed(store, "over")
    quiet = saved_from(store, a_part("quiet", an_alert("quiet", AlertStatus.RESOLVED)))
    kept = [
        _closed(store, "closed lately", closed_at=NOW + 2 * DAY),
        _closed(store, "sleeps", wake_at=NOW),
        _closed(store, "dead", dead_reason="gone"),
        _closed(store, "writing", intent=Intent(IntentAction.COMMENT, "t", NOW)),
        _closed(store, "open", issue=an_issue()),
        _closed(store, "buried"),
        _closed(store, "part waits"),
        saved_from(store, a_part("fires")),
    ]
    store.bury(a_part("buried").incident_id, TARGET.key, "gone", "", NOW)
    store.accept([a_part("part waits")])
    store.add_timeline([an_entry(node="over")], NOW)
    database.now = NOW + 2 * DAY
    kept.append(_closed(store, "changed lately"))

    assert store.prune(NOW) == 0
    assert store.prune(NOW + DAY) == 2

    assert {each.id for each in store.incidents()} == {each.id for each in kept}
    assert store.load(over.id) == store.load(quiet.id) == (None, ())
    assert store.expire_timeline(NOW + DAY) == 1


def test_the_migrations_build_the_tables_that_the_program_expects(
    database: DatabaseUnderTest,
) -> None:
    database.open().close()

    with raw_connection(database.settings) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = alembic.autogenerate.compare_metadata(context, metadata)
        assert differences == []
        connection.exec_driver_sql("ALTER TABLE budgets ADD COLUMN surprise TEXT")
        assert len(alembic.autogenerate.compare_metadata(context, metadata)) == 1


def test_a_database_of_a_newer_version_is_left_alone(database: DatabaseUnderTest) -> None:
    database.open().close()
    with raw_connection(database.settings) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(PermanentError, match="newer version of alerts2gh"):
        database.open()
