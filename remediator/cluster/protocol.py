"""The verbs by which `reconcile` meets a cluster; `kube_cluster` and the tests' world have them.

Each verb is one live call. TemporaryError and PermanentError are the only ways to fail.
"""

from typing import Protocol

from remediator.cluster.effects import Effect
from remediator.cluster.observation import Fleet, Observation
from remediator.config import Playbook
from remediator.operation import NodeOperation, OperationSpec, OperationStatus


class Cluster(Protocol):
    """What a remediator needs of a cluster."""

    def operations(self) -> tuple[NodeOperation, ...]:
        """All operations that can be read; what cannot is logged and counted, never skipped silently."""
        ...

    def fleet(self) -> Fleet:
        """All nodes and the switches."""
        ...

    def observe(self, operation: NodeOperation, playbook: Playbook | None) -> Observation:
        """What the operation's phase needs to be decided."""
        ...

    def create_operation(self, name: str, spec: OperationSpec) -> NodeOperation:
        """A new operation; AlreadyExists is the caller's to read."""
        ...

    def record(self, operation: NodeOperation, status: OperationStatus) -> NodeOperation:
        """One status write under the operation's resourceVersion; Conflict if somebody was faster."""
        ...

    def apply(self, operation: NodeOperation, effect: Effect) -> None:
        """Carry out an effect. Refused unless the operation is still at its resourceVersion."""
        ...
