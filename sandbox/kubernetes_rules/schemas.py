"""CustomResourceDefinitions: which kinds they make, what is wrong with one, and what its schema does to objects. Pure.

CEL (`x-kubernetes-validations`) and `oneOf`/`anyOf`/`allOf`/`not` are not carried out here: a definition that holds
them is refused at its creation, rather than let objects through that the real server would refuse. Conversion between
versions is by name only: all served versions share what is stored.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from sandbox.kubernetes_rules.deletion import rfc3339
from sandbox.kubernetes_rules.field_checks import forbidden, one_of, required
from sandbox.kubernetes_rules.names import invalid_value
from sandbox.kubernetes_rules.resources import Column, ResourceType
from sandbox.kubernetes_rules.schema_values import (
    INT_OR_STRING,
    PRESERVE,
    defaulted,
    pruned,
    schema_causes,
)
from sandbox.kubernetes_rules.statuses import Cause, CauseReason

Schema = Mapping[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_NOT_CARRIED_OUT = ("x-kubernetes-validations", "oneOf", "anyOf", "allOf", "not")
_SCOPES = ("Cluster", "Namespaced")
_ROOT = "spec.validation.openAPIV3Schema"
_OBJECT: Schema = {"type": "object"}


def kinds_of(definition: Mapping[str, Any]) -> tuple[ResourceType, ...]:
    """One for each served version; the storage version comes first."""
    spec = definition["spec"]
    names = spec["names"]
    served = [each for each in spec["versions"] if each.get("served")]
    served.sort(key=lambda each: not each.get("storage"))
    return tuple(
        ResourceType(
            group=spec["group"],
            version=each["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            short_names=tuple(names.get("shortNames") or ()),
            namespaced=spec.get("scope") != "Cluster",
            subresources=frozenset(each.get("subresources") or {}) & {"status", "scale"},
            categories=tuple(names.get("categories") or ()),
            columns=tuple(_columns(each)),
            custom=True,
            list_kind=names.get("listKind") or f"{names['kind']}List",
        )
        for each in served
    )


def _columns(version: Mapping[str, Any]) -> Iterator[Column]:
    for each in version.get("additionalPrinterColumns") or ():
        yield Column(each["name"], each["type"], each["jsonPath"], int(each.get("priority") or 0))


def schema_of(definition: Mapping[str, Any], version: str) -> Schema:
    for each in definition["spec"]["versions"]:
        if each["name"] == version:
            schema: Schema = (each.get("schema") or {}).get("openAPIV3Schema") or _OBJECT
            return schema
    return _OBJECT


def completed(obj: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The object without fields that its schema does not know, then with the schema's defaults."""
    known = {"apiVersion", "kind", "metadata"}
    body = {key: value for key, value in obj.items() if key not in known}
    head = {key: value for key, value in obj.items() if key in known}
    return {**head, **defaulted(pruned(body, schema), schema)}


def check_object(obj: Mapping[str, Any], schema: Schema) -> list[Cause]:
    """All that the schema has against a completed object."""
    body = {k: v for k, v in obj.items() if k not in {"apiVersion", "kind", "metadata"}}
    without = [
        k for k in schema.get("required") or () if k not in {"apiVersion", "kind", "metadata"}
    ]
    return schema_causes(body, {**schema, "required": without}, "")


def with_definition_defaults(definition: Mapping[str, Any]) -> dict[str, Any]:
    """A definition with the names that it may leave out."""
    spec = dict(definition.get("spec") or {})
    names = dict(spec.get("names") or {})
    kind = str(names.get("kind") or "")
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})
    return {**definition, "spec": {**spec, "names": names}}


def established(definition: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The status that the real controllers give a definition whose names nobody else has."""
    spec = definition["spec"]
    before = definition.get("status") or {}
    stored = [each["name"] for each in spec["versions"] if each.get("storage")]
    earlier = [each for each in before.get("storedVersions") or () if each not in stored]
    conditions = before.get("conditions") or [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition(
            "Established", "InitialNamesAccepted", "the initial names have been accepted", now
        ),
    ]
    status = {
        "conditions": conditions,
        "acceptedNames": dict(spec["names"]),
        "storedVersions": [*earlier, *stored],
    }
    return {**definition, "status": status}


def _condition(name: str, reason: str, message: str, now: datetime) -> dict[str, str]:
    return {
        "type": name,
        "status": "True",
        "lastTransitionTime": rfc3339(now),
        "reason": reason,
        "message": message,
    }


def definition_causes(definition: Mapping[str, Any]) -> list[Cause]:
    """All that is wrong with a definition, what this server cannot carry out included."""
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    causes = [
        required(f"spec.{part}")
        for part, value in (
            ("group", spec.get("group")),
            ("names.plural", names.get("plural")),
            ("names.kind", names.get("kind")),
        )
        if not value
    ]
    name = str((definition.get("metadata") or {}).get("name") or "")
    if not causes and name != f"{names['plural']}.{spec['group']}":
        problem = 'must be spec.names.plural+"."+spec.group'
        causes.append(invalid_value("metadata.name", name, problem))
    scope = spec.get("scope")
    causes += one_of(scope, _SCOPES, "spec.scope") if scope else [required("spec.scope")]
    return causes + _version_causes(spec.get("versions") or [])


def _version_causes(versions: list[Mapping[str, Any]]) -> list[Cause]:
    stored = sum(1 for each in versions if each.get("storage"))
    causes: list[Cause] = []
    if stored != 1:
        problem = "must have exactly one version marked as storage version"
        causes.append(Cause(CauseReason.INVALID, f"Invalid value: {problem}", "spec.versions"))
    for index, each in enumerate(versions):
        schema = (each.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            field = f"spec.versions[{index}].schema.openAPIV3Schema"
            causes.append(required(field, "schemas are required"))
            continue
        root = _ROOT if len(versions) == 1 else f"spec.versions[{index}].schema.openAPIV3Schema"
        causes += _structure_causes(schema, root, root=True)
    return causes


def _structure_causes(schema: Schema, path: str, *, root: bool = False) -> list[Cause]:
    causes = [_not_carried_out(path, word) for word in _NOT_CARRIED_OUT if _holds(schema, word)]
    causes += _pattern_causes(schema.get("pattern"), f"{path}.pattern")
    for name, child in (schema.get("properties") or {}).items():
        causes += _structure_causes(child, f"{path}.properties[{name}]")
    items, more = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, Mapping):
        causes += _structure_causes(items, f"{path}.items")
    if isinstance(more, Mapping):
        causes += _structure_causes(more, f"{path}.additionalProperties")
    kind, field = schema.get("type"), f"{path}.type"
    if kind:
        return causes + one_of(kind, _TYPES, field)
    if not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        where = "at the root" if root else "for specified object fields"
        causes.append(required(field, f"must not be empty {where}"))
    return causes


def _pattern_causes(pattern: Any, field: str) -> list[Cause]:
    try:
        re.compile(pattern or "")
    except re.error as error:
        problem = f"must be a valid regular expression, but isn't: {error}"
        return [invalid_value(field, str(pattern), problem)]
    return []


def _holds(schema: Schema, word: str) -> bool:
    """`anyOf` beside int-or-string only repeats it, as generators of definitions write it."""
    return bool(schema.get(word)) and not (word == "anyOf" and bool(schema.get(INT_OR_STRING)))


def _not_carried_out(path: str, word: str) -> Cause:
    why = f"the sandbox Kubernetes does not carry out {word}; leave it out here, or test on a real API server"
    return forbidden(f"{path}.{word}", why)
