"""PATCH: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' strategic merge patch.

The result is not validated here; see `validation` and `schemas`. Server-side apply is not offered: it is refused with
the media types that are.
"""

from copy import deepcopy
from typing import Any

from sandbox.kubernetes_rules import patch_types
from sandbox.kubernetes_rules.json_patch import InvalidPatch, apply_operations
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import Refusal, bad_request, unsupported_media_type
from sandbox.kubernetes_rules.strategic_merge import merged_strategically

__all__ = ["InvalidPatch", "accepted_types", "apply_patch"]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


def accepted_types(kind: ResourceType) -> tuple[str, ...]:
    """A custom resource has no strategic merge: its lists have no merge keys."""
    return (JSON_PATCH, MERGE_PATCH) if kind.custom else (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)


def apply_patch(
    content_type: str, current: dict[str, Any], patch: object, *, kind: ResourceType
) -> dict[str, Any]:
    """The patched object; `current` and `patch` are left alone.

    Raises:
        InvalidPatch: 422, an operation cannot be applied, or a `test` fails.
        Refusal: 415 for a media type that this kind does not take, 400 for a patch of the wrong shape.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in accepted_types(kind):
        raise unsupported_media_type(accepted_types(kind))
    if media_type == JSON_PATCH:
        return apply_operations(current, patch)
    if not isinstance(patch, dict):
        raise _not_an_object(patch, media_type)
    if media_type == MERGE_PATCH:
        return dict(merge_patch(current, patch))
    fields = patch_types.fields_of(kind)
    return merged_strategically(deepcopy(current), deepcopy(patch), fields)


def _not_an_object(patch: object, media_type: str) -> Refusal:
    names = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    found = names.get(type(patch), "null")
    prefix = "error decoding patch: " if media_type == MERGE_PATCH else ""
    return bad_request(
        f"{prefix}json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    )


def merge_patch(current: Any, patch: Any) -> Any:
    """RFC 7386: objects are merged, null removes a key, anything else replaces."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    merged = dict(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged
