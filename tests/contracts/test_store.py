"""What every store keeps to, on SQLite and on PostgreSQL: deliveries, incidents, records."""

from dataclasses import replace

import pytest

from alerts2gh.incident import (
    Intent,
    IntentAction,
    IssueState,
    Target,
    fold,
    label_key,
    new_incident,
)
from alerts2gh.ports import (
    DeadLetter,
    OpenIncident,
    Refusal,
    Store,
    StoreConflictError,
)
from alerts2gh.store import SQLStore
from chassis.alertmanager import AlertStatus
from chassis.errors import TemporaryError
from tests.alerts2gh.store_builders import (
    MINUTE,
    NOW,
    TARGET,
    TTL,
    a_part,
    an_alert,
    an_incident,
    an_issue,
    saved_from,
)
from tests.contracts.store_databases import DatabaseUnderTest

WEIRD = 'NUL \x00, half a pair \ud800, back\\slash, \\u0000, "quotes", 雪, 🦊'


def test_the_sql_store_is_a_store(store: SQLStore) -> None:
    fulfilled: Store = store

    assert fulfilled.backlog() == 0


def test_accepted_parts_come_back_whole_in_order_of_arrival_after_a_restart(
    database: DatabaseUnderTest,
) -> None:
    first, second = (
        a_part(),
        a_part("GPURuntimeError", an_alert("node-2"), received_at=NOW + MINUTE),
    )
    store = database.open()
    store.accept([first, a_part("Other")])
    store.accept([second])
    store.close()

    again = database.open()

    incident, parts = again.load(first.incident_id)
    assert incident is None
    assert [part for _, part in parts] == [first, second]
    assert again.backlog() == 3


def test_nothing_to_accept_changes_nothing(store: SQLStore) -> None:
    store.accept([])

    assert store.backlog() == 0


def test_any_text_survives_in_every_place(store: SQLStore) -> None:
    alert = an_alert(labels={WEIRD: WEIRD}, annotations={"a": WEIRD}, fingerprint=WEIRD)
    part = a_part("x", alert, labels={WEIRD: WEIRD}, target=Target(WEIRD, WEIRD, WEIRD))
    saved = saved_from(store, part)
    store.bury(saved.id, WEIRD, WEIRD, WEIRD, NOW)

    assert store.load(saved.id) == (saved, ())
    assert store.find_filed([part.label_key]) == ()
    assert store.dead_letters() == (DeadLetter(1, saved.id, WEIRD, WEIRD, WEIRD, NOW),)
    assert store.count_refusal(WEIRD, WEIRD, NOW) == Refusal(WEIRD, 1, NOW, NOW, WEIRD)
    assert store.lease_targets("me", NOW, TTL) == ()


def test_a_full_backlog_refuses_until_parts_are_folded(database: DatabaseUnderTest) -> None:
    store = database.open(max_backlog=2)
    store.accept([a_part("A"), a_part("B")])

    with pytest.raises(TemporaryError, match=r"max_backlog"):
        store.accept([a_part("C")])
    saved_from_nothing = store.load(a_part("A").incident_id)[1]
    store.lease_targets("me", NOW, TTL)
    store.save(
        an_incident(a_part("A")),
        folded=[seq for seq, _ in saved_from_nothing],
        wake_at=None,
        owner="me",
    )
    store.accept([a_part("C")])

    assert store.backlog() == 2


def test_a_saved_incident_is_loaded_with_its_members_and_next_version(store: SQLStore) -> None:
    part = a_part("GPURuntimeError", an_alert("node-1"), an_alert("node-2"))

    saved = saved_from(store, part)

    assert saved.version == 1
    assert {member.labels["node"] for member in saved.members.values()} == {"node-1", "node-2"}
    assert store.load(part.incident_id) == (saved, ())
    assert store.backlog() == 0


