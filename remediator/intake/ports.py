"""What intake needs of a cluster. `kube_cluster` has it, and so have the tests' worlds."""

from typing import Protocol

from remediator.cluster import NodeView
from remediator.operation import NodeOperation, OperationSpec


class Door(Protocol):
    """The verbs by which a fault becomes an operation. Errors are TemporaryError and PermanentError."""

    def find_node(self, name: str) -> NodeView | None:
        """A node, None when there is none of this name."""
        ...

    def of_node(self, name: str) -> tuple[NodeOperation, ...]:
        """The node's operations as the watch knows them."""
        ...

    def refresh(self, name: str) -> NodeOperation | None:
        """An operation as it is now."""
        ...

    def is_unreadable(self, name: str) -> bool:
        """Whether there was, at the last refresh, an object of this name that is no operation."""
        ...

    def active_count(self) -> int:
        """How many operations are active."""
        ...

    def create(self, name: str, spec: OperationSpec) -> NodeOperation | None:
        """Make one; None when there is one of this name already."""
        ...

    def join(self, operation: NodeOperation, spec: OperationSpec) -> bool:
        """Write its grown causes; False when it has changed meanwhile."""
        ...
