"""From alerts and Node Conditions to a playbook and a node, and what is a new episode."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chassis.alertmanager import Alert, AlertStatus
from remediator.cluster import STATUS_LABEL, ConditionView
from remediator.config import Config
from remediator.operation import Cause, CauseKind, NodeOperation, Phase
from remediator.triggers import (
    Episode,
    Ignore,
    Join,
    Later,
    Match,
    NewEpisode,
    NoMatch,
    NoMatchReason,
    episode,
    from_alert,
    from_conditions,
    not_selected,
    taken_by,
)
from tests.remediator.building import (
    FINGERPRINT,
    HOUR,
    MINUTE,
    NOW,
    REBOOT,
    REMOUNT,
    START,
    cause_of,
    condition_of,
    config_of,
    faulty,
    node_of,
    pinned,
    playbook_of,
)

PEERS = {"alertmanagers": [{"url": "http://a.example:9093"}]}


def alert(status: AlertStatus = AlertStatus.FIRING, /, **labels: str) -> Alert:
    whole = {"alertname": "GPUDown", "node": "n1"} | labels
    return Alert(status, whole, {"summary": "GPU 3 is lost"}, START, None, "", FINGERPRINT)


def books(**changes: Any) -> Config:
    first = playbook_of(match=['alertname="NFSStuck"'], name="nfs", ladder=[REMOUNT, REBOOT])
    second = playbook_of(match=['alertname="GPUDown",team="x"', 'alertname="GPUDown"'], **changes)
    return config_of(first, second, **PEERS)


def test_an_alert_goes_to_the_first_playbook_that_matches() -> None:
    found = from_alert(alert(), books())

    assert found == Match(
        "gpu", "n1", Cause(CauseKind.ALERT, "GPUDown", START, FINGERPRINT, "GPU 3 is lost")
    )


def test_only_labels_that_a_repair_reads_are_kept() -> None:
    found = from_alert(alert(alertname="NFSStuck", mountpoint="/data", pod="secret"), books())

    assert isinstance(found, Match)
    assert found.cause.labels == {"mountpoint": "/data"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (alert(AlertStatus.RESOLVED), NoMatchReason.RESOLVED),
        (alert(alertname="Other"), NoMatchReason.NO_PLAYBOOK),
        (alert(node=""), NoMatchReason.NO_NODE_LABEL),
    ],
)
def test_an_alert_that_leads_to_nothing_has_a_reason(given: Alert, reason: NoMatchReason) -> None:
    found = from_alert(given, books())

    assert isinstance(found, NoMatch)
    assert found.reason is reason


@pytest.mark.parametrize(
    ("template", "labels", "node"),
    [
        ("{{ labels.instance.split(':')[0] }}", {"instance": "n7:9100"}, "n7"),
        ("{{ labels.instance }}", {}, None),
        ("{{ labels.instance.split(':')[5] }}", {"instance": "n7"}, None),
        ("{{ 1 // (labels.node | length - labels.node | length) }}", {}, None),
        ("{{ labels.__class__.__mro__ }}", {}, None),
        ("gpu-{{ labels.rank }}.example", {"rank": "3"}, "gpu-3.example"),
    ],
)
def test_a_template_names_the_node_or_nothing(
    template: str, labels: dict[str, str], node: str | None
) -> None:
    found = from_alert(alert(AlertStatus.FIRING, **labels), books(node={"template": template}))

    assert (found.node if isinstance(found, Match) else None) == node


BOTH = {"all": [{"type": "GPUIsLost", "for": "1m"}, {"type": "Ready", "status": "False"}]}
EITHER = {"any": BOTH["all"]}


def conditions(lost: timedelta | None, down: timedelta | None) -> dict[str, ConditionView]:
    found = {}
    if lost is not None:
        found["GPUIsLost"] = condition_of(since=NOW - lost)
    if down is not None:
        found["Ready"] = ConditionView("Ready", "False", NOW - down, NOW)
    return found


@pytest.mark.parametrize(
    ("wanted", "lost", "down", "matched", "later"),
    [
        (BOTH, HOUR, HOUR, {"GPUIsLost", "Ready"}, None),
        (BOTH, HOUR, None, set(), None),
        (BOTH, HOUR, MINUTE / 2, set(), NOW + MINUTE / 2),
        (EITHER, HOUR, None, {"GPUIsLost"}, None),
        (EITHER, MINUTE / 2, None, set(), NOW + MINUTE / 2),
        (EITHER, HOUR, HOUR, {"GPUIsLost", "Ready"}, None),
        (EITHER, None, None, set(), None),
    ],
)
def test_conditions_count_together_or_alone_and_only_after_their_time(
    wanted: dict[str, Any],
    lost: timedelta | None,
    down: timedelta | None,
    matched: set[str],
    later: Any,
) -> None:
    node = node_of(conditions=conditions(lost, down))

    found = from_conditions(node, config_of(playbook_of(conditions=wanted)), NOW)

    assert {each.cause.name for each in found if isinstance(each, Match)} == matched
    assert [each.until for each in found if isinstance(each, Later)] == ([later] if later else [])


def test_a_condition_says_which_status_was_the_fault() -> None:
    config = config_of(playbook_of(conditions=EITHER))
    (found,) = from_conditions(node_of(conditions=conditions(None, HOUR)), config, NOW)

    assert isinstance(found, Match)
    assert found.cause.labels == {STATUS_LABEL: "False"}


def test_nothing_happens_to_a_healthy_cluster_or_to_nodes_that_never_count() -> None:
    config = config_of()

    assert (
        from_conditions(node_of(conditions={"GPUIsLost": condition_of("False")}), config, NOW) == ()
    )
    assert from_conditions(faulty(is_virtual=True), config, NOW) == ()
    assert from_conditions(faulty(scaling_in=True), config, NOW) == ()


AFTER = NOW + MINUTE
OTHER = cause_of(CauseKind.ALERT)
LATER = cause_of(since=AFTER)


def ended(phase: Phase = Phase.SUCCEEDED, **changes: Any) -> NodeOperation:
    return pinned(phase=phase, isolated=False, ended_at=NOW, **changes)


EPISODES: dict[str, tuple[Cause, list[NodeOperation], Episode]] = {
    "E1 the first fault of a node": (cause_of(), [], NewEpisode(1)),
    "E2 another fault joins the active operation": (OTHER, [pinned()], Join("no-1")),
    "E3 the same one is known": (
        cause_of(since=AFTER),
        [pinned()],
        Ignore("no-1", "the operation knows this cause"),
    ),
    "E4 an escalated operation takes it, too": (
        OTHER,
        [pinned(phase=Phase.ESCALATED)],
        Join("no-1"),
    ),
    "E5 a fault that fired all along is no new episode": (
        cause_of(),
        [ended(Phase.CANCELLED)],
        Ignore("no-1", "the fault has not been seen clear since this operation ended"),
    ),
    "E6 nor one that fires anew without having been seen clear": (
        LATER,
        [ended(Phase.CANCELLED)],
        Ignore("no-1", "the fault has not been seen clear since this operation ended"),
    ),
    "E7 seen clear and then firing is": (LATER, [ended(clear_since=NOW)], NewEpisode(2)),
    "E8 a firing from before the clear is a late echo": (
        cause_of(),
        [ended(clear_since=NOW)],
        Ignore("no-1", "the fault has not been seen clear since this operation ended"),
    ),
    "E9 a person may always ask": (
        cause_of(CauseKind.PERSON),
        [ended(Phase.CANCELLED)],
        NewEpisode(2),
    ),
    "E10 an earlier node of this name is another node": (
        cause_of(),
        [ended(Phase.NODE_GONE, node_uid="uid-old")],
        NewEpisode(1),
    ),
    "E11 the highest number counts": (
        LATER,
        [
            replace(ended(clear_since=NOW, episode=9), name="no-9"),
            ended(clear_since=NOW, episode=2),
        ],
        NewEpisode(10),
    ),
}


@pytest.mark.parametrize("sentence", EPISODES)
def test_a_fault_is_a_new_episode_or_not(sentence: str) -> None:
    cause, operations, expected = EPISODES[sentence]

    assert episode("uid-n1", cause, operations) == expected


def test_an_operation_takes_so_many_causes_and_no_more() -> None:
    many = tuple(cause_of(CauseKind.ALERT, fingerprint=f"{i:016x}") for i in range(32))

    assert isinstance(episode("uid-n1", cause_of(), [pinned(causes=many)]), Ignore)


def test_alerts_seconds_apart_make_one_operation() -> None:
    first, second = cause_of(CauseKind.ALERT), cause_of(CauseKind.ALERT, fingerprint="b" * 16)

    assert episode("uid-n1", first, []) == NewEpisode(1)
    assert episode("uid-n1", second, [pinned(causes=(first,), phase=Phase.RECEIVED)]) == Join(
        "no-1"
    )


POOLS = {name: node_of(name, labels={"pool": pool}) for name, pool in (("n1", "a"), ("n2", "b"))}


def pools(*nodes: str) -> Config:
    """A playbook for each of these matchers, all of them for the same alert and condition."""
    books = [
        playbook_of(
            name=f"p{number}", match=['alertname="GPUDown"'], nodes=list(filter(None, [each]))
        )
        for number, each in enumerate(nodes)
    ]
    return config_of(*books, **PEERS)


TAKERS: dict[str, tuple[tuple[str, ...], str, str | NoMatchReason]] = {
    "P1 the first playbook whose nodes fit": (('pool="a"', 'pool="b"', ""), "n2", "p1"),
    "P2 one for every node takes what the others leave": (('pool="c"', ""), "n1", "p1"),
    "P3 before it, those above": (('pool=~"a|c"', ""), "n1", "p0"),
    "P4 none fits": (('pool="c"', 'pool!~"a|b"'), "n1", NoMatchReason.NODE_NOT_SELECTED),
    "P5 a name that no node has is intake's to refuse": (('pool="c"',), "n9", "p0"),
}


@pytest.mark.parametrize("sentence", TAKERS)
def test_a_playbook_takes_only_faults_of_its_nodes(sentence: str) -> None:
    nodes, name, expected = TAKERS[sentence]
    found = taken_by(alert(AlertStatus.FIRING, node=name), pools(*nodes), POOLS.get)

    assert (found.playbook if isinstance(found, Match) else found.reason) == expected


def test_a_node_that_is_not_selected_is_told_with_the_matchers() -> None:
    found = not_selected("p0", POOLS["n1"], pools('pool="c"'))

    assert found is not None
    assert found.text == 'playbook p0 is for other nodes: n1 does not fit pool="c"'


@pytest.mark.parametrize(("name", "playbook"), [("n1", "p0"), ("n2", "p1")])
def test_conditions_go_to_the_playbook_of_their_nodes(name: str, playbook: str) -> None:
    node = replace(POOLS[name], conditions={"GPUIsLost": condition_of()})
    (found,) = from_conditions(node, pools('pool="a"', 'pool="b"'), NOW)

    assert found.playbook == playbook


def test_a_hand_made_number_does_not_hide_when_the_node_was_last_seen_clear() -> None:
    numbered = replace(ended(clear_since=NOW - HOUR, episode=5), name="no-5")
    by_hand = replace(ended(episode=1), name="no-by-hand")
    numbered = replace(numbered, status=replace(numbered.status, ended_at=NOW - HOUR))

    assert isinstance(episode("uid-n1", LATER, [numbered, by_hand]), Ignore)
    seen_clear = replace(by_hand, status=replace(by_hand.status, clear_since=NOW))
    assert episode("uid-n1", LATER, [numbered, seen_clear]) == NewEpisode(6)
