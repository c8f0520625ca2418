"""Watches on the pods of nodes that are being drained, so that a drain goes on as soon as a pod has gone.

Only wakes; what is decided on is read live. Above a number of drains the rest is looked at from time to time.
"""

from collections.abc import Callable, Collection
from datetime import datetime

from structlog.typing import FilteringBoundLogger

from chassis.kube_client import PODS, KubeClient
from chassis.kube_watch import Change, KubeCache
from remediator.operation import NodeOperation

MOST = 64


class WatchedPods:
    """One watch a draining operation; used by the leader's thread alone."""

    def __init__(
        self,
        client: KubeClient,
        wake: Callable[[Collection[str]], None],
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
    ) -> None:
        self._client = client
        self._wake = wake
        self._clock = clock
        self._log = log
        self._caches: dict[str, KubeCache[str]] = {}

    def watch(self, operation: NodeOperation) -> None:
        """Wake the operation when a pod of its node changes."""
        name = operation.name
        if name in self._caches or len(self._caches) >= MOST:
            return

        def changed(change: Change[str]) -> None:
            if change.old != change.new:
                self._wake((name,))

        cache = KubeCache(
            self._client,
            PODS,
            log=self._log,
            clock=self._clock,
            field_selector=f"spec.nodeName={operation.spec.node}",
            keep=_what_matters,
            on_change=changed,
        )
        self._caches[name] = cache
        cache.start()

    def leave(self, operation: NodeOperation) -> None:
        """End the watch for an operation that drains no more."""
        cache = self._caches.pop(operation.name, None)
        if cache is not None:
            cache.stop()

    def only(self, names: Collection[str]) -> None:
        """End the watches for all other operations."""
        for name in set(self._caches) - set(names):
            self._caches.pop(name).stop()

    def stop(self) -> None:
        """End all."""
        while self._caches:
            self._caches.popitem()[1].stop()


def _what_matters(raw: dict[str, object]) -> str:
    metadata, status = raw.get("metadata"), raw.get("status")
    if not isinstance(metadata, dict) or not isinstance(status, dict):
        return ""
    parts = (metadata.get("deletionTimestamp"), status.get("phase"), metadata.get("annotations"))
    return str((metadata.get("uid"), *parts))
