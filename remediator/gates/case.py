"""What a gate looks at. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from remediator.budgets import Account, Allocation
from remediator.cluster import Fleet, NodeView, Observation
from remediator.config import Config, Playbook
from remediator.operation import NodeOperation


@dataclass(frozen=True, slots=True)
class GateCase:
    """One operation before a step that takes something from somebody."""

    operation: NodeOperation
    playbook: Playbook
    node: NodeView
    observation: Observation
    config: Config
    fleet: Fleet
    others: Sequence[NodeOperation]
    now: datetime
    allocation: Allocation | None = None
    """Kept up to date by whoever decides often."""

    def budgets(self) -> Allocation:
        """All budgets at this moment; counted for this case alone if nobody keeps them."""
        if self.allocation is not None:
            return self.allocation
        operations = [self.operation, *self.others]
        return Allocation(Account.of(self.fleet, operations, self.config.budgets))

    @property
    def same_node(self) -> list[NodeOperation]:
        """The other operations of this node."""
        return [each for each in self.others if each.spec.node == self.operation.spec.node]
