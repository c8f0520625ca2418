"""The nodes as one configuration wants them: watched, rendered, ready to be scraped.

A reload makes a new view and drops the old one. Must not know HTTP.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from structlog.typing import FilteringBoundLogger

from chassis.kube_client import NODES, KubeClient
from chassis.kube_watch import KubeCache, WatchMetrics
from exporters.config.node_conditions import NodeConditionsSettings
from exporters.node_condition_exporter.exposition import Exposition, Nodes
from exporters.node_condition_exporter.sharding import shard_of
from exporters.node_condition_lines import NodeLines, render_node

_PAGE = 100  # a Node with its list of images may have 50 kB, and five times that once decoded


class NodesView:
    """Holds a few bytes for each metric family and node; the Node objects themselves are dropped at once."""

    def __init__(
        self,
        settings: NodeConditionsSettings,
        client: KubeClient,
        *,
        metrics: WatchMetrics,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
    ) -> None:
        self._policy = settings.lines_policy()
        self._shard = settings.shard
        self._client = client
        self._clock = clock
        self._cache: KubeCache[NodeLines | None] = KubeCache(
            client,
            NODES,
            log=log,
            clock=clock,
            keep=self._keep,
            label_selector=settings.node_selector,
            metrics=metrics,
            page_size=_PAGE,
        )
        self._exposition = Exposition(self._known, self._policy)

    def start(self) -> None:
        self._cache.start()

    def stop(self) -> None:
        self._cache.stop()
        self._client.close()

    def wait_synced(self, seconds: float) -> bool:
        """Wait until all nodes were listed once; whether they were in time."""
        return self._cache.wait_synced(seconds)

    def why_not_ready(self) -> str | None:
        """Why a scrape has no nodes; None once they were listed, even if the API is away since."""
        return None if self._cache.has_synced else "the nodes have not been listed yet"

    def pieces(self) -> Iterable[bytes]:
        """The exposition as of now."""
        return self._exposition.pieces(self._clock())

    def _known(self) -> Nodes | None:
        """None rather than a part: alerts on absent nodes must not fire over our start."""
        return self._cache.items() if self._cache.has_synced else None

    def _keep(self, node: dict[str, Any]) -> NodeLines | None:
        name = str(node["metadata"]["name"])
        if self._shard.total > 1 and shard_of(name, self._shard.total) != self._shard.index:
            return None
        lines = render_node(node, self._policy)
        known = self._cache.get(name)
        # During a relist both copies are held; most nodes have not changed.
        return known if known == lines else lines
