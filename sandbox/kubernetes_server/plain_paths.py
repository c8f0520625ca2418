"""Requests for paths that are no resource: discovery, version, health. the bit of OpenAPI that kubectl needs."""

from collections.abc import Mapping
from typing import Any

import orjson

from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import method_not_allowed, no_such_path
from sandbox.kubernetes_server import discovery, openapi
from sandbox.kubernetes_server.cluster import Cluster
from sandbox.kubernetes_server.wire import Request, Response

_HEALTH = ("/healthz", "/livez", "/readyz")


def answer(request: Request, cluster: Cluster) -> Response:
    """Answer.

    Raises:
        Refusal: There is nothing there.
    """
    if request.method not in {"GET", "HEAD"}:
        raise method_not_allowed()
    path = request.path.rstrip("/") or "/"
    if path.startswith(_HEALTH):
        return Response(200, b"ok", "text/plain; charset=utf-8")
    if path == "/version":
        return Response(200, orjson.dumps(discovery.version()))
    types = cluster.catalogue.all()
    if path in {"/api", "/apis"} and _aggregated(request):
        found = discovery.aggregated(types, core=path == "/api")
        return Response(200, orjson.dumps(found), discovery.AGGREGATED)
    body = _described(path, types, request.headers)
    if body is None:
        raise no_such_path()
    return Response(200, orjson.dumps(body))


def _aggregated(request: Request) -> bool:
    accepted = request.headers.get("accept", "").replace(" ", "")
    return "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" in accepted


def _described(
    path: str, types: tuple[ResourceType, ...], headers: Mapping[str, str]
) -> dict[str, Any] | None:
    parts = path.strip("/").split("/")
    if parts[0] == "openapi":
        return _openapi(parts[1:], types)
    found: dict[str, Any] | None = None
    match parts:
        case [""]:
            found = {"paths": ["/api", "/apis", "/healthz", "/livez", "/readyz", "/version"]}
        case ["api"]:
            found = discovery.api_versions(headers.get("host", ""))
        case ["api", version]:
            found = discovery.resource_list(types, "", version)
        case ["apis"]:
            found = discovery.group_list(types)
        case ["apis", group]:
            found = discovery.group(types, group)
        case ["apis", group, version]:
            found = discovery.resource_list(types, group, version)
    return found


def _openapi(parts: list[str], types: tuple[ResourceType, ...]) -> dict[str, Any] | None:
    if parts[:1] != ["v3"]:
        return None
    return openapi.document(types, "/".join(parts[1:])) if parts[1:] else openapi.index(types)
