"""Label and field selectors: read, refused in the API server's words, and matched. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.kubernetes_rules.names import label_value_problems, qualified_name_problems
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import Refusal, bad_request

_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|<|>|[^\s=!,()<>]+)")
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_OPERATORS = frozenset({"in", "notin", "=", "==", "!=", ">", "<"})
_EXPECTED = "in, notin, =, ==, !=, gt, lt"
_BOTH_NEGATIVE = {"NotIn", "DoesNotExist"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """`operator`: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.key not in labels:
            return self.operator in _BOTH_NEGATIVE
        value = labels[self.key]
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return True
            case "Gt" | "Lt":
                return self._compares(value)
        return False

    def _compares(self, value: str) -> bool:
        if len(self.values) != 1 or not all(map(_INTEGER.fullmatch, (value, self.values[0]))):
            return False
        left, right = int(value), int(self.values[0])
        return left > right if self.operator == "Gt" else left < right


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; without any it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        return all(each.matches(labels or {}) for each in self.requirements)


NOTHING = LabelSelector((Requirement("", "In"),))
"""Matches no object: what a missing structured selector means where an empty one means all."""


def parse_labels(text: str | None) -> LabelSelector:
    """A selector as in a query, `a=b,c in (d,e),!f`.

    Raises:
        Refusal: 400 in the real server's words.
    """
    return LabelSelector(tuple(_Parser(_tokens(text or "")).requirements()))


