"""JSON patch, RFC 6902, over plain JSON values. Pure."""

from copy import deepcopy
from typing import Any

from sandbox.kubernetes_rules.statuses import Refusal, bad_request, unprocessable

_MAXIMUM_OPERATIONS = 10_000


class InvalidPatch(Refusal):
    """422: an operation that cannot be applied. The real server's answer does not say which; `why` does."""

    def __init__(self, why: str) -> None:
        answer = unprocessable()
        super().__init__(answer.code, answer.reason, answer.status["message"], {})
        self.why = why


def apply_operations(document: dict[str, Any], operations: object) -> dict[str, Any]:
    """The document after all operations, or none of them.

    Raises:
        InvalidPatch: An operation cannot be applied, or a `test` fails.
        Refusal: 400 when it is not a list of objects.
    """
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > _MAXIMUM_OPERATIONS:
        raise Refusal(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {_MAXIMUM_OPERATIONS}, got {len(operations)}",
        )
    result: Any = deepcopy(document)
    for operation in operations:
        result = _apply(result, operation)
    if not isinstance(result, dict):
        raise InvalidPatch("the result is not an object")
    return result


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    verb, path = operation.get("op"), _pointer(operation.get("path"))
    match verb:
        case "add":
            return _put(document, path, _value(operation))
        case "remove":
            return _removed(document, path)
        case "replace":  # a key that is missing is added: the real server is that lenient
            return _put(document, path, _value(operation), replace=True)
        case "test":
            return _tested(document, path, operation.get("value"))
        case "copy" | "move":
            return _carried(document, path, operation)
    raise InvalidPatch(f"unexpected kind: {verb}")


def _carried(document: Any, path: list[str], operation: dict[str, Any]) -> Any:
    source = _pointer(operation.get("from"))
    value = deepcopy(_look_up(document, source))
    if operation["op"] == "move":
        if path[: len(source)] == source and path != source:
            raise InvalidPatch("a value cannot be moved into itself")
        document = _removed(document, source)
    return _put(document, path, value)


def _tested(document: Any, path: list[str], expected: Any) -> Any:
    parent = _look_up(document, path[:-1])
    missing = bool(path) and isinstance(parent, dict) and path[-1] not in parent
    found = None if missing else _look_up(document, path)  # a missing key is null to a test
    if not _same(found, expected):
        raise InvalidPatch(f"testing value /{'/'.join(path)} failed")
    return document


def _same(left: Any, right: Any) -> bool:
    """JSON equality: unlike Python's, true is not 1."""
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def _pointer(text: object) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise InvalidPatch(f"not a JSON pointer: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _value(operation: dict[str, Any]) -> Any:
    return deepcopy(operation.get("value"))


def _index(part: str, length: int) -> int:
    negative = part.startswith("-") and part[1:].isdecimal()
    if not (part.isdecimal() or negative):
        raise InvalidPatch(f"not an index: {part!r}")
    index = int(part) + (length if negative else 0)
    if not 0 <= index < length:
        raise InvalidPatch(f"index out of range: {part}")
    return index


def _child(container: Any, part: str) -> Any:
    if isinstance(container, dict) and part in container:
        return container[part]
    if isinstance(container, list):
        return container[_index(part, len(container))]
    raise InvalidPatch(f"nothing at {part!r}")


def _look_up(document: Any, path: list[str]) -> Any:
    for part in path:
        document = _child(document, part)
    return document


def _put(document: Any, path: list[str], value: Any, *, replace: bool = False) -> Any:
    if not path:
        return value
    container, last = _look_up(document, path[:-1]), path[-1]
    if isinstance(container, dict):
        container[last] = value
    elif not isinstance(container, list):
        raise InvalidPatch(f"nothing can be put at {last!r}")
    elif replace:
        container[_index(last, len(container))] = value
    elif last == "-":
        container.append(value)
    else:
        container.insert(_index(last, len(container) + 1), value)
    return document


def _removed(document: Any, path: list[str]) -> Any:
    if not path:
        return None
    container, last = _look_up(document, path[:-1]), path[-1]
    _child(container, last)
    if isinstance(container, dict):
        del container[last]
    else:
        del container[_index(last, len(container))]
    return document
