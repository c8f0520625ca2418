"""Who gets the room that the budgets leave: the oldest first, and nobody waits behind one that cannot go.

Pure and deterministic: the same operations and nodes give the same answer in any order.
"""

from collections.abc import Iterable, Sequence

from remediator.budgets.counting import Scope, operated, scope_of, unavailable
from remediator.cluster import Fleet, NodeView, Open, Verdict
from remediator.config import BudgetSettings
from remediator.operation import HeldBy, NodeOperation, Phase, Reason

GATE = "budget"
_NAMED = 5


def decide(
    operation: NodeOperation,
    others: Iterable[NodeOperation],
    fleet: Fleet,
    budgets: Sequence[BudgetSettings],
) -> Verdict:
    """Whether this operation may take its node out of service now.

    Older operations that wait for nothing but a budget go before it.
    """
    everyone = [operation, *others]
    waiting = [
        each
        for each in everyone
        if each.name == operation.name
        or (each.status.phase is Phase.GATED and each.status.reason is Reason.NO_BUDGET)
    ]
    return allocate(waiting, everyone, fleet, budgets)[operation.name]


def allocate(
    waiting: Iterable[NodeOperation],
    operations: Iterable[NodeOperation],
    fleet: Fleet,
    budgets: Sequence[BudgetSettings],
) -> dict[str, Verdict]:
    """A verdict for each waiting operation, by name."""
    operations = list(operations)
    taken, out = set(operated(fleet, operations)), set(unavailable(fleet, operations))
    verdicts: dict[str, Verdict] = {}
    for operation in sorted(waiting, key=lambda each: each.age_order):
        node = fleet.nodes.get(operation.spec.node)
        if node is None:
            verdicts[operation.name] = HeldBy(GATE, "the node is not among those read")
            continue
        verdict = _verdict(node, fleet, budgets, frozenset(taken), frozenset(out))
        verdicts[operation.name] = verdict
        if isinstance(verdict, Open):
            taken.add(node.name)
            out.add(node.name)
    return verdicts


def _verdict(
    node: NodeView,
    fleet: Fleet,
    budgets: Sequence[BudgetSettings],
    taken: frozenset[str],
    out: frozenset[str],
) -> Verdict:
    # A node that is out of service already takes nothing from the fleet when it is repaired; then
    # the budget only limits how many are under operation at once, or a limit would wait for itself.
    counted = taken if node.name in out else out
    for budget in budgets:
        scope = scope_of(node, fleet, budget)
        if scope is not None and (text := _refusal(scope, node, counted - {node.name})):
            return HeldBy(GATE, text)
    return Open()


def _refusal(scope: Scope, node: NodeView, counted: frozenset[str]) -> str:
    limit, own = scope.limit(node.name), scope.weight([node.name])
    used = scope.weight(counted)
    place = f" in {scope.budget.topology_key}={scope.domain}" if scope.budget.topology_key else ""
    if own > limit:
        return (
            f"budget {scope.budget.name}{place} allows {limit} {scope.unit}, and this node alone"
            f" has {own}; raise max_unavailable"
        )
    if used + own <= limit:
        return ""
    names = sorted(name for name in counted if name in scope.nodes)
    listed = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return (
        f"budget {scope.budget.name}{place} allows {limit} {scope.unit} out of service,"
        f" {used} are: {listed}"
    )
