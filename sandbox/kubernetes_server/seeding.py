"""What a fresh cluster has before anybody asks: namespaces, priority classes, their service accounts, admin roles."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.kubernetes_rules.defaults import NOT_READY
from sandbox.kubernetes_rules.objects import rfc3339
from sandbox.kubernetes_rules.resources import (
    BUILT_IN,
    NAMESPACE,
    NODE,
    PRIORITY_CLASS,
    SERVICE_ACCOUNT,
    ResourceType,
)
from sandbox.kubernetes_rules.statuses import Refusal
from sandbox.kubernetes_server.access import ADMINS, User
from sandbox.kubernetes_server.calls import Actor
from sandbox.kubernetes_server.objects import Objects

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
SYSTEM = Actor(User("system:apiserver", (ADMINS,)))
_RBAC = "rbac.authorization.k8s.io"
_CRITICAL = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def seed(objects: Objects) -> None:
    """Make what is missing."""
    for name in NAMESPACES:
        _ensure(objects, NAMESPACE, "", {"metadata": {"name": name}})
        _ensure(objects, SERVICE_ACCOUNT, name, {"metadata": {"name": "default"}})
    for name, value in _CRITICAL.items():
        body = {"metadata": {"name": name}, "value": value, "globalDefault": False}
        _ensure(objects, PRIORITY_CLASS, "", body)
    for kind, body in _roles():
        _ensure(objects, kind, "", body)


def _roles() -> list[tuple[ResourceType, dict[str, Any]]]:
    kinds = {each.plural: each for each in BUILT_IN if each.group == _RBAC}
    everything = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    admin = {"metadata": {"name": "cluster-admin"}, "rules": everything}
    binding = {
        "metadata": {"name": "cluster-admin"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": ADMINS}],
    }
    own_access = {
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews"],
        "verbs": ["create"],
    }
    own_name = {
        "apiGroups": ["authentication.k8s.io"],
        "resources": ["selfsubjectreviews"],
        "verbs": ["create"],
    }
    basic = {"metadata": {"name": "system:basic-user"}, "rules": [own_access, own_name]}
    basic_binding = {
        "metadata": {"name": "system:basic-user"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "system:basic-user"},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}],
    }
    return [
        (kinds["clusterroles"], admin),
        (kinds["clusterrolebindings"], binding),
        (kinds["clusterroles"], basic),
        (kinds["clusterrolebindings"], basic_binding),
    ]


def _ensure(objects: Objects, kind: ResourceType, namespace: str, body: dict[str, Any]) -> None:
    try:
        objects.create(kind, namespace, complete(kind, namespace, body), SYSTEM)
    except Refusal as refusal:
        if refusal.reason != "AlreadyExists":
            raise


def complete(kind: ResourceType, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
    """The body with the kind and the namespace that its address gives it."""
    metadata = dict(body.get("metadata") or {})
    if namespace:
        metadata["namespace"] = namespace
    return {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def add_nodes(objects: Objects, names: Sequence[str], template: Mapping[str, Any]) -> None:
    """Make nodes that take pods at once; the rules are applied to the first, the others are its like."""
    if not names:
        return
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "spec": dict(template.get("spec") or {}),
        "status": dict(template.get("status") or _ready_status(objects)),
        "metadata": {**(template.get("metadata") or {}), "name": names[0]},
    }
    objects.create(NODE, "", body, SYSTEM)
    first = objects.update(NODE, "", names[0], _untainted, SYSTEM)
    objects.update(NODE, "", names[0], lambda node: _named(node, names[0]), SYSTEM)
    for name in names[1:]:
        node = _named(first.copy(), name)
        node["metadata"]["uid"] = str(uuid.uuid4())
        objects.store.create(NODE.plural, ("", name), node)


def _named(node: dict[str, Any], name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, **(node["metadata"].get("labels") or {})}
    return {**node, "metadata": {**node["metadata"], "name": name, "labels": labels}}


def _ready_status(objects: Objects) -> dict[str, Any]:
    now = rfc3339(objects.now())
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {"capacity": amounts, "allocatable": dict(amounts), "conditions": [ready]}


def _untainted(node: dict[str, Any]) -> dict[str, Any]:
    kept = [each for each in node["spec"].get("taints") or () if each["key"] != NOT_READY]
    return {**node, "spec": {**node["spec"], "taints": kept}}
