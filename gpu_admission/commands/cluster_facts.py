"""What the commands ask the cluster, once: nodes, pods, namespaces, priority classes. Read only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structlog.typing import FilteringBoundLogger

from chassis.errors import PermanentError
from chassis.kube_client import (
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    Forbidden,
    KubeClient,
    KubeSettings,
    NotFound,
)
from gpu_admission.catalogue import PriorityClasses


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What was found; `asked` is False where nobody looked."""

    asked: bool = False
    nodes: tuple[Mapping[str, Any], ...] = ()
    pods: tuple[Mapping[str, Any], ...] = ()
    priorities: PriorityClasses = field(default_factory=PriorityClasses)
    namespace_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def connect(
    kubeconfig: Path | None, context: str | None, log: FilteringBoundLogger, version: str
) -> KubeClient:
    """A client as the person who calls.

    Raises:
        PermanentError: There are no usable credentials.
    """
    settings = KubeSettings(kubeconfig=kubeconfig, context=context)
    return KubeClient(settings, log, user_agent=f"gpu-admission/{version}")


def facts(client: KubeClient, namespaces: frozenset[str]) -> ClusterFacts:
    """Everything that `explain` looks at.

    Raises:
        TemporaryError: The cluster does not answer.
        PermanentError: We may not look.
    """
    try:
        return _facts(client, namespaces)
    except Forbidden as error:
        raise PermanentError(f"{error}; with --offline nothing of the cluster is read") from error


def _facts(client: KubeClient, namespaces: frozenset[str]) -> ClusterFacts:
    classes = client.list(PRIORITY_CLASSES).items
    values = {each["metadata"]["name"]: int(each.get("value", 0)) for each in classes}
    default = next((int(each["value"]) for each in classes if each.get("globalDefault")), 0)
    return ClusterFacts(
        asked=True,
        nodes=tuple(client.list(NODES).items),
        pods=tuple(client.list(PODS, field_selector="spec.nodeName!=").items),
        priorities=PriorityClasses(values, default),
        namespace_labels={name: _labels(client, name) for name in namespaces},
    )


def _labels(client: KubeClient, name: str) -> Mapping[str, str]:
    try:
        labels: Mapping[str, str] = client.get(NAMESPACES, name)["metadata"].get("labels") or {}
    except NotFound:
        return {}
    return labels


def nodes_of(client: KubeClient) -> tuple[Mapping[str, Any], ...]:
    """All nodes.

    Raises:
        TemporaryError: The cluster does not answer.
        PermanentError: We may not look.
    """
    return tuple(client.list(NODES).items)
