"""JSON Patch (RFC 6902) as plain data: making operations, and applying those that we make.

Operations are dicts, ready for JSON. Nothing here changes what it is given.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Operation = dict[str, Any]
_END = "-"


def escaped(key: str) -> str:
    """A key as one step of a JSON pointer: `a/b` is `a~1b`."""
    return key.replace("~", "~0").replace("/", "~1")


def added(path: str, value: Any) -> Operation:
    """Sets a key, or inserts into a list; the parent must be there."""
    return {"op": "add", "path": path, "value": value}


def replaced(path: str, value: Any) -> Operation:
    """Sets what is there to another value."""
    return {"op": "replace", "path": path, "value": value}


def removed(path: str) -> Operation:
    """Takes away what must be there."""
    return {"op": "remove", "path": path}


def apply_patch(document: Mapping[str, Any], patch: Iterable[Operation]) -> dict[str, Any]:
    """The document after `add`, `replace` and `remove` operations; the input stays as it is.

    Raises:
        ValueError: An operation does not fit the document, so an API server would refuse it.
    """
    changed: dict[str, Any] = dict(document)
    for operation in patch:
        steps = [
            step.replace("~1", "/").replace("~0", "~")
            for step in str(operation["path"]).split("/")[1:]
        ]
        try:
            changed = _changed(changed, steps, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(
                f"patch operation {operation['op']} {operation['path']} does not fit the document"
            ) from error
    return changed


def _changed(node: Any, steps: list[str], operation: Operation) -> Any:
    """A copy of the node, and of what lies on the way, with the operation done."""
    step, rest = steps[0], steps[1:]
    if isinstance(node, list):
        return _changed_list(list(node), step, rest, operation)
    if not isinstance(node, dict):
        raise TypeError("neither a mapping nor a list")
    copy = dict(node)
    if rest:
        copy[step] = _changed(copy[step], rest, operation)
    elif operation["op"] == "add":
        copy[step] = operation["value"]
    elif operation["op"] == "replace":
        del copy[step]
        copy[step] = operation["value"]
    else:
        del copy[step]
    return copy


def _changed_list(copy: list[Any], step: str, rest: list[str], operation: Operation) -> list[Any]:
    if step == _END and not rest and operation["op"] == "add":
        return [*copy, operation["value"]]
    index = int(step)
    if not 0 <= index < len(copy) + (operation["op"] == "add" and not rest):
        raise IndexError(step)
    if rest:
        copy[index] = _changed(copy[index], rest, operation)
    elif operation["op"] == "add":
        copy.insert(index, operation["value"])
    elif operation["op"] == "replace":
        copy[index] = operation["value"]
    else:
        del copy[index]
    return copy
