"""The verbs on resources as HTTP has them: bodies, options and patches in, objects and Status out."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import yaml

from sandbox.kubernetes_rules import patching, statuses
from sandbox.kubernetes_rules.resources import POD, ResourceType
from sandbox.kubernetes_rules.statuses import Refusal, bad_request, method_not_allowed
from sandbox.kubernetes_server import reading, subresources, tables, watching
from sandbox.kubernetes_server.calls import Call
from sandbox.kubernetes_server.cluster import Cluster
from sandbox.kubernetes_server.objects import Removal
from sandbox.kubernetes_server.storage import Body, Record
from sandbox.kubernetes_server.wire import Response

APPLY_YAML = "application/apply-patch+yaml"
_OBJECT_SUBRESOURCES = frozenset({"", "status", "ephemeralcontainers", "finalize"})
_CREATED = 201
_ACCEPTED = 202


class Verbs:
    """Which verb does what."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._table: Mapping[str, Callable[[Call], Response]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def answer(self, verb: str, call: Call) -> Response:
        """Do what the call wants.

        Raises:
            Refusal: It cannot be done.
        """
        sub = call.target.subresource
        if sub and sub not in call.kind.subresources:
            raise statuses.no_such_path()
        if sub not in _OBJECT_SUBRESOURCES or not call.kind.storage:
            return subresources.answer(self._cluster, verb, call)
        if verb not in call.kind.verbs:
            raise method_not_allowed()
        if sub and verb not in {"get", "update", "patch"}:
            raise method_not_allowed()
        return self._table[verb](call)

    def _get(self, call: Call) -> Response:
        record = reading.get(
            self._cluster.store, call.kind, call.target.namespace, call.target.name
        )
        if tables.wanted(call):
            return Response(200, tables.table(call.kind, [record], {}, call))
        return Response(200, reading.encoded(call.kind, record))

    def _list(self, call: Call) -> Response:
        return Response(200, reading.list_body(self._cluster.store, call))

    def _watch(self, call: Call) -> Response:
        store, control = self._cluster.store, self._cluster.control
        order = reading.watch_order(store, call)
        collection = store.collection(call.kind.qualified_plural)
        watching.check_start(collection, order)
        connection = call.request.connection
        around = watching.Surroundings(
            version=lambda: store.version,
            wait_if_paused=control.wait_if_paused,
            gone=connection.gone,
            bookmark_seconds=self._cluster.bookmark_seconds,
        )

        lines = watching.lines(collection, order, reading.encoder(call), around)

        def stream() -> Any:
            with control.watching(connection, call.kind.plural):
                yield from lines

        return Response(200, stream=stream())

    def _create(self, call: Call) -> Response:
        if call.target.name:
            raise method_not_allowed()
        body = _named(call, call.body())
        record = self._cluster.objects.create(call.kind, call.target.namespace, body, call.actor)
        return Response(_CREATED, reading.encoded(call.kind, record))

    def _update(self, call: Call) -> Response:
        body = _named(call, call.body())

        return self._changed(call, lambda _: body)

    def _patch(self, call: Call) -> Response:
        media_type = call.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type == APPLY_YAML:
            return self._apply(call)
        patch = call.json()
        kind = call.kind

        def change(current: Body) -> Body:
            return patching.apply_patch(media_type, current, patch, kind=kind)

        return self._changed(call, change)

    def _apply(self, call: Call) -> Response:
        """Server-side apply without field ownership: made if absent, else merged, the last one wins."""
        applied = _named(call, _apply_body(call))
        applied["metadata"].pop("managedFields", None)
        target = call.target
        store = self._cluster.store
        if not target.subresource:
            try:
                reading.get(store, call.kind, target.namespace, target.name)
            except Refusal:
                record = self._cluster.objects.create(
                    call.kind, target.namespace, applied, call.actor
                )
                return Response(_CREATED, reading.encoded(call.kind, record))
        media_type = patching.MERGE_PATCH if call.kind.custom else patching.STRATEGIC_PATCH

        def change(current: Body) -> Body:
            return patching.apply_patch(media_type, current, applied, kind=call.kind)

        return self._changed(call, change)

    def _changed(self, call: Call, change: Callable[[Body], Body]) -> Response:
        target = call.target
        record = self._cluster.objects.update(
            call.kind, target.namespace, target.name, change, call.actor, target.subresource
        )
        return Response(200, reading.encoded(call.kind, record))

    def _delete(self, call: Call) -> Response:
        target, options = call.target, delete_options(call)
        removal = self._cluster.objects.delete(
            call.kind, target.namespace, target.name, call.deleting(options), options
        )
        return Response(*_removal_answer(call.kind, removal))

    def _delete_collection(self, call: Call) -> Response:
        store = self._cluster.store
        matches = reading.matcher(call)
        options = delete_options(call)
        collection = store.collection(call.kind.qualified_plural)
        chosen = [
            record
            for record in collection.records(call.target.namespace)
            if matches is None or matches(record.body)
        ]
        for record in chosen:
            self._delete_if_there(call, record, options)
        head = {"kind": call.kind.list_kind, "apiVersion": call.kind.api_version}
        metadata = {"resourceVersion": str(store.version)}
        items = [record.body for record in chosen]
        return Response(200, orjson.dumps({**head, "metadata": metadata, "items": items}))

    def _delete_if_there(self, call: Call, record: Record, options: Mapping[str, Any]) -> None:
        try:
            self._cluster.objects.delete(call.kind, *record.key, call.deleting(options), options)
        except Refusal as refusal:
            if refusal.reason != "NotFound":
                raise


