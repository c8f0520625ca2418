"""Kubernetes' strategic merge patch: maps by key, lists by the keys of `patch_types`, and its `$` directives.

The algorithm, the order of merged lists included, follows the API server's documented behaviour and is compared with
the real one by tests. Works in place on what it is given: callers hand over copies.
"""

from collections.abc import Sequence
from typing import Any

from sandbox.kubernetes_rules.patch_types import TYPES, Field, Fields
from sandbox.kubernetes_rules.statuses import Cause, CauseReason, Refusal, bad_request

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_ATOMIC = Field()


def merged_strategically(
    original: dict[str, Any], patch: dict[str, Any], fields: Fields
) -> dict[str, Any]:
    """`original` with `patch` merged in; both are used up."""
    if _PATCH in patch:
        return _replaced_or_deleted(patch)
    _retain_keys(original, patch)
    _merge_ordered_lists(original, patch, fields)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            _delete_from_list(original, key.removeprefix(_DELETE_FROM), value)
        elif value is None:
            original.pop(key, None)
        else:
            original[key] = _merged_value(original.get(key), value, fields.get(key, _ATOMIC))
    return original


def _replaced_or_deleted(patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch.pop(_PATCH)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise _impossible(f"unknown patch type: {directive} in map: map[{_PATCH}:{directive}]")


def _merged_value(current: Any, value: Any, field: Field) -> Any:
    if isinstance(current, dict) and isinstance(value, dict):
        if field.replaced:
            return _decoded(value)
        return merged_strategically(current, value, TYPES[field.type])
    if isinstance(current, list) and isinstance(value, list):
        return _merged_list(current, value, field) if field.merged else _decoded(value)
    return _without_directives(value)


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> None:
    if _RETAIN_KEYS not in patch:
        return
    kept = patch.pop(_RETAIN_KEYS)
    named = [k for k, v in patch.items() if v is not None and not k.startswith(("$delete", _ORDER))]
    if not isinstance(kept, list) or not all(key in kept for key in named):
        raise bad_request("invalid patch format of retainKeys")
    for key in [key for key in original if key not in kept]:
        del original[key]


def _delete_from_list(original: dict[str, Any], key: str, values: Any) -> None:
    current = original.get(key)
    if isinstance(current, list) and isinstance(values, list):
        original[key] = [each for each in current if each not in values]


def _merge_ordered_lists(original: dict[str, Any], patch: dict[str, Any], fields: Fields) -> None:
    """Lists that come with `$setElementOrder`: merged, then ordered as it says."""
    for directive in [key for key in patch if key.startswith(_ORDER)]:
        order = patch.pop(directive)
        name = directive.removeprefix(_ORDER)
        field = fields.get(name, _ATOMIC)
        key = field.key or ""
        changes = patch.pop(name, None)
        _check_order(changes or [], order, key)
        current = original.get(name)
        if current is None and changes is None:
            continue
        server_order = _server_order(current or [], changes or [], key)
        merged = _merged_value(current, changes, field) if changes is not None else current
        if not isinstance(merged, list):
            raise _bad_format(f"{name} is not a list")
        original[name] = _ordered(merged, order, server_order, key)


def _server_order(current: list[Any], changes: list[Any], key: str) -> list[Any]:
    """The places that the real server remembers.

    It deletes and appends in the very list that it orders by: what follows a deleted element moves up, new elements come
    next, and what nothing has overwritten stays at the end.
    """
    elements = [*current, *changes] if isinstance(current, list) else [None]
    if not key or not all(isinstance(each, dict) for each in elements):
        return list(current)
    places, length = list(current), len(current)
    for change in (each for each in changes if each.get(_PATCH) == "delete"):
        wanted = _identity(change, key)
        kept = [each for each in places[:length] if each.get(key) != wanted]
        if len(kept) < length:
            places[: length - 1] = [*kept, *places[len(kept) + 1 : length]]
            length = len(kept)
    if not any(each.get(_PATCH) == "replace" for each in changes):
        had = [each.get(key) for each in places[:length]]
        fresh = [e for e in changes if _PATCH not in e and _identity(e, key) not in had]
        places[length : length + len(fresh)] = fresh
    return places[: len(current)]


def _check_order(changes: Any, order: Any, key: str) -> None:
    if not isinstance(changes, list) or not isinstance(order, list):
        raise _bad_format(f"{_ORDER.rstrip('/')} and its list must be lists")
    left = [e for e in changes if not (isinstance(e, dict) and e.get(_PATCH) == "delete")]
    if not order or not left:
        return
    for wanted in (_identity(each, key) for each in order):
        while left and isinstance(left[0], dict) and _PATCH in left[0]:
            del left[0]
        if left and _identity(left[0], key) == wanted:
            del left[0]
    if left:  # an element that the order lacks or has too early; a directive at the very end, too
        told = f"The order in patch list:\n{_as_go(changes)}\n doesn't match"
        raise _impossible(f"{told} {_ORDER.rstrip('/')} list:\n{_as_go(order)}\n")


def _merged_list(current: list[Any], changes: list[Any], field: Field) -> list[Any]:
    if not current and not changes:
        return current
    key = field.key or ""
    elements = [*current, *changes]
    if any(isinstance(e, dict) != bool(key) or isinstance(e, list) for e in elements):
        raise _bad_format("lists must hold objects with a merge key, or plain values")
    if not key:
        merged = list(dict.fromkeys([*current, *changes]))
        return _ordered(merged, changes, current, key)
    return _merged_objects(current, changes, key, TYPES[field.type])


def _merged_objects(current: list[Any], changes: list[Any], key: str, fields: Fields) -> list[Any]:
    kept, plain, replace = list(current), [], False
    for change in changes:
        directive = change.get(_PATCH)
        if directive is None:
            plain.append(change)
        elif directive == "replace":
            replace = True
        elif directive == "delete":
            wanted = _identity(change, key)
            kept = [each for each in kept if each.get(key) != wanted]
        else:
            raise _impossible("merging lists cannot yet be specified in the patch")
    if replace:
        return [_without_directives(each) for each in plain]
    merged = list(kept)
    for change in plain:
        _merge_object(merged, change, key, fields)
    return _ordered(merged, plain, kept, key)


def _merge_object(merged: list[Any], change: dict[str, Any], key: str, fields: Fields) -> None:
    wanted = _identity(change, key)
    for index, each in enumerate(merged):
        if each.get(key) == wanted:
            merged[index] = merged_strategically(dict(each), change, fields)
            return
    merged.append(_without_directives(change))


def _ordered(
    merged: list[Any], order: Sequence[Any], server_order: Sequence[Any], key: str
) -> list[Any]:
    """What `order` names in its order; the others where the server had them, as far as that fits."""
    wanted = [_identity(each, key) for each in order]
    had = [_identity(each, key) for each in server_order]
    named = [each for each in merged if _identity(each, key) in wanted]
    named.sort(key=lambda each: wanted.index(_identity(each, key)))
    others = [each for each in merged if _identity(each, key) not in wanted]
    result: list[Any] = []
    while named and others:
        left, right = _identity(others[0], key), _identity(named[0], key)
        first = left in had and right in had and had.index(left) < had.index(right)
        result.append(others.pop(0) if first else named.pop(0))
    return [*result, *named, *others]


def _identity(element: Any, key: str) -> Any:
    if not key:
        return element
    if not isinstance(element, dict) or key not in element:
        raise _impossible(f"map: {_as_go(element)} does not contain declared merge key: {key}")
    return element[key]


def _without_directives(value: Any) -> Any:
    """A part that is new: there is nothing to delete or to order, and null is nothing."""
    if isinstance(value, list):
        return [_without_directives(e) for e in value if not (isinstance(e, dict) and _PATCH in e)]
    if not isinstance(value, dict):
        return value
    if value.get(_PATCH) == "delete":
        return {}
    return {
        key: _without_directives(each)
        for key, each in value.items()
        if each is not None and not key.startswith((_PATCH, _RETAIN_KEYS, _DELETE_FROM, _ORDER))
    }


def _as_go(value: Any) -> str:
    if isinstance(value, dict):
        return f"map[{' '.join(f'{k}:{_as_go(v)}' for k, v in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_as_go, value))}]"
    return "<nil>" if value is None else str(value)


def _impossible(why: str) -> Refusal:
    """The real server answers 500 without a reason."""
    return Refusal(500, "", why)


def _decoded(value: Any) -> Any:
    """An atomic part: directives in it are only fields that no type knows, so they are dropped."""
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    named = (_PATCH, _RETAIN_KEYS, _DELETE_FROM, _ORDER)
    return {k: _decoded(v) for k, v in value.items() if not k.startswith(named)}


def _bad_format(why: str) -> Refusal:
    cause = Cause(CauseReason.INVALID, why, "patch")
    message = f' "" is invalid: patch: Invalid value: {why}'
    return Refusal(422, "Invalid", message, {"causes": [cause.as_json()]})
