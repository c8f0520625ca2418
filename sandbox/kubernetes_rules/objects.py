"""The life of an object in the API server: what a create and an update make of what a client sent. Pure.

Deletion is in `deletion`; admission by PriorityClass in `defaults.with_priority`; the causes of a 422 in `validation`.
"""

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime
from typing import Any

from sandbox.kubernetes_rules import defaults, metadata
from sandbox.kubernetes_rules.deletion import Deletion, Outcome, deletion, may_be_removed, rfc3339
from sandbox.kubernetes_rules.names import generated_name
from sandbox.kubernetes_rules.resources import WITHOUT_GENERATION, ResourceType
from sandbox.kubernetes_rules.statuses import (
    Cause,
    CauseReason,
    Refusal,
    bad_request,
    conflict,
    invalid,
)

__all__ = [
    "Deletion",
    "Outcome",
    "deletion",
    "may_be_removed",
    "prepare_create",
    "prepare_update",
    "rfc3339",
]

_STATUS_KEPT_ON_CREATE = frozenset({"Node"})
_SERVER_OWNED = ("generation", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_MUST_NAME_VERSION = frozenset({"Lease", "PodDisruptionBudget", "CustomResourceDefinition"})
_GENERATION_BY_WHOLE = frozenset(
    {
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "PriorityClass",
    }
)


def prepare_create(
    obj: object,
    kind: ResourceType,
    *,
    now: datetime,
    uid: str,
    random_suffix: str,
    namespace: str | None = None,
) -> dict[str, Any]:
    """The object as it would be stored, without a resourceVersion; not validated yet.

    `random_suffix` are the five characters for a `generateName`. A custom resource with a status subresource loses its status.

    Raises:
        Refusal: 400 for another kind, version or namespace than the path's, 500 for a resourceVersion.
    """
    fresh = _typed(obj, kind)
    metadata.check_shape(fresh, kind)
    meta = dict(fresh.get("metadata") or {})
    if meta.get("resourceVersion"):
        raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
    for part in (*_SERVER_OWNED, "resourceVersion"):
        meta.pop(part, None)
    _put_namespace(meta, kind, namespace)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generated_name(str(meta["generateName"]), random_suffix)
    meta.update(uid=uid, creationTimestamp=rfc3339(now))
    if has_generation(kind):
        meta["generation"] = 1
    if kind.has_status and kind.kind not in _STATUS_KEPT_ON_CREATE:
        fresh.pop("status", None)
    filled = defaults.with_defaults({**fresh, "metadata": meta}, kind)
    node = (kind.group, kind.kind) == ("", "Node")
    return defaults.with_not_ready_taint(filled) if node else filled


def has_generation(kind: ResourceType) -> bool:
    return kind.custom or kind.kind not in WITHOUT_GENERATION


def _typed(obj: object, kind: ResourceType) -> dict[str, Any]:
    """A copy with apiVersion and kind, which built-in kinds may leave out."""
    if not isinstance(obj, Mapping):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get version/kind; json:"
            " cannot unmarshal into Go value of type struct { APIVersion string; Kind string }"
        )
    version, name = obj.get("apiVersion"), obj.get("kind")
    if version and version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )
    if name and name != kind.kind:
        raise _wrong_kind(obj, kind)
    if kind.custom and not (version and name):
        raise bad_request("Object 'Kind' is missing in the body of the request")
    return {**deepcopy(dict(obj)), "apiVersion": kind.api_version, "kind": kind.kind}


def _wrong_kind(obj: Mapping[str, Any], kind: ResourceType) -> Refusal:
    name = str(obj.get("kind"))
    if kind.custom:
        message = f'Invalid value: "{name}": must be {kind.kind}'
        cause = Cause(CauseReason.INVALID, message, "kind")
        meta = obj.get("metadata")
        named = str(meta.get("name") or "") if isinstance(meta, Mapping) else ""
        return invalid(kind, named, [cause])
    return bad_request(
        f'{name} in version "{kind.version}" cannot be handled as a {kind.kind}: converting (v1.{name}) to'
        f" ({kind.group or 'core'}.{kind.kind}): unknown conversion"
    )


def _put_namespace(meta: dict[str, Any], kind: ResourceType, namespace: str | None) -> None:
    if not kind.namespaced:
        meta.pop("namespace", None)
    elif namespace is not None:
        if meta.get("namespace") not in (None, "", namespace):
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        meta["namespace"] = namespace


