"""What the API server demands of every object's metadata, and what it never lets change. Pure."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sandbox.kubernetes_rules import names
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import Cause, CauseReason, bad_request

_TEXT_MAPS = ("labels", "annotations")
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp")
_BUILT_IN_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


@contextmanager
def read_as(kind: ResourceType) -> Iterator[None]:
    """A value of the wrong shape deep in an object is refused, as a decoder would, and not a mistake of ours.

    There is no table of every field's type here: whatever a rule cannot work with ends in this 400.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        ) from error


def check_shape(obj: Mapping[str, Any], kind: ResourceType) -> None:
    """What could not even be decoded.

    Raises:
        Refusal: 400, as the real server's decoder says it.
    """
    meta = obj.get("metadata") or {}
    if not isinstance(meta, Mapping):
        raise _undecodable(kind, meta, "metadata", "v1.ObjectMeta", kind.kind)
    for part in _TEXT_MAPS:
        _check_text_map(meta.get(part) or {}, part, kind)
    for part in ("spec", "status"):
        if kind.custom or obj.get(part) is None:
            continue
        if not isinstance(obj[part], Mapping):
            raise _undecodable(kind, obj[part], part, f"{kind.kind}{part.title()}", kind.kind)


def _check_text_map(values: object, part: str, kind: ResourceType) -> None:
    if not isinstance(values, Mapping):
        raise _undecodable(kind, values, f"metadata.{part}", "map[string]string")
    for value in values.values():
        if not isinstance(value, str) and value is not None:
            raise _undecodable(kind, value, f"metadata.{part}", "string")


def _undecodable(
    kind: ResourceType, value: object, field: str, wanted: str, struct: str = "ObjectMeta"
) -> Exception:
    found = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}
    name = found.get(type(value), "object")
    return bad_request(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: json: cannot unmarshal'
        f" {name} into Go struct field {struct}.{field} of type {wanted}"
    )


def create_causes(obj: Mapping[str, Any], kind: ResourceType) -> list[Cause]:
    """Of a new object, or of one that replaces another."""
    meta = obj["metadata"]
    causes = _name_causes(meta, kind)
    causes += names.label_causes(meta.get("labels") or {}, "metadata.labels")
    causes += names.annotation_causes(meta.get("annotations") or {}, "metadata.annotations")
    causes += _owner_causes(meta.get("ownerReferences") or [])
    for index, finalizer in enumerate(meta.get("finalizers") or []):
        causes += _finalizer_causes(finalizer, index, kind)
    return causes


def _name_causes(meta: Mapping[str, Any], kind: ResourceType) -> list[Cause]:
    name, prefix = str(meta.get("name") or ""), str(meta.get("generateName") or "")
    if not name:
        message = "Required value: name or generateName is required"
        return [Cause(CauseReason.REQUIRED, message, "metadata.name")]
    causes: list[Cause] = []
    if prefix:
        stem = prefix[:-1] + "a" if prefix.endswith("-") else prefix
        problems = names.name_problems(kind.kind, stem)
        causes += [names.invalid_value("metadata.generateName", prefix, each) for each in problems]
    problems = names.name_problems(kind.kind, name)
    return causes + [names.invalid_value("metadata.name", name, each) for each in problems]


def _owner_causes(owners: list[Mapping[str, Any]]) -> list[Cause]:
    causes: list[Cause] = []
    for owner in owners:
        for part in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(part):
                word = "version " if part == "apiVersion" else ""
                field = f"metadata.ownerReferences.{part}"
                causes.append(names.invalid_value(field, "", f"{word}must not be empty"))
    controllers = [each for each in owners if each.get("controller")]
    if len(controllers) > 1:
        told = "Only one reference can have Controller set to true. Found"
        pair = " and ".join(f'"{e.get("kind")}/{e.get("name")}"' for e in controllers[:2])
        causes.append(
            Cause(CauseReason.INVALID, f"Invalid value: {told} {pair}", "metadata.ownerReferences")
        )
    return causes


def _finalizer_causes(finalizer: str, index: int, kind: ResourceType) -> list[Cause]:
    field = "metadata.finalizers"
    problems = names.qualified_name_problems(finalizer)
    causes = [names.invalid_value(field, finalizer, each) for each in problems]
    standard = kind.custom or finalizer in _BUILT_IN_FINALIZERS
    if not causes and "/" not in finalizer and not standard:
        wrong = "name is neither a standard finalizer name nor is it fully qualified"
        causes.append(names.invalid_value(f"{field}[{index}]", finalizer, wrong))
    return causes


def update_causes(current: Mapping[str, Any], new: Mapping[str, Any]) -> list[Cause]:
    """What may never change, and finalizers that come too late."""
    was, now = current["metadata"], new["metadata"]
    causes = [
        names.invalid_value(f"metadata.{part}", now.get(part) or "", "field is immutable")
        for part in _IMMUTABLE
        if now.get(part) != was.get(part)
    ]
    if was.get("deletionTimestamp"):
        late = [e for e in now.get("finalizers") or [] if e not in (was.get("finalizers") or [])]
        if late:
            told = ", ".join(names.quoted(each) for each in late)
            message = (
                "Forbidden: no new finalizers can be added if the object is being deleted,"
                f" found new finalizers []string{{{told}}}"
            )
            causes.append(Cause(CauseReason.FORBIDDEN, message, "metadata.finalizers"))
    return causes
