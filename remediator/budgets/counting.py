"""What counts as unavailable, and how full each budget is. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chassis.alertmanager import all_match
from remediator.cluster import Fleet, NodeView
from remediator.config import BudgetSettings
from remediator.operation import NodeOperation


def operated(fleet: Fleet, operations: Iterable[NodeOperation]) -> frozenset[str]:
    """The nodes that an operation has reserved or isolated, or that carry an operation's taint.

    A reservation of a node that is gone, or was replaced under the same name, is none.
    """
    held = {
        each.spec.node
        for each in operations
        if each.holds_capacity
        and (node := fleet.nodes.get(each.spec.node)) is not None
        and each.status.node_uid in {"", node.uid}
    }
    tainted = {node.name for node in fleet.nodes.values() if node.operation_taint is not None}
    return frozenset(name for name in held | tainted if fleet.nodes[name].counts)


def unavailable(fleet: Fleet, operations: Iterable[NodeOperation]) -> frozenset[str]:
    """The nodes that cannot take work: under operation, not Ready, or cordoned by anybody."""
    out = {
        node.name
        for node in fleet.nodes.values()
        if node.counts and (not node.is_ready or node.unschedulable)
    }
    return operated(fleet, operations) | out


@dataclass(frozen=True, slots=True)
class Scope:
    """The nodes among which one budget counts for one node: its selector and its topology domain."""

    budget: BudgetSettings
    domain: str
    nodes: Mapping[str, NodeView]

    def weight(self, names: Iterable[str]) -> int:
        """How much of the budget these nodes take: each one, or its GPUs."""
        inside = [self.nodes[name] for name in names if name in self.nodes]
        return sum(node.gpus for node in inside) if self.budget.gpus else len(inside)

    def limit(self, node: str) -> int:
        """How much may be unavailable. A percentage always lets one node, this one, go."""
        limit = self.budget.max_unavailable.limit(self.weight(self.nodes))
        return max(limit, self.weight([node])) if self.budget.max_unavailable.percent else limit

    @property
    def unit(self) -> str:
        """What is counted."""
        return "GPUs" if self.budget.gpus else "nodes"


def scope_of(node: NodeView, fleet: Fleet, budget: BudgetSettings) -> Scope | None:
    """The scope of a budget around a node, None if the budget does not select the node."""
    if not all_match(budget.selector, node.labels):
        return None
    domain = _domain(node, budget)
    inside = {
        each.name: each
        for each in fleet.nodes.values()
        if each.counts
        and all_match(budget.selector, each.labels)
        and _domain(each, budget) == domain
    }
    return Scope(budget, domain, inside)


def _domain(node: NodeView, budget: BudgetSettings) -> str:
    return node.labels.get(budget.topology_key, "") if budget.topology_key else ""


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """How full a budget is in one domain: nodes, or GPUs."""

    budget: str
    domain: str
    taken: int
    limit: int
    total: int


def usage(
    fleet: Fleet, operations: Iterable[NodeOperation], budgets: Iterable[BudgetSettings]
) -> tuple[BudgetUse, ...]:
    """Every budget and domain with how much of it is taken, in the order of the configuration."""
    out = unavailable(fleet, operations)
    found: list[BudgetUse] = []
    for budget in budgets:
        domains: dict[str, Scope] = {}
        for node in fleet.nodes.values():
            if not node.counts or _domain(node, budget) in domains:
                continue
            scope = scope_of(node, fleet, budget)
            if scope is not None:
                domains[scope.domain] = scope
        for domain, scope in sorted(domains.items()):
            total = scope.weight(scope.nodes)
            limit = budget.max_unavailable.limit(total)
            found.append(BudgetUse(budget.name, domain, scope.weight(out), limit, total))
    return tuple(found)
