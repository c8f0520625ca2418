"""What looking at operations needs from outside, put together by the leader."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from structlog.typing import FilteringBoundLogger

from remediator.config import Config
from remediator.metrics import ReconcileMetrics
from remediator.operation import NodeOperation
from remediator.reconcile.errands import Errands
from remediator.reconcile.ports import LeaderCluster


@dataclass(slots=True)
class Surroundings:
    """What looking at operations needs.

    `leads` tells whether we still may; `told` how far alerts2gh knows an operation's history; `recorded`
    is told each step; `own_node` is the node that this process runs on, `hand_over` gives leadership away;
    `errands` carries out effects.
    """

    cluster: LeaderCluster
    config: Callable[[], Config]
    clock: Callable[[], datetime]
    leads: Callable[[], bool]
    told: Callable[[str], int]
    recorded: Callable[[NodeOperation, NodeOperation], None]
    metrics: ReconcileMetrics
    log: FilteringBoundLogger
    own_node: str = ""
    hand_over: Callable[[NodeOperation], bool] = lambda _: False
    errands: Errands = field(default_factory=lambda: Errands(0))

    def empties_us(self, operation: NodeOperation) -> bool:
        """Whether this operation is about the node that we run on."""
        return bool(self.own_node) and operation.spec.node == self.own_node
