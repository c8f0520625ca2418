"""What requests look up, held in memory by watches: namespaces' labels and the priority classes."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from structlog.typing import FilteringBoundLogger

from chassis.kube_client import NAMESPACES, PRIORITY_CLASSES, KubeClient
from chassis.kube_watch import Change, KubeCache, WatchMetrics
from gpu_admission.catalogue import NamespaceView, PriorityClasses

_NONE = PriorityClasses()
_NEWS_SECONDS, _LOOK_SECONDS = 0.3, 0.01


class ClusterCaches:
    """Both watches. Before the first list a namespace is known by name only."""

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
        metrics: WatchMetrics,
    ) -> None:
        """Nothing is read yet."""
        self._namespaces: KubeCache[dict[str, str]] = KubeCache(
            client, NAMESPACES, log=log, clock=clock, keep=_labels, metrics=metrics
        )
        self._classes: KubeCache[tuple[int, bool]] = KubeCache(
            client,
            PRIORITY_CLASSES,
            log=log,
            clock=clock,
            keep=_priority,
            on_change=self._changed,
            metrics=metrics,
        )
        self._priorities = _NONE

    @property
    def priorities(self) -> PriorityClasses:
        """The classes as they are now."""
        return self._priorities

    def namespace(self, name: str, *, labels_needed: bool = False) -> NamespaceView:
        """A namespace with its labels; without, when it is not known (yet).

        The first pod may come before the watch has told of its namespace: if the labels matter, that
        is waited for a moment.
        """
        labels = self._namespaces.get(name)
        if labels is None and labels_needed:
            until = time.monotonic() + _NEWS_SECONDS
            while labels is None and time.monotonic() < until:
                time.sleep(_LOOK_SECONDS)
                labels = self._namespaces.get(name)
        return NamespaceView(name, labels)

    def _changed(self, _change: Change[tuple[int, bool]]) -> None:
        held = self._classes.items()
        default = next((value for value, is_default in held.values() if is_default), 0)
        values = {name: value for name, (value, _) in held.items()}
        self._priorities = PriorityClasses(values, default)

    @property
    def why_not_ready(self) -> str | None:
        """What has not been listed yet."""
        caches = (("namespaces", self._namespaces), ("priority classes", self._classes))
        missing = [name for name, cache in caches if not cache.has_synced]
        return f"{' and '.join(missing)} are not listed yet" if missing else None

    def start(self) -> None:
        """Begin to watch."""
        self._namespaces.start()
        self._classes.start()

    def wait_synced(self, timeout: timedelta) -> bool:
        """Whether both were listed in time."""
        seconds = timeout.total_seconds()
        return self._namespaces.wait_synced(seconds) and self._classes.wait_synced(seconds)

    def stop(self) -> None:
        """End both watches."""
        self._namespaces.stop()
        self._classes.stop()


def _labels(body: dict[str, Any]) -> dict[str, str]:
    labels = (body.get("metadata") or {}).get("labels")
    return labels if isinstance(labels, dict) else {}


def _priority(body: dict[str, Any]) -> tuple[int, bool]:
    value = body.get("value")
    return (value if isinstance(value, int) else 0), body.get("globalDefault") is True
