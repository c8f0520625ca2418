"""Writes what a round has found out about nodes, and knows them at least as new as it wrote them.

Each write says what it was made from; when the node has changed since, it is made anew from a fresh look.
"""

from collections.abc import Callable, Mapping
from typing import Any

from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError
from chassis.kube_client import Conflict, NotFound
from exporters.gpu_monitor.cluster import ProbeCluster
from exporters.gpu_monitor.metrics import MonitorMetrics
from exporters.gpu_monitor.nodes import MonitoredNode

Change = Callable[[MonitoredNode], Mapping[str, Any] | None]
"""From a node as it is to the patch of its status; None when there is nothing to write any more."""
_TRIES = 4


class NodesBook:
    """The nodes of one term of leadership; for one thread."""

    def __init__(
        self,
        cluster: ProbeCluster,
        cached: Callable[[], Mapping[str, MonitoredNode]],
        read: Callable[[Mapping[str, Any]], MonitoredNode],
        metrics: MonitorMetrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._cluster = cluster
        self._cached = cached
        self._read = read
        self._metrics = metrics
        self._log = log
        self._written: dict[str, MonitoredNode] = {}

    def nodes(self) -> dict[str, MonitoredNode]:
        """All nodes with GPUs: as the watch tells them, or newer where we have written since."""
        found = {name: node for name, node in self._cached().items() if node.has_gpus}
        for name, mine in list(self._written.items()):
            if name not in found or not _is_newer(mine, found[name]):
                del self._written[name]
            else:
                found[name] = mine
        return found

    def write(self, node: MonitoredNode, change: Change) -> bool:
        """Patch the node as `change` says; whether that is done, or nothing has to be done any more."""
        for _ in range(_TRIES):
            body = change(node)
            if body is None:
                return True
            try:
                self._written[node.name] = self._read(self._cluster.patch_status(node.name, body))
            except Conflict:
                self._metrics.patches.labels("conflict").inc()
                fresh = self._fresh(node)
                if fresh is None:
                    return False
                node = fresh
            except NotFound:
                self._metrics.patches.labels("gone").inc()
                return True
            except NodemendError as error:
                self._failed(node.name, error)
                return False
            else:
                self._metrics.patches.labels("ok").inc()
                return True
        return False

    def _fresh(self, node: MonitoredNode) -> MonitoredNode | None:
        try:
            return self._read(self._cluster.node(node.name))
        except NodemendError as error:
            self._failed(node.name, error)
            return None

    def _failed(self, name: str, error: NodemendError) -> None:
        self._metrics.patches.labels("failed").inc()
        self._metrics.api_failures.labels("patch").inc()
        self._log.warning("node_not_written", node=name, error=str(error))


def _is_newer(one: MonitoredNode, other: MonitoredNode) -> bool:
    if one.view.uid != other.view.uid:
        return False
    try:
        return int(one.view.version) > int(other.view.version)
    except ValueError:
        return False
