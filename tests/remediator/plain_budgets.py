"""Budgets counted the plain way, over all nodes each time: what the account is held against."""

from collections.abc import Iterable, Sequence

from chassis.alertmanager import all_match
from remediator.budgets import BudgetUse
from remediator.cluster import Fleet, NodeView
from remediator.config import BudgetSettings
from remediator.operation import NodeOperation, Phase, Reason


def operated(fleet: Fleet, operations: Iterable[NodeOperation]) -> set[str]:
    held = {
        each.spec.node
        for each in operations
        if each.holds_capacity
        and each.spec.node in fleet.nodes
        and each.status.node_uid in {"", fleet.nodes[each.spec.node].uid}
    }
    tainted = {node.name for node in fleet.nodes.values() if node.operation_taint is not None}
    return {name for name in held | tainted if fleet.nodes[name].counts}


def unavailable(fleet: Fleet, operations: Iterable[NodeOperation]) -> set[str]:
    out = {
        node.name
        for node in fleet.nodes.values()
        if node.counts and (not node.is_ready or node.unschedulable)
    }
    return operated(fleet, operations) | out


def _domain(node: NodeView, budget: BudgetSettings) -> str:
    return node.labels.get(budget.topology_key, "") if budget.topology_key else ""


def scope(node: NodeView, fleet: Fleet, budget: BudgetSettings) -> dict[str, NodeView] | None:
    """The nodes among which a budget counts for a node; None if it does not select the node."""
    if not all_match(budget.selector, node.labels):
        return None
    return {
        each.name: each
        for each in fleet.nodes.values()
        if each.counts
        and all_match(budget.selector, each.labels)
        and _domain(each, budget) == _domain(node, budget)
    }


def weight(inside: dict[str, NodeView], names: Iterable[str], budget: BudgetSettings) -> int:
    found = [inside[name] for name in names if name in inside]
    return sum(each.gpus for each in found) if budget.gpus else len(found)


def fits(
    node: NodeView, fleet: Fleet, budget: BudgetSettings, taken: set[str], out: set[str]
) -> bool:
    """Whether there is room, a node that is out already only waiting for operations."""
    inside = scope(node, fleet, budget)
    if inside is None:
        return True
    own = weight(inside, [node.name], budget)
    limit = budget.max_unavailable.limit(weight(inside, inside, budget))
    if budget.max_unavailable.percent:
        limit = max(limit, own)
    counted = (taken if node.name in out else out) - {node.name}
    return own <= limit and weight(inside, counted, budget) + own <= limit


def decide(
    operation: NodeOperation,
    others: Sequence[NodeOperation],
    fleet: Fleet,
    budgets: Sequence[BudgetSettings],
) -> bool:
    """Serve the older ones that wait, then this one."""
    everyone = [operation, *others]
    taken, out = operated(fleet, everyone), unavailable(fleet, everyone)
    waiting = [
        each
        for each in everyone
        if each.name == operation.name
        or (each.status.phase is Phase.GATED and each.status.reason is Reason.NO_BUDGET)
    ]
    for each in sorted(waiting, key=lambda one: one.age_order):
        node = fleet.nodes.get(each.spec.node)
        fit = node is not None and all(fits(node, fleet, one, taken, out) for one in budgets)
        if each.name == operation.name:
            return fit
        if fit:
            taken.add(each.spec.node)
            out.add(each.spec.node)
    raise AssertionError("it is among those that wait")


def usage(
    fleet: Fleet, operations: Sequence[NodeOperation], budgets: Sequence[BudgetSettings]
) -> list[BudgetUse]:
    out, found = unavailable(fleet, operations), []
    for budget in budgets:
        domains = {}
        for node in fleet.nodes.values():
            inside = scope(node, fleet, budget)
            if node.counts and inside is not None:
                domains[_domain(node, budget)] = inside
        for domain, inside in sorted(domains.items()):
            total = weight(inside, inside, budget)
            limit = budget.max_unavailable.limit(total)
            found.append(BudgetUse(budget.name, domain, weight(inside, out, budget), limit, total))
    return found
