"""As much of /openapi/v3 as kubectl needs to leave validation to the server: which kinds take `fieldValidation`. Pure.

No schemas: `kubectl explain` has nothing to say here.
"""

from collections.abc import Iterable
from typing import Any

from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_server.discovery import MAJOR, MINOR

Body = dict[str, Any]
_PARAMETERS = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]


def index(types: Iterable[ResourceType]) -> Body:
    roots = sorted({_root(each) for each in types})
    return {"paths": {each: {"serverRelativeURL": f"/openapi/v3/{each}"} for each in roots}}


def document(types: Iterable[ResourceType], root: str) -> Body | None:
    """Of one group version (`api/v1`, `apis/batch/v1`); None when there is none."""
    chosen = [each for each in types if _root(each) == root]
    if not chosen:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Sandbox Kubernetes", "version": f"v{MAJOR}.{MINOR}.0"},
        "paths": {_path(each): _operations(each) for each in chosen},
        "components": {"schemas": {}},
    }


def _root(each: ResourceType) -> str:
    return f"apis/{each.group}/{each.version}" if each.group else f"api/{each.version}"


def _path(each: ResourceType) -> str:
    within = "namespaces/{namespace}/" if each.namespaced else ""
    return f"/{_root(each)}/{within}{each.plural}/{{name}}"


def _operations(each: ResourceType) -> Body:
    kind = {"group": each.group, "version": each.version, "kind": each.kind}
    return {"patch": {"parameters": _PARAMETERS, "x-kubernetes-group-version-kind": kind}}
