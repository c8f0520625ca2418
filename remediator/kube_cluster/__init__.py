"""The Kubernetes side: what decisions see of a cluster, and how their effects are carried out.

The only part of the remediator that calls the Kubernetes API; it decides nothing.
"""

from remediator.kube_cluster.cluster import KubeCluster, Listeners
from remediator.kube_cluster.door import KubeDoor
from remediator.kube_cluster.events import Events
from remediator.kube_cluster.resources import NODE_OPERATIONS, SELF_SUBJECT_REVIEWS
from remediator.kube_cluster.state import Switches, SwitchStore
from remediator.kube_cluster.stored import Shelf, Stored, stored_of

__all__ = [
    "NODE_OPERATIONS",
    "SELF_SUBJECT_REVIEWS",
    "Events",
    "KubeCluster",
    "KubeDoor",
    "Listeners",
    "Shelf",
    "Stored",
    "SwitchStore",
    "Switches",
    "stored_of",
]
