"""What every store keeps to: each firing of an alert is kept with how it ended, longer than its incident."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from alerts2gh.incident import REFUSED_ALERTNAME, ClosedBy, Incident, IssueState, PastIssue, fold
from alerts2gh.ports import Ending, Episode
from alerts2gh.store import SQLStore, open_copy
from alerts2gh.store.episodes import KEPT
from chassis.alertmanager import Alert, AlertStatus
from tests.alerts2gh.store_builders import (
    MINUTE,
    NOW,
    a_part,
    an_alert,
    an_issue,
    saved_from,
)
from tests.contracts.store_databases import DatabaseUnderTest

RESOLVED = AlertStatus.RESOLVED
EVER = NOW - timedelta(days=1000)


def deliver(store: SQLStore, incident: Incident, *alerts: Alert, at: datetime = NOW) -> Incident:
    """Fold alerts into a stored incident and save it."""
    part = replace(a_part("GPURuntimeError", *alerts), received_at=at)
    return store.save(fold(incident, part).incident, wake_at=None, owner="me")


def filed(store: SQLStore, *alerts: Alert) -> Incident:
    saved = saved_from(store, a_part("GPURuntimeError", *alerts))
    return store.save(replace(saved, issue=an_issue()), wake_at=None, owner="me")


def closed(store: SQLStore, incident: Incident, reason: str, by: ClosedBy) -> Incident:
    issue = an_issue(IssueState.CLOSED, closed_at=NOW + MINUTE, closed_by=by, state_reason=reason)
    return store.save(replace(incident, issue=issue), wake_at=None, owner="me")


def endings(store: SQLStore) -> list[tuple[str, Ending | None]]:
    return [(each.node, each.ending) for each in store.episodes(EVER)]


def test_a_firing_is_kept_with_what_a_report_needs(store: SQLStore) -> None:
    alert = replace(an_alert(), labels={**an_alert().labels, "playbook": "reset-gpu"})
    incident = saved_from(store, a_part("GPURuntimeError", alert))

    assert store.episodes(EVER) == (
        Episode(
            incident_id=incident.id,
            fingerprint=alert.fingerprint,
            repository="acme/nodes",
            alertname="GPURuntimeError",
            node="node-1",
            playbook="reset-gpu",
            starts_at=NOW,
        ),
    )


def test_what_alerts2gh_says_itself_is_no_firing(store: SQLStore) -> None:
    saved_from(store, a_part(REFUSED_ALERTNAME))

    assert store.episodes(EVER) == ()


def test_what_was_resolved_when_first_heard_of_never_fired(store: SQLStore) -> None:
    saved_from(store, a_part("GPURuntimeError", an_alert(status=RESOLVED)))

    assert store.episodes(EVER) == ()


def test_a_resolved_ends_its_firing_when_it_says(store: SQLStore) -> None:
    incident = filed(store)
    over = an_alert(status=RESOLVED, ends_at=NOW)

    deliver(store, incident, over, at=NOW + MINUTE)

    (episode,) = store.episodes(EVER)
    assert (episode.ended_at, episode.ending) == (NOW, Ending.RESOLVED)


def test_a_later_firing_is_another_one_and_ends_the_one_before(store: SQLStore) -> None:
    incident = filed(store)
    later = NOW + 5 * MINUTE

    deliver(store, incident, an_alert(starts_at=later), at=later)

    first, second = store.episodes(EVER)
    assert (first.ended_at, first.ending) == (later, Ending.RESOLVED)
    assert (second.starts_at, second.ending) == (later, None)


def test_the_same_firing_after_its_resolved_goes_on(store: SQLStore) -> None:
    incident = deliver(store, filed(store), an_alert(status=RESOLVED))

    deliver(store, incident, an_alert(), at=NOW + timedelta(hours=1))

    assert endings(store) == [("node-1", None)]


@pytest.mark.parametrize(
    ("reason", "by", "ending"),
    [
        ("completed", ClosedBy.HUMAN, Ending.CLOSED),
        ("not_planned", ClosedBy.HUMAN, Ending.NOT_PLANNED),
        ("duplicate", ClosedBy.HUMAN, Ending.NOT_PLANNED),
        ("completed", ClosedBy.US, None),
    ],
)
def test_a_persons_close_ends_what_fires(
    store: SQLStore, reason: str, by: ClosedBy, ending: Ending | None
) -> None:
    closed(store, filed(store), reason, by)

    assert endings(store) == [("node-1", ending)]


def test_what_resolved_before_a_person_closed_resolved_by_itself(store: SQLStore) -> None:
    incident = filed(store, an_alert("node-1"), an_alert("node-2"))
    incident = deliver(store, incident, an_alert("node-1", RESOLVED))

    closed(store, incident, "completed", ClosedBy.HUMAN)

    assert sorted(endings(store)) == [("node-1", Ending.RESOLVED), ("node-2", Ending.CLOSED)]


def test_an_issue_that_is_wanted_again_had_not_ended(store: SQLStore) -> None:
    incident = closed(store, filed(store), "completed", ClosedBy.HUMAN)

    store.save(replace(incident, issue=an_issue()), wake_at=None, owner="me")

    assert endings(store) == [("node-1", None)]


def test_an_issue_deleted_for_good_ends_what_fires(store: SQLStore) -> None:
    past = (PastIssue(7, "u", "deleted", NOW, None),)
    dead = replace(filed(store), issue=None, past=past, dead_reason="gone")

    store.save(dead, wake_at=None, owner="me")

    assert endings(store) == [("node-1", Ending.DELETED)]


def test_what_ended_long_ago_is_left_out_and_forgotten_at_last(
    database: DatabaseUnderTest,
) -> None:
    store = database.open()
    deliver(store, filed(store), an_alert(status=RESOLVED), at=NOW)

    assert store.episodes(NOW + MINUTE) == ()
    store.prune(NOW + KEPT - MINUTE)
    assert len(store.episodes(EVER)) == 1
    store.prune(NOW + KEPT + MINUTE)
    assert store.episodes(EVER) == ()


def test_the_oldest_waiting_part_is_the_one_that_came_first(store: SQLStore) -> None:
    assert store.oldest_waiting() is None

    store.accept([a_part("A", received_at=NOW), a_part("B", received_at=NOW + MINUTE)])

    assert store.oldest_waiting() == NOW


def test_incidents_can_be_asked_for_by_state(store: SQLStore) -> None:
    opened = filed(store)
    saved_from(store, a_part("Quiet", an_alert(status=RESOLVED)))

    assert store.incidents(states=["open"]) == (opened,)
    assert len(store.incidents(states=["open", "quiet"])) == 2
    assert store.incidents(states=["dead"]) == ()


def test_a_copy_holds_the_same(database: DatabaseUnderTest, tmp_path: Path) -> None:
    store = database.open()
    incident = filed(store, an_alert("node-1"), an_alert("weird \x00 \ud800 \\u0000"))
    store.accept([a_part("Waiting")])
    store.bury(incident.id, "acme/nodes", "archived", "words", NOW)

    copy = open_copy(database.settings, tmp_path, now=lambda: NOW)
    try:
        assert copy.incidents() == store.incidents()
        assert copy.episodes(EVER) == store.episodes(EVER)
        assert copy.dead_letters() == store.dead_letters()
        assert copy.load(a_part("Waiting").incident_id) == store.load(a_part("Waiting").incident_id)
        assert (copy.leases(), copy.backlog()) == ((), 1)
    finally:
        copy.close()
