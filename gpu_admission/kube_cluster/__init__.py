"""The cluster as the webhook knows it: caches that requests read, and the few things that we keep there."""

from gpu_admission.kube_cluster.caches import ClusterCaches
from gpu_admission.kube_cluster.capacity import CapacityKeeper
from gpu_admission.kube_cluster.demand_watch import DemandWatch
from gpu_admission.kube_cluster.self_signed import SelfSigned

__all__ = ["CapacityKeeper", "ClusterCaches", "DemandWatch", "SelfSigned"]
