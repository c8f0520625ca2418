"""Who gets the room that the budgets leave: the oldest first, and nobody waits behind one that cannot go.

Pure and deterministic: the same operations and nodes give the same answer in any order.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from remediator.budgets.account import Account
from remediator.budgets.counting import Place, Standing
from remediator.cluster import Fleet, Open, Verdict
from remediator.config import BudgetSettings
from remediator.operation import HeldBy, NodeOperation

GATE = "budget"
_NAMED = 5


@dataclass(slots=True)
class Round:
    """Room given to one operation after the other, on top of what an account says is taken."""

    account: Account
    given: set[str] = field(default_factory=set)
    taken: Counter[tuple[int, str]] = field(default_factory=Counter)
    out: Counter[tuple[int, str]] = field(default_factory=Counter)

    def ask(self, operation: NodeOperation) -> Verdict:
        """Whether there is room for this operation's node."""
        standing = self.account.standings.get(operation.spec.node)
        if standing is None:
            return HeldBy(GATE, "the node is not among those read")
        for index in range(len(self.account.budgets)):
            if text := self._refusal(index, standing):
                return HeldBy(GATE, text)
        return Open()

    def give(self, node: str) -> None:
        """Count a node as taken from now on."""
        standing = self.account.standings[node]
        if node in self.given:
            return
        self.given.add(node)
        for index, place in enumerate(standing.places):
            if place is None:
                continue
            key = (index, place.domain)
            self.taken[key] += 0 if standing.taken else place.weight
            self.out[key] += 0 if standing.out else place.weight

    def _refusal(self, index: int, standing: Standing) -> str:
        budget, place = self.account.budgets[index], standing.places[index]
        if place is None:
            return ""
        total = self.account.tallies[index].total[place.domain]
        limit = budget.max_unavailable.limit(total)
        if budget.max_unavailable.percent:
            limit = max(limit, place.weight)  # a percentage always lets one node, this one, go
        unit = "GPUs" if budget.gpus else "nodes"
        where = f" in {budget.topology_key}={place.domain}" if budget.topology_key else ""
        if place.weight > limit:
            return (
                f"budget {budget.name}{where} allows {limit} {unit}, and this node alone"
                f" has {place.weight}; raise max_unavailable"
            )
        used = self._used_by_others(index, standing, place)
        if used + place.weight <= limit:
            return ""
        listed = self._listed(index, standing, place.domain)
        return (
            f"budget {budget.name}{where} allows {limit} {unit} out of service,"
            f" {used} are: {listed}"
        )

    # A node that is out of service already takes nothing from the fleet when it is repaired; then
    # the budget only limits how many are under operation at once, or a limit would wait for itself.

    def _by_operations_only(self, standing: Standing) -> bool:
        return standing.out or standing.node.name in self.given

    def _used_by_others(self, index: int, standing: Standing, place: Place) -> int:
        tally, key = self.account.tallies[index], (index, place.domain)
        given = standing.node.name in self.given
        if self._by_operations_only(standing):
            own = place.weight if standing.taken or given else 0
            return tally.taken[place.domain] + self.taken[key] - own
        return tally.out[place.domain] + self.out[key]

    def _listed(self, index: int, standing: Standing, domain: str) -> str:
        account = self.account
        counted = account.taken if self._by_operations_only(standing) else account.out
        names = sorted(
            name
            for name in (counted | self.given) - {standing.node.name}
            if (place := account.standings[name].places[index]) is not None
            and place.domain == domain
            and account.standings[name].node.counts
        )
        return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")


class Allocation:
    """The verdicts of an account, each the one that serving everybody in turn would give."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._version = -1
        self._verdicts: dict[str, Verdict] = {}
        self._after_all = Round(account)

    def decide(self, operation: NodeOperation) -> Verdict:
        """Whether this operation may take its node out of service now.

        Older operations that wait for nothing but a budget go before it.
        """
        self._serve_all()
        known = self._verdicts.get(operation.name)
        if known is not None:
            return known
        waiting = self.account.waiting
        if not waiting or waiting[-1].age_order < operation.age_order:
            return self._after_all.ask(operation)
        older = (each for each in waiting if each.age_order < operation.age_order)
        return _served(self.account, older)[0].ask(operation)

    def _serve_all(self) -> None:
        if self._version != self.account.version:
            self._version = self.account.version
            self._after_all, self._verdicts = _served(self.account, self.account.waiting)


def _served(account: Account, waiting: Iterable[NodeOperation]) -> tuple[Round, dict[str, Verdict]]:
    """Serve these in turn: what is taken then, and what each was told."""
    served, verdicts = Round(account), {}
    for operation in waiting:
        verdict = verdicts[operation.name] = served.ask(operation)
        if isinstance(verdict, Open):
            served.give(operation.spec.node)
    return served, verdicts


def decide(
    operation: NodeOperation,
    others: Iterable[NodeOperation],
    fleet: Fleet,
    budgets: Sequence[BudgetSettings],
) -> Verdict:
    """Whether this operation may take its node out of service at one moment."""
    account = Account.of(fleet, [operation, *others], budgets)
    return Allocation(account).decide(operation)


def allocate(
    waiting: Iterable[NodeOperation],
    operations: Iterable[NodeOperation],
    fleet: Fleet,
    budgets: Sequence[BudgetSettings],
) -> dict[str, Verdict]:
    """A verdict for each waiting operation, by name."""
    oldest_first = sorted(waiting, key=lambda each: each.age_order)
    return _served(Account.of(fleet, operations, budgets), oldest_first)[1]
