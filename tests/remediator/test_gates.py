"""What holds an operation back before its node is isolated, and what stops one that has begun."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from remediator.cluster import BreakerState, NodeView, Pause, QueryResult, QueryView, Sight
from remediator.gates import (
    GATES,
    GateCase,
    before_harm,
    before_isolation,
    too_many_operations,
)
from remediator.operation import APPROVED_BY, PAUSED, Attempt, CauseKind, NodeOperation, Phase
from tests.remediator.building import (
    FINGERPRINT,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    START,
    alert_of,
    cause_of,
    config_of,
    faulty,
    fleet_of,
    node_of,
    pinned,
    playbook_of,
    seen,
)

NIGHT = {"night": {"start": "22:00", "end": "06:00"}}
PEERS = {
    "alertmanagers": [{"url": "http://a.example:9093"}],
    "prometheus": {"url": "http://p.example:9090"},
}
GUARD = {"guards": [{"name": "quiet", "expr": "up == 1"}], "cooldown": "0s"}


def case(
    *others: NodeOperation,
    node: NodeView | None = None,
    nodes: tuple[NodeView, ...] = (),
    gates: dict[str, Any] | None = None,
    operation: NodeOperation | None = None,
    fleet: dict[str, Any] | None = None,
    look: dict[str, Any] | None = None,
    playbook: dict[str, Any] | None = None,
    **config: Any,
) -> GateCase:
    node = node or faulty()
    book = playbook_of(gates={"cooldown": "0s"} | (gates or {}), **(playbook or {}))
    whole = config_of(book, **(PEERS | config))
    return GateCase(
        operation or pinned(),
        whole.playbooks[0],
        node,
        seen(node, **(look or {})),
        whole,
        fleet_of(node, *nodes, **(fleet or {})),
        others,
        NOW,
    )


def alerted(**changes: Any) -> NodeOperation:
    return pinned(causes=(cause_of(CauseKind.ALERT),), **changes)


def ended(ago: timedelta, name: str = "no-0", **changes: Any) -> NodeOperation:
    return pinned(
        name,
        Phase.SUCCEEDED,
        isolated=False,
        isolated_at=NOW - ago - MINUTE,
        ended_at=NOW - ago,
        attempts=(Attempt(0, 1, NOW - ago),),
        **changes,
    )


def answer(result: QueryResult, ago: timedelta = SECOND) -> dict[str, QueryView]:
    return {"quiet": QueryView("quiet", result, NOW - ago)}


def sight(sight: Sight = Sight.FIRING, **changes: Any) -> dict[str, Any]:
    return {"alerts": {FINGERPRINT: alert_of(sight, **changes)}}


HOLDS: dict[str, tuple[GateCase, str | None]] = {
    "G1 nothing holds": (case(), None),
    "G2 nodes read too long ago": (case(fleet={"as_of": NOW - HOUR}), "staleness"),
    "G3 pause and breaker unknown": (case(fleet={"state_known": False}), "staleness"),
    "G4 the fleet is paused": (case(fleet={"pause": Pause("ada")}), "pause"),
    "G5 the node is paused": (case(node=faulty(annotations={PAUSED: "ada"})), "pause"),
    "G6 the breaker is open": (case(fleet={"breaker": BreakerState(open=True)}), "breaker"),
    "G7 an older operation is active on the node": (
        case(replace(pinned("no-0"), created_at=START - MINUTE)),
        "busy_node",
    ),
    "G8 a younger one waits for us": (
        case(replace(pinned("no-2"), created_at=START + MINUTE)),
        None,
    ),
    "G9 unless it has the node already": (
        case(replace(pinned("no-2", Phase.ISOLATED), created_at=START + MINUTE)),
        "busy_node",
    ),
    "G10 an ended one does not count": (case(ended(HOUR)), None),
    "G11 an active operation owns the taint": (
        case(pinned("no-7", Phase.ISOLATED, node="n9"), node=faulty(operation_taint="no-7")),
        "busy_node",
    ),
    "G12 a taint without an active owner is taken over": (
        case(node=faulty(operation_taint="no-7")),
        None,
    ),
    "G13 another control plane node is down": (
        case(
            node=faulty(control_plane=True),
            nodes=(node_of("n2", control_plane=True, ready="False"),),
        ),
        "control_plane",
    ),
    "G14 a worker that is down is no matter to it": (
        case(node=faulty(control_plane=True), nodes=(node_of("n2", ready="False"),)),
        None,
    ),
    "G15 the last operation has only just ended": (
        case(ended(MINUTE), gates={"cooldown": "10m"}),
        "cooldown",
    ),
    "G16 the cooldown is over": (case(ended(HOUR), gates={"cooldown": "10m"}), None),
    "G17 a dry run starts no cooldown": (
        case(
            pinned("no-0", Phase.CANCELLED, isolated=False, isolated_at=None, ended_at=NOW),
            gates={"cooldown": "10m"},
        ),
        None,
    ),
    "G18 outside the window": (case(gates={"windows": ["night"]}, windows=NIGHT), "window"),
    "G19 nobody has approved": (case(gates={"approval": True}), "approval"),
    "G20 somebody has": (
        case(
            gates={"approval": True},
            operation=replace(pinned(), annotations={APPROVED_BY: "ada"}),
        ),
        None,
    ),
    "G21 the alert is silenced": (case(operation=alerted(), look=sight(silenced=True)), "silence"),
    "G22 no Alertmanager knows": (case(operation=alerted(), look=sight(Sight.UNKNOWN)), "silence"),
    "G23 the alert was never read": (case(operation=alerted()), "silence"),
    "G24 it was read too long ago": (
        case(operation=alerted(), look=sight(as_of=NOW - HOUR)),
        "silence",
    ),
    "G25 it fires and nobody minds": (case(operation=alerted(), look=sight()), None),
    "G26 silences do not count": (case(operation=alerted(), gates={"silences": False}), None),
    "G27 the guard passes": (case(gates=GUARD, look={"queries": answer(QueryResult.PASSED)}), None),
    "G28 the guard fails": (
        case(gates=GUARD, look={"queries": answer(QueryResult.FAILED)}),
        "guard",
    ),
    "G29 no data is no pass": (
        case(gates=GUARD, look={"queries": answer(QueryResult.NO_DATA)}),
        "guard",
    ),
    "G30 an error is no pass": (
        case(gates=GUARD, look={"queries": answer(QueryResult.ERROR)}),
        "guard",
    ),
    "G31 an old answer is none": (
        case(gates=GUARD, look={"queries": answer(QueryResult.PASSED, HOUR)}),
        "guard",
    ),
    "G32 no answer is none": (case(gates=GUARD), "guard"),
    "G33 no room in a budget": (
        case(
            nodes=(node_of("n2", ready="False"),),
            budgets=[{"name": "all", "max_unavailable": 1}],
        ),
        "budget",
    ),
    "G34 too many isolations lately": (
        case(ended(MINUTE, node="n2"), rate_limit={"isolations": 1, "per": "1h"}),
        "rate_limit",
    ),
    "G35 long ago they do not count": (
        case(ended(2 * HOUR, node="n2"), rate_limit={"isolations": 1, "per": "1h"}),
        None,
    ),
}


HOLDS |= {
    "G36 the node is isolated by what cannot be read": (
        case(
            node=faulty(operation_taint="no-broken"),
            fleet={"unreadable": {"no-broken": "status.phase is wrong"}},
        ),
        "busy_node",
    ),
    "G37 one by an operation that is stored no more": (
        case(node=faulty(operation_taint="no-gone")),
        None,
    ),
    "G38 an alert whose silences one Alertmanager does not tell": (
        case(
            operation=pinned(causes=(cause_of(CauseKind.ALERT),)),
            look={"alerts": {FINGERPRINT: alert_of(silences_known=False)}},
        ),
        "silence",
    ),
}


@pytest.mark.parametrize("sentence", HOLDS)
def test_a_gate_holds_or_is_open(sentence: str) -> None:
    held = before_isolation(HOLDS[sentence][0])

    gate = HOLDS[sentence][1]
    assert [each.gate for each in held] == ([] if gate is None else [gate])
    assert all(each.text for each in held)


def test_every_gate_is_in_the_table() -> None:
    shown = {gate for _, gate in HOLDS.values() if gate is not None}

    assert shown | {"dry_run", "scaling_in"} == set(GATES)  # those only stop what has begun


def test_all_gates_that_hold_are_told_at_once() -> None:
    both = case(gates={"approval": True}, fleet={"pause": Pause("ada", "upgrade")})

    assert [each.text for each in before_isolation(both)] == [
        "paused by ada: upgrade",
        "waits for `remediator approve no-1`",
    ]


def test_long_words_of_people_and_peers_fit_into_the_object() -> None:
    (held,) = before_isolation(case(fleet={"pause": Pause("ada", "x" * 5000)}))

    assert len(held.text) == 1000


def test_what_waits_for_something_else_takes_no_place_in_a_queue() -> None:
    both = case(
        gates={"approval": True},
        nodes=(node_of("n2", ready="False"),),
        budgets=[{"name": "all", "max_unavailable": 1}],
    )

    assert [each.gate for each in before_isolation(both)] == ["approval"]


def test_a_gate_that_opens_by_itself_says_when() -> None:
    cooling = before_isolation(case(ended(MINUTE), gates={"cooldown": "10m"}))
    limited = before_isolation(
        case(ended(MINUTE, node="n2"), rate_limit={"isolations": 1, "per": "1h"})
    )
    night = before_isolation(case(gates={"windows": ["night"]}, windows=NIGHT))

    assert cooling[0].until == NOW + 9 * MINUTE
    assert limited[0].until == NOW - 2 * MINUTE + HOUR
    assert night[0].until == NOW + 10 * HOUR


@pytest.mark.parametrize(
    ("stop", "gate"),
    [
        ({"fleet": {"pause": Pause("ada")}}, "pause"),
        ({"fleet": {"breaker": BreakerState(open=True)}}, "breaker"),
        ({"fleet": {"state_known": False}}, "staleness"),
        ({"dry_run": True}, "dry_run"),
        ({"playbook": {"dry_run": True}}, "dry_run"),
        ({"node": faulty(scaling_in=True)}, "scaling_in"),
        ({"gates": {"approval": True}}, None),
    ],
)
def test_work_that_has_begun_is_stopped_by_these_only(
    stop: dict[str, Any], gate: str | None
) -> None:
    held = [each.gate for each in before_harm(case(**stop))]

    assert held == ([] if gate is None else [gate])


def test_repairs_of_this_very_node_lately_are_counted() -> None:
    others = [ended(HOUR, f"no-{i}") for i in range(10, 13)]
    old = [replace(others[0], name="no-20"), ended(timedelta(days=8), "no-21")]
    elsewhere = ended(HOUR, "no-22", node="n2")
    former = replace(others[0], name="no-23", status=replace(others[0].status, node_uid="uid-old"))

    assert len(too_many_operations(case(*others))) == 3
    assert too_many_operations(case(*others[:2], old[1], elsewhere, former)) == []
