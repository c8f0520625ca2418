"""What counts as unavailable, and where a node counts in a budget. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chassis.alertmanager import all_match
from remediator.cluster import Fleet, NodeView
from remediator.config import BudgetSettings
from remediator.operation import NodeOperation


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node counts in one budget: in which topology domain, and with how many nodes or GPUs."""

    domain: str
    weight: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How a node stands: its place in each budget (None: not selected), and what it counts as.

    `taken`: an operation has reserved or isolated it. `out`: it cannot take work, for that or any
    other reason.
    """

    node: NodeView
    places: tuple[Place | None, ...]
    taken: bool
    out: bool


def place_of(node: NodeView, budget: BudgetSettings) -> Place | None:
    """A node's place in a budget; a node that does not count at all weighs nothing."""
    if not all_match(budget.selector, node.labels):
        return None
    domain = node.labels.get(budget.topology_key, "") if budget.topology_key else ""
    if not node.counts:
        return Place(domain, 0)
    return Place(domain, node.gpus if budget.gpus else 1)


def standing_of(node: NodeView, budgets: Iterable[BudgetSettings], *, held: bool) -> Standing:
    """How a node stands. `held`: an operation has reserved or isolated it."""
    taken = held or node.operation_taint is not None
    out = taken or not node.is_ready or node.unschedulable
    places = tuple(place_of(node, budget) for budget in budgets)
    return Standing(node, places, taken and node.counts, out and node.counts)


def held_nodes(
    nodes: Mapping[str, NodeView], operations: Iterable[NodeOperation]
) -> frozenset[str]:
    """The nodes that an operation has reserved or isolated.

    A reservation of a node that is gone, or was replaced under the same name, is none.
    """
    return frozenset(
        each.spec.node
        for each in operations
        if each.holds_capacity
        and (node := nodes.get(each.spec.node)) is not None
        and each.status.node_uid in {"", node.uid}
    )


def unavailable(fleet: Fleet, operations: Iterable[NodeOperation]) -> frozenset[str]:
    """The nodes that cannot take work: under operation, not Ready, or cordoned by anybody."""
    held = held_nodes(fleet.nodes, operations)
    return frozenset(
        node.name
        for node in fleet.nodes.values()
        if standing_of(node, (), held=node.name in held).out
    )
