"""A structural OpenAPI schema at work on a value: unknown fields pruned, defaults put in, mistakes found. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from decimal import Decimal
from typing import Any

from sandbox.kubernetes_rules.field_checks import required
from sandbox.kubernetes_rules.names import invalid_value, quoted
from sandbox.kubernetes_rules.statuses import Cause, CauseReason

Schema = Mapping[str, Any]

INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def pruned(value: Any, schema: Schema) -> Any:
    """Without fields that the schema does not know."""
    if isinstance(value, list):
        items = schema.get("items") or {PRESERVE: True}
        return [pruned(each, items) for each in value]
    if not isinstance(value, Mapping):
        return value
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    kept: dict[str, Any] = {}
    for name, each in value.items():
        if name in properties:
            kept[name] = pruned(each, properties[name])
        elif isinstance(more, Mapping):
            kept[name] = pruned(each, more)
        elif more is True or schema.get(PRESERVE) or _is_embedded_head(schema, name):
            kept[name] = deepcopy(each)
    return kept


def _is_embedded_head(schema: Schema, name: str) -> bool:
    return bool(schema.get(_EMBEDDED)) and name in {"apiVersion", "kind", "metadata"}


def defaulted(value: Any, schema: Schema) -> Any:
    """With the schema's defaults wherever a field is absent, or null without being nullable."""
    if isinstance(value, list):
        items = schema.get("items")
        return [defaulted(each, items) for each in value] if isinstance(items, Mapping) else value
    if not isinstance(value, Mapping):
        return value
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    filled = dict(value)
    for name, child in properties.items():
        null = name in filled and filled[name] is None and not child.get("nullable")
        if "default" in child and (null or name not in filled):
            filled[name] = deepcopy(child["default"])
        elif null and "default" not in child:
            del filled[name]  # the real server drops a null where it may not be
    for name, each in filled.items():
        child = properties.get(name) or (more if isinstance(more, Mapping) else None)
        filled[name] = defaulted(each, child) if child else each
    return filled


def schema_causes(value: Any, schema: Schema, path: str) -> list[Cause]:
    """All that the schema has against the value, in the API server's words."""
    if value is None and schema.get("nullable"):
        return []
    wrong_type = _type_cause(value, schema, path)
    if wrong_type:
        return [wrong_type]
    causes: list[Cause] = []
    if isinstance(value, str):
        causes += _text_causes(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        causes += _number_causes(value, schema, path)
    elif isinstance(value, list):
        causes += _list_causes(value, schema, path)
    elif isinstance(value, Mapping):
        causes += _object_causes(value, schema, path)
    allowed = schema.get("enum")
    if allowed is not None and value not in allowed:
        told = ", ".join(_shown(each) for each in allowed)
        message = f"Unsupported value: {_shown(value)}: supported values: {told}"
        causes.append(Cause(CauseReason.NOT_SUPPORTED, message, path))
    return causes


def _shown(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),  # before int, which it is to Python
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


def _type_of(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), "null")


def _type_cause(value: Any, schema: Schema, path: str) -> Cause | None:
    found = _type_of(value)
    wanted = "integer,string" if schema.get(INT_OR_STRING) else schema.get("type")
    if not wanted or found in wanted.split(","):
        return None
    if wanted == "number" and found == "integer":
        return None
    message = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    reason = CauseReason.TYPE_INVALID
    return Cause(reason, message, path)


def _text_causes(text: str, schema: Schema, path: str) -> list[Cause]:
    causes: list[Cause] = []
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    if longest is not None and len(text) > longest:
        unit = "byte" if longest == 1 else "bytes"
        message = f"Too long: may not be more than {longest} {unit}"
        causes.append(Cause(CauseReason.TOO_LONG, message, path))
    if shortest is not None and len(text) < shortest:
        problem = f"{path} in body should be at least {shortest} chars long"
        causes.append(invalid_value(path, text, problem))
    pattern = schema.get("pattern")
    if pattern and not re.search(pattern, text):
        causes.append(invalid_value(path, text, f"{path} in body should match '{pattern}'"))
    if schema.get("format") == "date-time" and not _is_time(text):
        problem = f'{path} in body must be of type date-time: "{text}"'
        told = f"Invalid value: {quoted(text)}: {problem}"
        causes.append(Cause(CauseReason.TYPE_INVALID, told, path))
    return causes


def _is_time(text: str) -> bool:
    if not _RFC3339.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:
        return False
    return True


def _number_causes(number: float, schema: Schema, path: str) -> list[Cause]:
    problems: list[str] = []
    step, least, most = (schema.get(part) for part in ("multipleOf", "minimum", "maximum"))
    if step and Decimal(str(number)) % Decimal(str(step)) != 0:
        problems.append(f"should be a multiple of {step}")
    if most is not None:
        open_end = bool(schema.get("exclusiveMaximum"))
        if number > most or (open_end and number == most):
            problems.append(f"should be less than {'' if open_end else 'or equal to '}{most}")
    if least is not None:
        open_end = bool(schema.get("exclusiveMinimum"))
        if number < least or (open_end and number == least):
            problems.append(f"should be greater than {'' if open_end else 'or equal to '}{least}")
    return [invalid_value(path, number, f"{path} in body {each}") for each in problems]


def _list_causes(items: Sequence[Any], schema: Schema, path: str) -> list[Cause]:
    causes: list[Cause] = []
    child = schema.get("items") or {}
    for index, each in enumerate(items):
        causes += schema_causes(each, child, f"{path}[{index}]")
    most, least = schema.get("maxItems"), schema.get("minItems")
    if most is not None and len(items) > most:
        message = f"Too many: {len(items)}: must have at most {most} items"
        causes.append(Cause(CauseReason.TOO_MANY, message, path))
    if least is not None and len(items) < least:
        problem = f"{path} in body should have at least {least} items"
        causes.append(invalid_value(path, len(items), problem))
    return causes + _duplicate_causes(items, schema, path)


def _duplicate_causes(items: Sequence[Any], schema: Schema, path: str) -> list[Cause]:
    """Sets hold a value once, maps a key once."""
    kind = schema.get("x-kubernetes-list-type")
    if kind not in {"set", "map"}:
        return []
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, each in enumerate(items):
        if kind == "map" and not isinstance(each, Mapping):
            continue
        part = {k: each.get(k) for k in keys} if kind == "map" else each
        shown = _shown(part)
        if shown in seen:
            message = f"Duplicate value: {shown}"
            causes.append(Cause(CauseReason.DUPLICATE, message, f"{path}[{index}]"))
        seen.add(shown)
    return causes


def _object_causes(value: Mapping[str, Any], schema: Schema, path: str) -> list[Cause]:
    prefix = f"{path}." if path else ""
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    absent = [name for name in schema.get("required") or () if name not in value]
    causes = [required(f"{prefix}{name}") for name in absent]
    for name, each in value.items():
        child = properties.get(name) or (more if isinstance(more, Mapping) else None)
        if child:
            causes += schema_causes(each, child, f"{prefix}{name}")
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is not None and len(value) > most:
        message = f"Too many: {len(value)}: must have at most {most} items"
        causes.append(Cause(CauseReason.TOO_MANY, message, path))
    if least is not None and len(value) < least:
        problem = f"{path} in body should have at least {least} properties"
        causes.append(invalid_value(path, len(value), problem))
    return causes
