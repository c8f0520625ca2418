"""The cluster as intake sees it: races with others are answers here, not errors."""

from datetime import timedelta

from chassis.errors import TemporaryError
from chassis.kube_client import AlreadyExists, Conflict
from remediator.cluster import NodeView
from remediator.kube_cluster.cluster import KubeCluster
from remediator.operation import NodeOperation, OperationSpec


class KubeDoor:
    """Implements `intake.Door`. `watched` is False for a command, which reads everything live."""

    def __init__(self, cluster: KubeCluster, *, watched: bool = True) -> None:
        self._cluster = cluster
        self._watched = watched

    def find_node(self, name: str) -> NodeView | None:
        """A node; a watch that is silent for long is no reason to refuse an alert.

        Raises:
            TemporaryError: Nothing is known yet, or the API cannot be asked.
        """
        if self._watched and (why := self._cluster.why_not_ready) is not None:
            raise TemporaryError(why, retry_after=timedelta(seconds=5))
        return self._cluster.find_node(name)

    def of_node(self, name: str) -> tuple[NodeOperation, ...]:
        """The operations of a node."""
        return self._cluster.shelf.of_node(name)

    def refresh(self, name: str) -> NodeOperation | None:
        """One operation, live."""
        stored = self._cluster.shelf.refresh(name)
        return None if stored is None else stored.operation

    def is_unreadable(self, name: str) -> bool:
        """Whether there was, at the last refresh, an object of this name that is no operation."""
        stored = self._cluster.shelf.get(name)
        return stored is not None and stored.operation is None

    def active_count(self) -> int:
        """How many are active."""
        return sum(each.active for each in self._cluster.operations())

    def create(self, name: str, spec: OperationSpec) -> NodeOperation | None:
        """Make one; None when there is one."""
        try:
            return self._cluster.create_operation(name, spec)
        except AlreadyExists:
            return None

    def join(self, operation: NodeOperation, spec: OperationSpec) -> bool:
        """Write its causes; False when it has changed."""
        try:
            self._cluster.join(operation, spec)
        except Conflict:
            return False
        return True
