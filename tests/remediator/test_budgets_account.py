"""The account that is kept up to date says what counting everything anew would say."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.budgets import Account, Allocation
from remediator.cluster import Fleet, NodeView, Open
from remediator.config import BudgetSettings
from remediator.operation import NodeOperation, Phase, Reason
from tests.remediator import plain_budgets as plain
from tests.remediator.building import MINUTE, START, fleet_of, node_of, pinned

NAMES = [f"n{number}" for number in range(7)]
PHASES = [Phase.GATED, Phase.RESERVED, Phase.DRAINING, Phase.ESCALATED, Phase.SUCCEEDED]
MOMENTS = 6


def budget_of(name: str, limit: Any, **changes: Any) -> BudgetSettings:
    return BudgetSettings.model_validate({"name": name, "max_unavailable": limit} | changes)


BUDGETS = st.lists(
    st.builds(
        budget_of,
        st.uuids().map(lambda each: f"b{each.hex[:8]}"),
        st.sampled_from([1, 2, 9, "30%", "60%"]),
        selector=st.sampled_from(["{}", 'pool="a"', 'pool!="b"']),
        topology_key=st.sampled_from([None, "rack"]),
        gpus=st.booleans(),
    ),
    max_size=3,
)


@st.composite
def some_nodes(draw: st.DrawFn) -> NodeView:
    name = draw(st.sampled_from(NAMES))
    return node_of(
        name,
        uid=draw(st.sampled_from([f"uid-{name}", f"uid-{name}", "uid-another"])),
        ready=draw(st.sampled_from(["True", "True", "False", "Unknown"])),
        unschedulable=draw(st.sampled_from([False, False, True])),
        operation_taint=draw(st.sampled_from([None, None, "no-x"])),
        is_virtual=draw(st.sampled_from([False, False, False, True])),
        scaling_in=draw(st.sampled_from([False, False, False, True])),
        gpus=draw(st.sampled_from([0, 4, 8])),
        labels=draw(
            st.sampled_from(
                [{}, {"pool": "a", "rack": "1"}, {"pool": "a", "rack": "2"}, {"pool": "b"}]
            )
        ),
    )


@st.composite
def some_operations(draw: st.DrawFn) -> NodeOperation:
    number = draw(st.integers(0, 9))
    phase = draw(st.sampled_from(PHASES))
    reasons = [Reason.NO_BUDGET, Reason.NO_BUDGET, Reason.HELD]
    one = pinned(f"no-{number}", phase, node=draw(st.sampled_from([*NAMES, "gone"])))
    status = replace(
        one.status,
        reason=draw(st.sampled_from(reasons)),
        node_uid=draw(st.sampled_from([one.status.node_uid, one.status.node_uid, ""])),
        isolated=one.status.isolated and phase is not Phase.SUCCEEDED,
    )
    return replace(one, status=status, created_at=START + draw(st.integers(0, 3)) * MINUTE)


CHANGES = st.lists(
    st.tuples(
        st.lists(some_nodes(), max_size=4),
        st.sets(st.sampled_from(NAMES), max_size=2),
        st.lists(some_operations(), max_size=4),
        st.sets(st.integers(0, 9), max_size=2),
    ),
    min_size=1,
    max_size=MOMENTS,
)


def assert_same(
    account: Account,
    allocation: Allocation,
    fleet: Fleet,
    operations: list[NodeOperation],
    budgets: list[BudgetSettings],
) -> None:
    assert account.taken == plain.operated(fleet, operations)
    assert account.out == plain.unavailable(fleet, operations)
    assert account.counted == sum(node.counts for node in fleet.nodes.values())
    assert list(account.usage()) == plain.usage(fleet, operations, budgets)
    for operation in operations:
        others = [each for each in operations if each.name != operation.name]
        fits = plain.decide(operation, others, fleet, budgets)
        assert (allocation.decide(operation) == Open()) is fits, operation


@settings(max_examples=250, deadline=None)
@given(CHANGES, BUDGETS)
def test_whatever_happened_before_it_says_what_a_fresh_count_says(
    changes: list[Any], budgets: list[BudgetSettings]
) -> None:
    account = Account(budgets)
    allocation = Allocation(account)
    nodes: dict[str, NodeView] = {}
    stored: dict[str, NodeOperation] = {}
    for came, gone, moved, removed in changes:
        kept = {name: node for name, node in nodes.items() if name not in gone}
        nodes = kept | {node.name: node for node in came}
        stored = {name: each for name, each in stored.items() if int(name[3:]) not in removed}
        stored |= {each.name: each for each in moved}
        fleet, operations = fleet_of(*nodes.values()), list(stored.values())
        account.update(fleet, operations)
        assert_same(account, allocation, fleet, operations, budgets)
        # One that does not wait yet is told the same wherever its age puts it.
        for operation in operations:
            fresh = replace(operation, name="no-fresh")
            fits = plain.decide(fresh, operations, fleet, budgets)
            assert (allocation.decide(fresh) == Open()) is fits


def test_nothing_is_counted_anew_while_nothing_changes() -> None:
    fleet = fleet_of(*(node_of(name) for name in NAMES))
    account = Account.of(fleet, [], [budget_of("gpu", 1)])
    before = account.version

    account.update(replace(fleet), [])
    assert account.version == before

    account.update(fleet_of(*fleet.nodes.values()), [])
    assert account.version == before

    account.update(fleet_of(*fleet.nodes.values(), node_of("n9")), [])
    assert account.version > before