def prepare_update(
    current: Mapping[str, Any],
    new: object,
    kind: ResourceType,
    *,
    subresource: str | None = None,
) -> dict[str, Any]:
    """What a PUT, or a PATCH's result, makes of `current`; equal to `current` when nothing changes.

    `subresource="status"` takes the status and, of a built-in kind, the labels and annotations; anything else of the
    object is `current`'s. Without it the status is `current`'s where the kind has that subresource.

    Raises:
        Refusal: 400 for another name or kind, 409 for a resourceVersion or UID that is not the stored one,
            422 without a resourceVersion where the kind demands one.
    """
    fresh = _typed(new, kind)
    metadata.check_shape(fresh, kind)
    name = current["metadata"]["name"]
    given = dict(fresh.get("metadata") or {})
    if given.get("name") not in (None, "", name):
        raise bad_request(
            f"the name of the object ({given['name']}) does not match the name on the URL ({name})"
        )
    _put_namespace(given, kind, current["metadata"].get("namespace"))
    _check_version(current["metadata"], given, kind)
    given["name"] = name
    fresh = {**fresh, "metadata": _kept_metadata(current["metadata"], given)}
    merged = _split(current, fresh, kind, subresource)
    filled = defaults.with_defaults(merged, kind)
    return _with_generation(current, _tidied(filled), kind)


def _check_version(was: Mapping[str, Any], given: Mapping[str, Any], kind: ResourceType) -> None:
    name, version = was["name"], given.get("resourceVersion")
    if not version and (kind.custom or kind.kind in _MUST_NAME_VERSION):
        raise _version_missing(kind, name)
    if version and version != was.get("resourceVersion"):
        raise conflict(kind, name)
    uid = given.get("uid")
    if uid and uid != was.get("uid"):
        why = (
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {was.get('uid')}"
        )
        raise conflict(kind, name, why)


def _version_missing(kind: ResourceType, name: str) -> Refusal:
    message = "Invalid value: 0: must be specified for an update"
    cause = Cause(CauseReason.INVALID, message, "metadata.resourceVersion")
    refusal = invalid(kind, name, [cause])
    refusal.status["details"]["kind"] = kind.plural  # the one 422 that names the plural
    told = f'{kind.qualified_plural} "{name}" is invalid: {cause.field}: {message}'
    refusal.status["message"] = told
    return refusal


def _kept_metadata(was: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    for part in _SERVER_OWNED:
        given.pop(part, None)
        if part in was:
            given[part] = was[part]
    for part in ("uid", "creationTimestamp", "generateName"):
        if part in was and not given.get(part):
            given[part] = was[part]
    if "resourceVersion" in was:
        given["resourceVersion"] = was["resourceVersion"]
    return given


def _split(
    current: Mapping[str, Any], fresh: dict[str, Any], kind: ResourceType, subresource: str | None
) -> dict[str, Any]:
    """The two halves of an object with a status subresource never change in one write."""
    if subresource == "status":
        meta = dict(current["metadata"])
        if not kind.custom:
            _take_marks(meta, fresh["metadata"])
        return _replaced({**current, "metadata": meta}, "status", fresh)
    if kind.has_status:
        return _replaced(fresh, "status", current)
    return fresh


def _take_marks(meta: dict[str, Any], given: Mapping[str, Any]) -> None:
    for part in ("labels", "annotations", "finalizers", "ownerReferences"):
        meta.pop(part, None)
        if given.get(part):
            meta[part] = given[part]


def _replaced(base: Mapping[str, Any], part: str, source: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in base.items() if key != part}
    return {**rest, part: deepcopy(source[part])} if part in source else rest


def _tidied(obj: dict[str, Any]) -> dict[str, Any]:
    """Empty lists and maps of the metadata, and a Node's empty taints, are not stored."""
    meta = obj["metadata"]
    for part in ("labels", "annotations", "finalizers", "ownerReferences"):
        if part in meta and not meta[part]:
            del meta[part]
    spec = obj.get("spec")
    if isinstance(spec, dict) and obj["kind"] == "Node" and not spec.get("taints", True):
        del spec["taints"]
    return obj


def _with_generation(
    current: Mapping[str, Any], fresh: dict[str, Any], kind: ResourceType
) -> dict[str, Any]:
    """One more when what was asked for has changed; never for metadata or status."""
    generation = current["metadata"].get("generation")
    if generation is None or _asked_for(current, kind) == _asked_for(fresh, kind):
        return fresh
    fresh["metadata"]["generation"] = generation + 1
    return fresh


def _asked_for(obj: Mapping[str, Any], kind: ResourceType) -> Any:
    if not kind.custom and kind.kind not in _GENERATION_BY_WHOLE:
        return obj.get("spec")
    left_out = {"metadata", "status"} if kind.has_status else {"metadata"}
    return {key: value for key, value in obj.items() if key not in left_out}
