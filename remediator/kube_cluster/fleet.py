"""All nodes at once: as the watch knows them, or read anew when the watch has been silent.

Decides nothing. A silent watch is no news: it may be quiet or broken, and only a list can tell.
"""

import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError
from chassis.kube_client import NODES, KubeClient
from chassis.kube_watch import KubeCache
from remediator.cluster import NodeView
from remediator.kube_cluster.nodes import node_view

HEARD_LATELY = timedelta(seconds=1)
_PAGE = 500
_SHARE = 10
"""A list may take a tenth of the time: on thousands of silent nodes it is the dearest call that there is."""

Nodes = Mapping[str, NodeView]


class FleetNodes:
    """The nodes of the fleet, for the leader's thread; `watched` for any."""

    def __init__(
        self,
        client: KubeClient,
        cache: KubeCache[NodeView],
        *,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._cache = cache
        self._clock = clock
        self._log = log
        self._monotonic = monotonic
        self._changes = 0
        self._kept: tuple[int, Nodes] | None = None
        self._listed: tuple[datetime, Nodes] | None = None
        self._good_until: datetime | None = None

    def changed(self) -> None:
        """The watch has told something, and readers of the cache can see it."""
        self._changes += 1

    def watched(self) -> Nodes:
        """As the watch knows them; the same mapping as long as nothing has changed."""
        changes, kept = self._changes, self._kept
        if kept is not None and kept[0] == changes:
            return kept[1]
        # Changes are counted after they can be read, so at worst this is made once too often.
        self._kept = (changes, self._cache.items())
        return self._kept[1]

    def heard_within(self, limit: timedelta) -> bool:
        """Whether the watch has said anything since."""
        heard = self._cache.last_event
        return heard is not None and self._clock() - heard <= limit

    def read(self, longest: timedelta) -> tuple[datetime, Nodes]:
        """All nodes, and of when they are; a list is used again no longer than `longest`.

        When they cannot be listed, what is known stays as old as it is.
        """
        if not self.heard_within(HEARD_LATELY):
            self._list(longest)
        heard, listed = self._cache.last_event, self._listed
        if listed is not None and (heard is None or heard < listed[0]):
            return listed
        self._listed = None
        if self.heard_within(HEARD_LATELY):
            return self._clock(), self.watched()
        return heard or self._clock() - timedelta(days=1), self.watched()

    def _list(self, longest: timedelta) -> None:
        now, started = self._clock(), self._monotonic()
        if self._listed is not None and self._good_until is not None and now < self._good_until:
            return
        try:
            # A page at a time: the raw objects of thousands of nodes take far more than their views.
            pages = self._client.pages(NODES, limit=_PAGE)
            nodes = [node_view(raw) for page in pages for raw in page.items]
        except NodemendError as error:
            self._log.warning("nodes_not_listed", error=str(error))
            return
        took = timedelta(seconds=self._monotonic() - started)
        self._listed = (now, {node.name: node for node in nodes})
        self._good_until = now + min(longest, max(HEARD_LATELY, _SHARE * took))
