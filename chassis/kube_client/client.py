"""The verbs of the Kubernetes API on plain dictionaries.

What decides when to call what is elsewhere; nothing here is tried twice but a list whose continue
token expired half-way.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

import orjson
from structlog.typing import FilteringBoundLogger

from chassis.kube_client.errors import Expired, Unavailable
from chassis.kube_client.resources import PODS, Resource
from chassis.kube_client.settings import KubeSettings
from chassis.kube_client.streams import LineStream
from chassis.kube_client.transport import JSON, Params, Request, Transport

Object = dict[str, Any]


class PatchKind(StrEnum):
    """How a patch's body is meant; the value is its content type."""

    STRATEGIC = "application/strategic-merge-patch+json"
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class KubeList:
    """All objects of a list, or of one page of it, as of `resource_version`."""

    items: list[Object]
    resource_version: str


class KubeClient:
    """Calls one API server. Safe to use from many threads.

    All verbs raise the errors of `chassis.kube_client.errors`; `timeout` is for one call in place
    of the settings'.
    """

    def __init__(
        self, settings: KubeSettings, log: FilteringBoundLogger, *, user_agent: str = "nodemend"
    ) -> None:
        """Read the credentials; nothing is sent yet.

        Raises:
            PermanentError: The kubeconfig or the pod's service account cannot be used.
        """
        self._transport = Transport(settings, log, user_agent=user_agent)

    @property
    def url(self) -> str:
        """Where the API is."""
        return self._transport.url

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.close()

    def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        subresource: str | None = None,
        *,
        timeout: timedelta | None = None,
    ) -> Object:
        """One object as it is now."""
        return self._json("GET", resource.path(name, namespace, subresource), timeout=timeout)

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
        resource_version: str | None = None,
    ) -> KubeList:
        """All objects, fetched in pages of `limit`.

        Should a continue token expire on the way, everything is listed once more, from the start.
        """
        params: dict[str, str | int | bool | None] = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
        }
        try:
            pages = [*self.pages(resource, namespace, params=params, limit=limit)]
        except Expired:
            pages = [*self.pages(resource, namespace, params=params, limit=limit)]
        return KubeList([item for page in pages for item in page.items], pages[-1].resource_version)

    def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Params | None = None,
        limit: int = 500,
    ) -> Iterator[KubeList]:
        """The pages of a list one by one, so that only one is in memory.

        Raises:
            Expired: A continue token is too old by now; what came so far is of no use.
        """
        path = resource.path(namespace=namespace)
        wanted: dict[str, str | int | bool | None] = {**(params or {}), "limit": limit}
        while True:
            page = self._json("GET", path, params=wanted)
            metadata = page.get("metadata") or {}
            yield KubeList(page.get("items") or [], metadata.get("resourceVersion") or "")
            if not (token := metadata.get("continue")):
                return
            # The token stands for a resourceVersion; naming one beside it is refused.
            wanted = {**wanted, "continue": token, "resourceVersion": None}

    def create(  # noqa: PLR0913 - the verb and its options, most by name
        self,
        resource: Resource,
        body: Mapping[str, Any],
        namespace: str | None = None,
        subresource: str | None = None,
        name: str | None = None,
        *,
        dry_run: bool = False,
        field_manager: str | None = None,
        timeout: timedelta | None = None,
    ) -> Object:
        """Create an object, or with `subresource` and `name` call such as `binding` or `token`.

        Without `namespace`, the body's own counts.
        """
        namespace = namespace or _namespace_of(resource, body)
        path = resource.path(name, namespace, subresource)
        params = _write_params(dry_run=dry_run, field_manager=field_manager)
        return self._json("POST", path, body=body, params=params, timeout=timeout)

    def replace(  # noqa: PLR0913 - the verb and its options, most by name
        self,
        resource: Resource,
        body: Mapping[str, Any],
        namespace: str | None = None,
        subresource: str | None = None,
        *,
        dry_run: bool = False,
        field_manager: str | None = None,
        timeout: timedelta | None = None,
    ) -> Object:
        """Replace an object by the body, whose name, namespace and resourceVersion count.

        Raises:
            Conflict: The object has another resourceVersion by now.
        """
        namespace = namespace or _namespace_of(resource, body)
        path = resource.path(body["metadata"]["name"], namespace, subresource)
        params = _write_params(dry_run=dry_run, field_manager=field_manager)
        return self._json("PUT", path, body=body, params=params, timeout=timeout)

    def patch(  # noqa: PLR0913 - a patch has this many sides, most by name
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        namespace: str | None = None,
        *,
        kind: PatchKind = PatchKind.STRATEGIC,
        subresource: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
        force: bool = False,
        timeout: timedelta | None = None,
    ) -> Object:
        """Change an object. A `metadata.resourceVersion` in the body makes it conditional.

        Args:
            resource: Its type.
            name: Its name.
            body: What to change: a list for PatchKind.JSON, else a part of the object.
            namespace: Its namespace.
            kind: How the body is meant. Custom resources know no STRATEGIC.
            subresource: Such as `status`.
            field_manager: Who owns the fields; PatchKind.APPLY requires it.
            dry_run: Check and answer, but store nothing.
            force: With APPLY: take fields over from other managers.
            timeout: For this call.
        """
        params = _write_params(dry_run=dry_run, field_manager=field_manager)
        if force:
            params["force"] = True
        path = resource.path(name, namespace, subresource)
        return self._json(
            "PATCH", path, body=body, params=params, content_type=kind, timeout=timeout
        )

    def delete(  # noqa: PLR0913 - the verb and its options, most by name
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Delete an object; the answer is its last state or a Status.

        Args:
            resource: Its type.
            name: Its name.
            namespace: Its namespace.
            grace_seconds: In place of the pod's own; 0 forces.
            uid: Only this very object, else Conflict.
            resource_version: Only while it is unchanged, else Conflict.
            propagation: Foreground, Background or Orphan.
            dry_run: Check and answer, but delete nothing.
        """
        options = _delete_options(grace_seconds, uid, resource_version, dry_run=dry_run)
        if propagation is not None:
            options["propagationPolicy"] = propagation
        return self._json("DELETE", resource.path(name, namespace), body=options)

    def evict(
        self,
        pod: str,
        namespace: str,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for a pod's eviction, which its PodDisruptionBudgets may refuse.

        Raises:
            EvictionRefused: A budget does not allow it now.
            Throttled: The server is overloaded; the budgets were not asked.
            NotFound: The pod is gone.
            Conflict: Another pod has this name now.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": _delete_options(grace_seconds, uid, None, dry_run=dry_run),
        }
        self._json("POST", PODS.path(pod, namespace, "eviction"), body=body)

    def watch_lines(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Params,
        read_timeout: timedelta,
    ) -> LineStream:
        """The events of a watch as JSON lines: `{"type": ..., "object": ...}`.

        Args:
            resource: What to watch.
            namespace: In one namespace only.
            params: The query but for `watch`, such as resourceVersion and allowWatchBookmarks.
            read_timeout: The longest silence after which the stream counts as broken.
        """
        path = resource.path(namespace=namespace)
        query: dict[str, str | int | bool | None] = {**params, "watch": True}
        return self._transport.stream(Request("GET", path, params=query, timeout=read_timeout))

    def raw(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Params | None = None,
        content_type: str = JSON,
        timeout: timedelta | None = None,
    ) -> bytes:
        """Any request; the answer's body as it came."""
        encoded = None if body is None else orjson.dumps(body)
        return self._transport.content(
            Request(method, path, encoded, params, content_type, timeout)
        )

    def _json(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Params | None = None,
        content_type: str = JSON,
        timeout: timedelta | None = None,
    ) -> Object:
        content = self.raw(
            method, path, body=body, params=params, content_type=content_type, timeout=timeout
        )
        try:
            decoded = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise Unavailable(
                f"{method} {path}: the answer is no JSON", status=0, reason="NotJSON"
            ) from error
        if not isinstance(decoded, dict):
            raise Unavailable(f"{method} {path}: no object came", status=0, reason="NotJSON")
        return decoded


def _namespace_of(resource: Resource, body: Mapping[str, Any]) -> str | None:
    return (body.get("metadata") or {}).get("namespace") if resource.namespaced else None


def _write_params(*, dry_run: bool, field_manager: str | None) -> dict[str, Any]:
    return {"dryRun": "All" if dry_run else None, "fieldManager": field_manager}


def _delete_options(
    grace_seconds: int | None, uid: str | None, resource_version: str | None, *, dry_run: bool
) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if wanted := {key: value for key, value in preconditions.items() if value is not None}:
        options["preconditions"] = wanted
    if dry_run:
        options["dryRun"] = ["All"]
    return options
