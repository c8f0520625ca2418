"""The small checks that validations share, each giving its causes in the API server's words. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.kubernetes_rules.names import invalid_value, quoted
from sandbox.kubernetes_rules.statuses import Cause, CauseReason


def required(field: str, why: str = "") -> Cause:
    message = f"Required value: {why}" if why else "Required value"
    return Cause(CauseReason.REQUIRED, message, field)


def forbidden(field: str, why: str) -> Cause:
    return Cause(CauseReason.FORBIDDEN, f"Forbidden: {why}", field)


def one_of(value: Any, allowed: Sequence[str], field: str) -> list[Cause]:
    """Nothing to say of a value that is absent."""
    if value is None or value == "" or value in allowed:
        return []
    told = ", ".join(map(quoted, allowed))
    message = f"Unsupported value: {quoted(value)}: supported values: {told}"
    return [Cause(CauseReason.NOT_SUPPORTED, message, field)]


def at_least(value: Any, lowest: int, field: str) -> list[Cause]:
    if value is None or value >= lowest:
        return []
    return [invalid_value(field, value, f"must be greater than or equal to {lowest}")]


def unchanged(
    current: Mapping[str, Any], new: Mapping[str, Any], parts: Sequence[str], path: str
) -> list[Cause]:
    """Fields of a map that may not change once set."""
    return [
        invalid_value(f"{path}.{part}", as_json_text(new.get(part)), "field is immutable")
        for part in parts
        if current.get(part) != new.get(part)
    ]


def as_json_text(value: Any) -> Any:
    """Objects are left out of messages: Go's rendering of them carries nothing for a reader."""
    return "{...}" if isinstance(value, (dict, list)) else value