def test_saving_again_changes_adds_and_removes_members(store: SQLStore) -> None:
    saved = saved_from(
        store, a_part("A", an_alert("node-1"), an_alert("node-2"), an_alert("node-3"))
    )
    later = a_part(
        "A",
        an_alert("node-1", AlertStatus.RESOLVED, ends_at=NOW + MINUTE),
        an_alert("node-4"),
        received_at=NOW + MINUTE,
    )
    changed = fold(saved, later).incident
    gone = an_alert("node-3").fingerprint
    changed = replace(
        changed, members={name: each for name, each in changed.members.items() if name != gone}
    )

    again = store.save(changed, wake_at=None, owner="me")

    assert store.load(saved.id)[0] == again
    assert {m.labels["node"]: m.firing for m in again.members.values()} == {
        "node-1": False,
        "node-2": True,
        "node-4": True,
    }


def test_a_save_drops_only_the_folded_parts(store: SQLStore) -> None:
    part = a_part()
    store.accept([part])
    _, ((seq, _),) = store.load(part.incident_id)
    store.accept([part])
    store.lease_targets("me", NOW, TTL)

    store.save(an_incident(part), folded=[seq], wake_at=None, owner="me")

    _, rest = store.load(part.incident_id)
    assert [each for each, _ in rest] != [seq]
    assert len(rest) == store.backlog() == 1


def test_the_second_save_of_one_version_conflicts_and_changes_nothing(store: SQLStore) -> None:
    saved = saved_from(store, a_part())
    winner = store.save(replace(saved, truncated=1), wake_at=None, owner="me")
    store.accept([a_part()])
    _, ((seq, _),) = store.load(saved.id)

    with pytest.raises(StoreConflictError):
        store.save(replace(saved, truncated=2), folded=[seq], wake_at=None, owner="me")

    assert store.load(saved.id)[0] == winner
    assert store.backlog() == 1


@pytest.mark.parametrize("version", [0, 3], ids=["a new one", "a loaded one that is gone"])
def test_a_save_of_what_another_made_or_dropped_conflicts(store: SQLStore, version: int) -> None:
    if version == 0:
        saved_from(store, a_part())
    store.accept([a_part()])
    store.lease_targets("me", NOW, TTL)

    with pytest.raises(StoreConflictError):
        store.save(replace(an_incident(), version=version), wake_at=None, owner="me")


def test_incidents_with_an_open_or_opening_issue_are_found_by_label_key(store: SQLStore) -> None:
    opening = Intent(IntentAction.CREATE, "token", NOW)
    changes = {
        "open": {"issue": an_issue()},
        "opening": {"intent": opening},
        "reopening": {
            "issue": an_issue(IssueState.CLOSED),
            "intent": replace(opening, action=IntentAction.REOPEN),
        },
        "closed": {"issue": an_issue(IssueState.CLOSED)},
        "unfiled": {},
    }
    for name, fields in changes.items():
        saved = saved_from(store, a_part(name))
        store.save(replace(saved, **fields), wake_at=None, owner="me")  # type: ignore[arg-type]  # fields by name

    keys = {name: label_key({"alertname": name}) for name in changes}
    found = store.find_filed([*keys.values(), "unknown"])

    assert {each.label_key for each in found} == {keys["open"], keys["opening"], keys["reopening"]}
    assert OpenIncident(a_part("open").incident_id, keys["open"], TARGET) in found


def test_a_closed_store_takes_nothing_and_may_be_closed_again(store: SQLStore) -> None:
    store.close()
    store.close()

    with pytest.raises(TemporaryError, match="closed"):
        store.accept([a_part()])


def test_a_first_save_may_follow_a_route_that_changed_between_two_parts(store: SQLStore) -> None:
    before = a_part(target=Target("old", "acme", "nodes"))
    after = a_part(target=Target("new", "acme", "nodes"))
    store.accept([before])
    store.lease_targets("me", NOW, TTL)
    store.accept([after])
    _, parts = store.load(before.incident_id)
    incident = new_incident(before)
    for _, part in parts:
        incident = fold(incident, part).incident

    saved = store.save(incident, folded=[seq for seq, _ in parts], wake_at=NOW, owner="me")

    assert saved.disposition.target.credential == "new"
    assert store.due("new:acme/nodes", NOW, 10) == (saved.id,)
    assert store.due("old:acme/nodes", NOW, 10) == ()
