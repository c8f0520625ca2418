"""What the cluster's pods want, pending and running, held in memory by a watch on pods.

Of pods that ask for no extended resource nothing is kept, of others what `demand` reads. Must not
decide what a pod wants: `demand` does.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from structlog.typing import FilteringBoundLogger

from chassis.kube_client import PODS, KubeClient
from chassis.kube_watch import KubeCache, WatchMetrics
from gpu_admission.catalogue import Catalogue
from gpu_admission.demand import DemandRecord, demand_of
from gpu_admission.gpu_request.shapes import items, mapping
from gpu_admission.kube_cluster.caches import ClusterCaches

_NOT_OVER = "status.phase!=Succeeded,status.phase!=Failed"
_LARGE = "kubectl.kubernetes.io/last-applied-configuration"
_OF_CONTAINER = ("name", "resources", "restartPolicy")
_OF_SPEC = ("nodeName", "priority", "priorityClassName")


class DemandWatch:
    """Each replica tells the same."""

    def __init__(
        self,
        client: KubeClient,
        catalogue: Callable[[], Catalogue | None],
        caches: ClusterCaches,
        *,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
        metrics: WatchMetrics,
    ) -> None:
        """Nothing is read yet."""
        self._catalogue = catalogue
        self._caches = caches
        self._pods: KubeCache[dict[str, Any] | None] = KubeCache(
            client,
            PODS,
            log=log,
            clock=clock,
            keep=_wanting,
            field_selector=_NOT_OVER,
            metrics=metrics,
        )

    def start(self) -> None:
        """Begin to watch."""
        self._pods.start()

    def stop(self) -> None:
        """End the watch."""
        self._pods.stop()

    def records(self) -> Mapping[DemandRecord, int] | None:
        """Each kind of demand, and of how many pods; None before pods and catalogue are known."""
        catalogue = self._catalogue()
        if catalogue is None or not self._pods.has_synced:
            return None
        found: Counter[DemandRecord] = Counter()
        for key, pod in self._pods.items().items():
            if pod is not None:
                namespace = self._caches.namespace(key.partition("/")[0])
                found.update(demand_of(pod, namespace, catalogue, self._caches.priorities))
        return found


def _wanting(body: dict[str, Any]) -> dict[str, Any] | None:
    """As much of the pod as `demand_of` reads; None if it asks for no extended resource."""
    meta, spec, status = (mapping(body.get(part)) for part in ("metadata", "spec", "status"))
    lists = {name: _containers(spec.get(name)) for name in ("initContainers", "containers")}
    if not any(_is_extended(each) for containers in lists.values() for each in containers):
        return None
    annotations = mapping(meta.get("annotations"))
    return {
        "metadata": {
            "annotations": {key: annotations[key] for key in annotations if key != _LARGE},
            "labels": dict(mapping(meta.get("labels"))),
        },
        "spec": {**{key: spec[key] for key in _OF_SPEC if key in spec}, **lists},
        "status": {"phase": status.get("phase")},
    }


def _containers(value: object) -> list[dict[str, Any]]:
    return [
        {key: each[key] for key in _OF_CONTAINER if key in each}
        for each in map(mapping, items(value))
    ]


def _is_extended(container: Mapping[str, Any]) -> bool:
    """Extended resources have a domain before their name, those of Kubernetes none."""
    limits = mapping(mapping(container.get("resources")).get("limits"))
    return any("/" in key for key in limits)
