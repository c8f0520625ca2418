"""All budgets over all nodes, kept up to date by what has changed instead of counted anew.

Pure: what it answers follows from the fleet and the operations of the last `update` alone, however
it came there. For one thread.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from remediator.budgets.counting import Standing, held_nodes, standing_of
from remediator.cluster import Fleet, NodeView
from remediator.config import BudgetSettings
from remediator.operation import NodeOperation, Phase, Reason


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """How full a budget is in one domain: nodes, or GPUs."""

    budget: str
    domain: str
    taken: int
    limit: int
    total: int


class Tally:
    """One budget's sums by domain: all nodes, those under operation, those out of service."""

    __slots__ = ("members", "out", "taken", "total")

    def __init__(self) -> None:
        self.members: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.taken: Counter[str] = Counter()
        self.out: Counter[str] = Counter()

    def add(self, standing: Standing, index: int, sign: int) -> None:
        """Count a node, or with sign -1 no longer."""
        place = standing.places[index]
        if place is None or not standing.node.counts:
            return
        weight = sign * place.weight
        self.members[place.domain] += sign
        self.total[place.domain] += weight
        if standing.taken:
            self.taken[place.domain] += weight
        if standing.out:
            self.out[place.domain] += weight


class Account:
    """The nodes as the budgets count them, and who waits for room."""

    def __init__(self, budgets: Sequence[BudgetSettings]) -> None:
        self.budgets = tuple(budgets)
        self.tallies = tuple(Tally() for _ in self.budgets)
        self.standings: dict[str, Standing] = {}
        self.taken: set[str] = set()
        self.out: set[str] = set()
        self.counted = 0
        self.waiting: tuple[NodeOperation, ...] = ()
        """The operations that wait for nothing but a budget, oldest first."""
        self.version = 0
        """Grows with each change; what was derived from the account holds as long as it stays."""
        self._nodes: Mapping[str, NodeView] = {}
        self._held: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        fleet: Fleet,
        operations: Iterable[NodeOperation],
        budgets: Sequence[BudgetSettings],
    ) -> Self:
        """An account of this moment."""
        account = cls(budgets)
        account.update(fleet, operations)
        return account

    def update(self, fleet: Fleet, operations: Iterable[NodeOperation]) -> None:
        """Take in a newer moment: all nodes and all operations as they are now.

        A view that is the same object as before counts as unchanged, and so does a mapping of views:
        neither may be changed in place.
        """
        operations = list(operations)
        held = held_nodes(fleet.nodes, operations)
        changed = self._different(fleet.nodes) | (held ^ self._held)
        self._nodes, self._held = fleet.nodes, held
        for name in changed:
            self._put(name, fleet.nodes.get(name))
        waiting = tuple(sorted(filter(_waits, operations), key=lambda each: each.age_order))
        if changed or waiting != self.waiting:
            self.waiting = waiting
            self.version += 1

    def _different(self, nodes: Mapping[str, NodeView]) -> set[str]:
        """The names of nodes that came, went, or are seen anew."""
        if nodes is self._nodes:
            return set()
        before = self._nodes
        changed = {name for name, node in nodes.items() if before.get(name) is not node}
        return changed | (before.keys() - nodes.keys())

    def _put(self, name: str, node: NodeView | None) -> None:
        old = self.standings.pop(name, None)
        if old is not None:
            self._count(old, -1)
        if node is not None:
            new = standing_of(node, self.budgets, held=name in self._held)
            self.standings[name] = new
            self._count(new, 1)

    def _count(self, standing: Standing, sign: int) -> None:
        for index, tally in enumerate(self.tallies):
            tally.add(standing, index, sign)
        name = standing.node.name
        self.counted += sign * standing.node.counts
        for names, holds in ((self.taken, standing.taken), (self.out, standing.out)):
            if sign > 0 and holds:
                names.add(name)
            else:
                names.discard(name)

    def usage(self) -> tuple[BudgetUse, ...]:
        """Every budget and domain with how much of it is taken, in the order of the configuration."""
        return tuple(
            BudgetUse(
                budget.name,
                domain,
                tally.out[domain],
                budget.max_unavailable.limit(tally.total[domain]),
                tally.total[domain],
            )
            for budget, tally in zip(self.budgets, self.tallies, strict=True)
            for domain in sorted(tally.members)
            if tally.members[domain]
        )


def usage(
    fleet: Fleet, operations: Iterable[NodeOperation], budgets: Sequence[BudgetSettings]
) -> tuple[BudgetUse, ...]:
    """How full every budget is at one moment."""
    return Account.of(fleet, operations, budgets).usage()


def _waits(operation: NodeOperation) -> bool:
    status = operation.status
    return status.phase is Phase.GATED and status.reason is Reason.NO_BUDGET