def delete_options(call: Call) -> dict[str, Any]:
    """DeleteOptions from the body, with what the query says over it."""
    body = call.json()
    if body is not None and not isinstance(body, dict):
        raise bad_request("the body of a deletion must be DeleteOptions")
    options: dict[str, Any] = dict(body or {})
    grace = call.number("gracePeriodSeconds")
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if call.params.text("propagationPolicy"):
        options["propagationPolicy"] = call.params.text("propagationPolicy")
    return options


def _removal_answer(kind: ResourceType, removal: Removal) -> tuple[int, bytes]:
    """A deletion that is done is told by a Status, one that has begun by the object; a pod always by itself."""
    if not removal.gone or kind is POD:
        return 200, reading.encoded(kind, removal.record)
    metadata = removal.record.body["metadata"]
    return 200, orjson.dumps(statuses.deleted(kind, metadata["name"], metadata.get("uid", "")))


def _named(call: Call, body: Body) -> Body:
    """The body with kind, namespace and name checked against the address.

    Raises:
        Refusal: They contradict each other (400).
    """
    expected = (call.kind.api_version, call.kind.kind)
    found = (body.get("apiVersion") or expected[0], body.get("kind") or expected[1])
    if found != expected:
        raise bad_request(
            f"{found[1]} in version {found[0]!r} cannot be handled as a {expected[1]} in"
            f" version {expected[0]!r}"
        )
    metadata = body.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    metadata = dict(metadata or {})
    namespace, name = call.target.namespace, call.target.name
    if metadata.get("namespace") not in {None, "", namespace}:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if name and metadata.get("name") not in {None, "", name}:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    if namespace:
        metadata["namespace"] = namespace
    if name:
        metadata["name"] = name
    return {**body, "apiVersion": expected[0], "kind": expected[1], "metadata": metadata}


def _apply_body(call: Call) -> Body:
    try:
        body = yaml.safe_load(call.request.body)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    if not isinstance(body, dict):
        raise bad_request("an applied configuration must be an object")
    if not call.params.text("fieldManager"):
        raise bad_request("PatchOptions: fieldManager: Required value: is required for apply patch")
    return body
