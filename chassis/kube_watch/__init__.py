"""Copies of Kubernetes objects in memory that outlive outages of the API.

`KubeCache` lists and watches; `Change` is what it tells. The `kubernetes` package's own informer
knows neither back-off nor the old object nor whether it has synced.
"""

from chassis.kube_watch.backoff import Backoff
from chassis.kube_watch.cache import KubeCache
from chassis.kube_watch.folding import Change, ChangeKind
from chassis.kube_watch.metrics import WatchMetrics

__all__ = ["Backoff", "Change", "ChangeKind", "KubeCache", "WatchMetrics"]
