"""How many nodes may be out of service, and who gets the room that is left."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.budgets import BudgetUse, allocate, decide, usage
from remediator.cluster import NodeView, Open
from remediator.config import BudgetSettings
from remediator.operation import HeldBy, NodeOperation, Phase, Reason
from tests.remediator.building import MINUTE, START, fleet_of, node_of, pinned

POOL_A, POOL_B = {"pool": "a"}, {"pool": "b"}


def budget(limit: Any = 1, **changes: Any) -> BudgetSettings:
    return BudgetSettings.model_validate({"name": "gpu", "max_unavailable": limit} | changes)


def on(node: str, name: str = "", phase: Phase = Phase.GATED, **changes: Any) -> NodeOperation:
    return pinned(name or f"no-{node}", phase, node=node, **changes)


def waiting(node: str, age: int) -> NodeOperation:
    return replace(on(node, reason=Reason.NO_BUDGET), created_at=START + age * MINUTE)


ROOM: dict[str, tuple[BudgetSettings, list[NodeView], list[NodeOperation], bool]] = {
    "B1 nothing is out": (budget(), [node_of("n2")], [], True),
    "B2 an isolated node counts": (
        budget(),
        [node_of("n2")],
        [on("n2", phase=Phase.DRAINING)],
        False,
    ),
    "B3 a reserved node counts": (
        budget(),
        [node_of("n2")],
        [on("n2", phase=Phase.RESERVED)],
        False,
    ),
    "B4 an escalated node counts": (
        budget(),
        [node_of("n2")],
        [on("n2", phase=Phase.ESCALATED)],
        False,
    ),
    "B5 a taint counts though its operation is not known": (
        budget(),
        [node_of("n2", operation_taint="no-x")],
        [],
        False,
    ),
    "B6 a node that is not Ready counts": (budget(), [node_of("n2", ready="Unknown")], [], False),
    "B7 a cordoned node counts": (budget(), [node_of("n2", unschedulable=True)], [], False),
    "B8 a node with all of it counts once": (
        budget(2),
        [node_of("n2", ready="False", unschedulable=True, operation_taint="no-n2")],
        [on("n2", phase=Phase.DRAINING)],
        True,
    ),
    "B9 a finished operation holds nothing": (
        budget(),
        [node_of("n2")],
        [on("n2", phase=Phase.SUCCEEDED, isolated=False)],
        True,
    ),
    "B10 a node that no longer exists holds nothing": (
        budget(),
        [],
        [on("n2", phase=Phase.DRAINING)],
        True,
    ),
    "B11 nor does one that was replaced under its name": (
        budget(),
        [node_of("n2")],
        [on("n2", phase=Phase.DRAINING, node_uid="uid-of-old")],
        True,
    ),
    "B12 a virtual node never counts": (
        budget(),
        [node_of("n2", ready="False", is_virtual=True)],
        [],
        True,
    ),
    "B13 a node being scaled in never counts": (
        budget(),
        [node_of("n2", unschedulable=True, scaling_in=True)],
        [],
        True,
    ),
    "B14 another pool's nodes do not count": (
        budget(selector='pool="a"'),
        [node_of("n2", ready="False", labels=POOL_B)],
        [],
        True,
    ),
    "B15 a full pool holds only its own": (
        budget(selector='pool="b"'),
        [node_of("n2", ready="False", labels=POOL_B)],
        [],
        True,
    ),
    "B16 each rack has the limit by itself": (
        budget(topology_key="rack"),
        [node_of("n2", ready="False", labels={"rack": "2"})],
        [],
        True,
    ),
    "B17 of one rack, only so many": (
        budget(topology_key="rack"),
        [node_of("n2", ready="False", labels={"rack": "1"})],
        [],
        False,
    ),
    "B18 a percentage of four is two": (
        budget("50%"),
        [node_of("n2", ready="False"), node_of("n3"), node_of("n4")],
        [],
        True,
    ),
    "B19 and not three": (
        budget("50%"),
        [node_of("n2", ready="False"), node_of("n3", ready="False"), node_of("n4")],
        [],
        False,
    ),
    "B20 a percentage never rounds down to nobody": (budget("1%"), [node_of("n2")], [], True),
    "B21 GPUs are counted, not nodes": (
        budget(12, gpus=True),
        [node_of("n2", ready="False", gpus=4)],
        [],
        True,
    ),
    "B22 and the limit is in GPUs": (
        budget(12, gpus=True),
        [node_of("n2", ready="False", gpus=8)],
        [],
        False,
    ),
}


@pytest.mark.parametrize("sentence", ROOM)
def test_there_is_room_or_not(sentence: str) -> None:
    settings_, nodes, operations, room = ROOM[sentence]
    ours = node_of("n1", gpus=8, labels={"pool": "a", "rack": "1"})

    verdict = decide(on("n1"), operations, fleet_of(ours, *nodes), [settings_])

    assert isinstance(verdict, Open) is room


def test_a_node_that_is_down_already_waits_for_operations_only() -> None:
    down = [node_of(f"n{i}", ready="False") for i in (1, 2, 3)]
    fleet = fleet_of(*down)

    alone = decide(on("n1"), [], fleet, [budget()])
    second = decide(on("n1"), [on("n2", phase=Phase.DRAINING)], fleet, [budget()])

    assert alone == Open()
    assert isinstance(second, HeldBy)


def test_the_text_names_the_budget_the_domain_and_who_is_out() -> None:
    rack = {"rack": "r7"}
    fleet = fleet_of(node_of("n1", labels=rack), node_of("n2", labels=rack, ready="False"))

    verdict = decide(on("n1"), [], fleet, [budget(topology_key="rack")])

    assert verdict == HeldBy(
        "budget", "budget gpu in rack=r7 allows 1 nodes out of service, 1 are: n2"
    )


def test_a_budget_that_never_fits_the_node_says_so() -> None:
    verdict = decide(on("n1"), [], fleet_of(node_of("n1", gpus=8)), [budget(4, gpus=True)])

    assert isinstance(verdict, HeldBy)
    assert verdict.text == (
        "budget gpu allows 4 GPUs, and this node alone has 8; raise max_unavailable"
    )


def test_the_oldest_goes_first_whoever_asks() -> None:
    fleet = fleet_of(node_of("n1"), node_of("n2"))
    old, young = waiting("n2", 1), waiting("n1", 2)

    assert isinstance(decide(young, [old], fleet, [budget()]), HeldBy)
    assert decide(old, [young], fleet, [budget()]) == Open()


def test_nobody_waits_behind_one_that_cannot_go_itself() -> None:
    rack = {"rack": "1"}
    nodes = [node_of("n1"), node_of("n2", labels=rack), node_of("n3", labels=rack, ready="False")]
    both = [budget(2), budget(name="rack", selector='rack="1"')]

    assert decide(waiting("n1", 2), [waiting("n2", 1)], fleet_of(*nodes), both) == Open()


def test_use_is_shown_by_budget_and_domain() -> None:
    nodes = [
        node_of("n1", labels={"rack": "1"}, ready="False"),
        node_of("n2", labels={"rack": "2"}),
        node_of("n3", labels={"rack": "2"}),
    ]

    found = usage(fleet_of(*nodes), [on("n2", phase=Phase.DRAINING)], [budget(topology_key="rack")])

    assert found == (BudgetUse("gpu", "1", 1, 1, 1), BudgetUse("gpu", "2", 1, 1, 2))


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[NodeView], list[NodeOperation]]:
    nodes, operations = [], []
    for index in range(draw(st.integers(1, 8))):
        name = f"n{index}"
        racks = {"rack": draw(st.sampled_from("12"))}
        nodes.append(node_of(name, labels=racks, gpus=draw(st.sampled_from([0, 4, 8]))))
        if draw(st.booleans()):
            operations.append(waiting(name, draw(st.integers(0, 3))))
    return nodes, operations


@settings(max_examples=100, deadline=None)
@given(fleets(), st.sampled_from([1, 2, "30%"]), st.booleans(), st.randoms(use_true_random=False))
def test_no_order_of_asking_exceeds_a_budget(
    drawn: tuple[list[NodeView], list[NodeOperation]], limit: Any, racks: bool, chance: Any
) -> None:
    nodes, operations = drawn
    fleet = fleet_of(*nodes)
    limits = [budget(limit, topology_key="rack" if racks else None)]
    shuffled = list(operations)
    chance.shuffle(shuffled)

    once = allocate(operations, operations, fleet, limits)
    for operation in shuffled:
        others = [each for each in operations if each.name != operation.name]
        assert (decide(operation, others, fleet, limits) == Open()) is (
            once[operation.name] == Open()
        )

    granted = [
        replace(each, status=replace(each.status, phase=Phase.RESERVED, isolated=True))
        for each in operations
        if once[each.name] == Open()
    ]
    assert all(use.taken <= use.limit for use in usage(fleet, granted, limits))
