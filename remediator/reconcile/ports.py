"""What the leader needs of a cluster beyond deciding on one operation."""

from collections.abc import Mapping
from typing import Protocol

from remediator.cluster import BreakerState, Cluster, NodeView
from remediator.operation import NodeOperation


class Stored(Protocol):
    """An operation as it is kept, readable or not."""

    @property
    def name(self) -> str:
        """The object's name."""
        ...

    @property
    def operation(self) -> NodeOperation | None:
        """The operation, None if the object cannot be read."""
        ...

    @property
    def problem(self) -> str:
        """Why it cannot be read."""
        ...

    @property
    def has_finalizer(self) -> bool:
        """Whether our finalizer holds it."""
        ...

    @property
    def deleting(self) -> bool:
        """Whether somebody has deleted it."""
        ...


class LeaderCluster(Cluster, Protocol):
    """The verbs of a leader."""

    def stored(self, name: str) -> Stored | None:
        """One of the stored operations, our own last write included."""
        ...

    def names(self) -> list[str]:
        """The names of all stored operations."""
        ...

    def of_node(self, node: str) -> tuple[NodeOperation, ...]:
        """The operations of a node, oldest first."""
        ...

    def refresh_name(self, name: str) -> None:
        """Read an operation live, after a conflict."""
        ...

    def read_all(self) -> None:
        """Read all operations live, so that nothing is older than this moment."""
        ...

    def nodes(self) -> Mapping[str, NodeView]:
        """The nodes as the watch knows them."""
        ...

    def wait_synced(self, timeout: float) -> bool:
        """Whether everything has been listed once."""
        ...

    def remember_breaker(self, state: BreakerState) -> None:
        """Persist the breaker."""
        ...

    def set_finalizer(self, name: str, *, wanted: bool) -> None:
        """Put our finalizer on or take it off."""
        ...

    def remove(self, operation: NodeOperation) -> None:
        """Delete a finished operation."""
        ...

    def tidy(self, *, leading: bool = True) -> None:
        """Forget what is of no use any more; everything once we do not lead."""
        ...
