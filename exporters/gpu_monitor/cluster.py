"""What gpu-monitor asks of the API, verb by verb. It decides nothing.

Errors are those of `chassis.kube_client`; a thing that is already gone is no error where it was to go.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from chassis.kube_client import (
    NODES,
    PODS,
    Conflict,
    KubeClient,
    NotFound,
    Object,
    PatchKind,
)
from exporters.probe_pods import PodView, gpus_in_use

_MOST_LOG = 1 << 20
_LOG_TIMEOUT = timedelta(seconds=5)
"""The API server asks the node's kubelet; one that is dying must not hold up all others."""


class ProbeCluster:
    """The verbs on probe pods in one namespace, and on nodes."""

    def __init__(self, client: KubeClient, namespace: str, resource: str) -> None:
        self._client = client
        self._namespace = namespace
        self._resource = resource

    def create(self, body: Mapping[str, Any]) -> Object:
        return self._client.create(PODS, body, self._namespace)

    def delete(self, pod: PodView) -> None:
        """Ask for the deletion of this very pod, with the grace that it names."""
        try:
            self._client.delete(PODS, pod.name, self._namespace, uid=pod.uid)
        except (NotFound, Conflict):
            return  # gone, and maybe another in its place

    def log(self, pod: PodView) -> str:
        """What its container has written."""
        path = PODS.path(pod.name, self._namespace, "log")
        params = {"limitBytes": _MOST_LOG}
        found = self._client.raw("GET", path, params=params, timeout=_LOG_TIMEOUT)
        return found.decode("utf-8", "replace")

    def gpus_in_use(self, node: str) -> int:
        """How many GPUs the pods on a node hold."""
        # As of the API server's cache: it has an index by node, and a little lag does no harm, as the scheduler decides.
        found = self._client.list(
            PODS, field_selector=f"spec.nodeName={node}", resource_version="0"
        )
        return gpus_in_use(found.items, self._resource)

    def node(self, name: str) -> Object:
        return self._client.get(NODES, name)

    def patch_status(self, name: str, body: Mapping[str, Any]) -> Object:
        """Patch a node's status (strategic merge), annotations included."""
        return self._client.patch(NODES, name, body, kind=PatchKind.STRATEGIC, subresource="status")
