"""A leader's cluster in memory: stores operations under versions, keeps a log of writes and effects.

What the API would refuse, it refuses; failures are set by the test.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime

from chassis.kube_client import Conflict
from remediator.cluster import (
    BreakerState,
    Effect,
    Fleet,
    Isolate,
    JobState,
    JobView,
    NodeView,
    Observation,
    Release,
)
from remediator.config import Playbook
from remediator.operation import NodeOperation, OperationSpec, OperationStatus
from tests.remediator.building import NOW, faulty, fleet_of


@dataclass
class Kept:
    """A stored operation."""

    name: str
    operation: NodeOperation | None
    problem: str = ""
    has_finalizer: bool = True
    deleting: bool = False


@dataclass
class MemoryCluster:
    """One node and some operations; `log` holds phases that were written and effects, in order."""

    kept: dict[str, Kept] = field(default_factory=dict)
    node: NodeView = field(default_factory=faulty)
    fleet_now: Fleet | None = None
    log: list[str] = field(default_factory=list)
    breaker: BreakerState | None = None
    conflicts: int = 0
    failure: Exception | None = None
    now: datetime = NOW
    version: int = 10

    def put(self, *operations: NodeOperation) -> "MemoryCluster":
        """Store operations; the cluster."""
        for each in operations:
            self.kept[each.name] = Kept(each.name, each, deleting=each.deleting)
        return self

    # As LeaderCluster.

    def operations(self) -> tuple[NodeOperation, ...]:
        return tuple(each.operation for each in self.kept.values() if each.operation)

    def stored(self, name: str) -> Kept | None:
        return self.kept.get(name)

    def names(self) -> list[str]:
        return list(self.kept)

    def of_node(self, node: str) -> tuple[NodeOperation, ...]:
        return tuple(each for each in self.operations() if each.spec.node == node)

    def refresh_name(self, name: str) -> None:
        self.log.append(f"refresh {name}")

    def read_all(self) -> None:
        if self.failure is not None:
            raise self.failure

    def nodes(self) -> dict[str, NodeView]:
        return {self.node.name: self.node}

    def wait_synced(self, timeout: float) -> bool:
        return timeout > 0

    def fleet(self) -> Fleet:
        return self.fleet_now or fleet_of(self.node, as_of=self.now)

    def observe(self, operation: NodeOperation, playbook: Playbook | None) -> Observation:
        if self.failure is not None:
            raise self.failure
        assert playbook is None or playbook.name == operation.spec.playbook
        intent = operation.status.intent
        state = JobState.ACTIVE if "CreateJob" in self.log else JobState.MISSING
        job = JobView(intent.job, state) if intent is not None and intent.job else None
        return Observation(self.now, self.node, pods=(), job=job)

    def create_operation(self, name: str, spec: OperationSpec) -> NodeOperation:
        made = NodeOperation(name, f"uid-{name}", str(self.version), self.now, spec)
        self.put(made)
        return made

    def record(self, operation: NodeOperation, status: OperationStatus) -> NodeOperation:
        kept = self.kept[operation.name]
        self.conflicts -= 1
        stale = kept.operation is None or (
            kept.operation.resource_version != operation.resource_version
        )
        if self.conflicts >= 0 or stale:
            raise Conflict("changed", status=409, reason="Conflict")
        self.version += 1
        kept.operation = replace(operation, status=status, resource_version=str(self.version))
        self.log.append(status.phase.value)
        return kept.operation

    def apply(self, operation: NodeOperation, effect: Effect) -> None:
        self.log.append(type(effect).__name__)
        if isinstance(effect, Isolate):
            self.node = replace(self.node, operation_taint=operation.name)
        if isinstance(effect, Release):
            self.node = replace(self.node, operation_taint=None)

    def remember_breaker(self, state: BreakerState) -> None:
        self.log.append("breaker")
        self.breaker = state

    def set_finalizer(self, name: str, *, wanted: bool) -> None:
        self.log.append("finalizer on" if wanted else "finalizer off")
        self.kept[name].has_finalizer = wanted
        if not wanted and self.kept[name].deleting:
            del self.kept[name]

    def remove(self, operation: NodeOperation) -> None:
        self.log.append(f"remove {operation.name}")
        del self.kept[operation.name]

    def tidy(self, *, leading: bool = True) -> None:
        self.log.append("tidy" if leading else "rest")