def structured(selector: Mapping[str, Any] | None) -> LabelSelector:
    """A `matchLabels` / `matchExpressions` object; None matches nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    equal = [Requirement(k, "In", (v,)) for k, v in (selector.get("matchLabels") or {}).items()]
    expressions = [
        Requirement(each["key"], each["operator"], tuple(each.get("values") or ()))
        for each in selector.get("matchExpressions") or ()
    ]
    return LabelSelector((*equal, *expressions))


def _tokens(text: str) -> list[str]:
    return [found.group(1) for found in _TOKEN.finditer(text)]


class _Parser:
    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = [*tokens, ""]
        self._at = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self._look() and self._look() not in ",()=<>":
            found.append(self._parsed())
            end = self._take()
            if not end:
                return found
            if end != ",":
                raise bad_request(f"found '{end}', expected: ',' or 'end of string'")
            if self._look() in {"", ","}:
                raise bad_request(f"found '{self._look()}', expected: identifier after ','")
        if self._look():
            raise bad_request(
                f"found '{self._look()}', expected: !, identifier, or 'end of string'"
            )
        return found

    def _parsed(self) -> Requirement:
        try:
            return self._requirement()
        except ValueError as error:
            raise bad_request(f"unable to parse requirement: {error}") from error

    def _look(self) -> str:
        return self._tokens[self._at]

    def _take(self) -> str:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _requirement(self) -> Requirement:
        absent = self._look() == "!"
        if absent:
            self._take()
        key = self._take()
        if not key or key in "=!=(),<>":
            raise ValueError(f"found '{key}', expected: identifier")
        _refuse(qualified_name_problems(key), key)
        if absent:
            return Requirement(key, "DoesNotExist")
        if self._look() in {"", ","}:
            return Requirement(key, "Exists")
        return self._compared(key)

    def _compared(self, key: str) -> Requirement:
        operator = self._take()
        if operator not in _OPERATORS:
            raise ValueError(f"found '{operator}', expected: {_EXPECTED}")
        if operator in {"in", "notin"}:
            values = self._set()
            return Requirement(key, "In" if operator == "in" else "NotIn", _checked(key, values))
        value = "" if self._look() in {"", ","} else self._take()
        values = _checked(key, (value,))
        if operator in {">", "<"}:
            return self._number(key, operator, values)
        return Requirement(key, "NotIn" if operator == "!=" else "In", values)

    def _number(self, key: str, operator: str, values: tuple[str, ...]) -> Requirement:
        if not _INTEGER.fullmatch(values[0]):
            raise ValueError(
                f"values[0]: Invalid value: \"{values[0]}\": for 'Gt', 'Lt' operators, the value must be an integer"
            )
        return Requirement(key, "Gt" if operator == ">" else "Lt", values)

    def _set(self) -> tuple[str, ...]:
        opening = self._take()
        if opening != "(":
            raise ValueError(f"found '{opening}' expected: '('")
        values: list[str] = []
        while True:
            values.append("" if self._look() in {")", ","} else self._take())
            end = self._take()
            if end == ")":
                return tuple(values)
            if end != ",":
                raise ValueError(f"found '{end}', expected: ',' or ')'")


def _checked(key: str, values: tuple[str, ...]) -> tuple[str, ...]:
    for index, value in enumerate(values):
        for problem in label_value_problems(value):
            raise ValueError(f'values[{index}][{key}]: Invalid value: "{value}": {problem}')
    return values


def _refuse(problems: Sequence[str], key: str) -> None:
    for problem in problems:
        raise ValueError(f'<nil>: Invalid value: "{key}": {problem}')


FieldReader = Callable[[Mapping[str, Any]], str]


def _path(*parts: str) -> FieldReader:
    def read(item: Mapping[str, Any]) -> str:
        value: Any = item
        for part in parts:
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            return str(value).lower()
        return "" if value is None else str(value)

    return read


def _flag(*parts: str) -> FieldReader:
    read = _path(*parts)
    return lambda item: read(item) or "false"


_META = {
    "metadata.name": _path("metadata", "name"),
    "metadata.namespace": _path("metadata", "namespace"),
}
_POD = ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName")
_POD_STATUS = ("status.phase", "status.podIP", "status.nominatedNodeName")
_EVENT = tuple(
    f"involvedObject.{part}"
    for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
)
_FIELDS: dict[tuple[str, str], dict[str, FieldReader]] = {
    ("", "Pod"): {
        **{path: _path(*path.split(".")) for path in (*_POD, *_POD_STATUS)},
        "spec.hostNetwork": _flag("spec", "hostNetwork"),
    },
    ("", "Node"): {"spec.unschedulable": _flag("spec", "unschedulable")},
    ("", "Namespace"): {
        "status.phase": _path("status", "phase"),
        "name": _path("metadata", "name"),
    },
    ("", "Secret"): {"type": _path("type")},
    ("", "Event"): {
        **{path: _path(*path.split(".")) for path in (*_EVENT, "reason", "type")},
        "reportingComponent": _path("reportingComponent"),
        "source": _path("source", "component"),
    },
    ("batch", "Job"): {"status.successful": lambda item: _path("status", "succeeded")(item) or "0"},
    ("events.k8s.io", "Event"): {
        "reason": _path("reason"),
        "type": _path("type"),
        "regarding.name": _path("regarding", "name"),
        "regarding.kind": _path("regarding", "kind"),
        "regarding.uid": _path("regarding", "uid"),
        "regarding.namespace": _path("regarding", "namespace"),
    },
}


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Each term: how to read the field, the value, and whether it must be equal."""

    terms: tuple[tuple[FieldReader, str, bool], ...] = ()

    def matches(self, item: Mapping[str, Any]) -> bool:
        return all((read(item) == value) == equal for read, value, equal in self.terms)


def parse_fields(text: str | None, kind: ResourceType) -> FieldSelector:
    """A selector as in a query, `metadata.name=n1,spec.nodeName!=`.

    Raises:
        Refusal: 400 for a field that this kind cannot be selected by.
    """
    known = {**_META, **_FIELDS.get((kind.group, kind.kind), {})}
    terms: list[tuple[FieldReader, str, bool]] = []
    for term in re.split(r"(?<!\\),", text or ""):
        if not term:
            continue
        found = re.fullmatch(r"([^=!]+)(==|!=|=)(.*)", term, re.DOTALL)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        name, operator, value = found.groups()
        if name not in known:
            raise _unknown_field(name, kind)
        terms.append((known[name], re.sub(r"\\([\\,=])", r"\1", value), operator != "!="))
    return FieldSelector(tuple(terms))


def _unknown_field(name: str, kind: ResourceType) -> Refusal:
    """Kinds with selectable fields of their own say it in other words than those without."""
    if kind.custom or (kind.group, kind.kind) in _FIELDS:
        return bad_request(f"field label not supported: {name}")
    known = ", ".join(f'"{each}"' for each in _META)
    return bad_request(f'"{name}" is not a known field selector: only {known}')
