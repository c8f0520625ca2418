"""How Kubernetes names things: objects, labels, annotations, finalizers; each problem in its words. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from sandbox.kubernetes_rules.statuses import Cause, CauseReason

_NAME_PART = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_NAME_PART})?"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_MAXIMUM_LABEL = 63
_MAXIMUM_SUBDOMAIN = 253
_MAXIMUM_ANNOTATIONS = 256 * 1024

_NAME_PART_EXPECTED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    f" character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PART}')"
)
_SUBDOMAIN_EXPECTED = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_DNS_SUBDOMAIN}')"
)
_LABEL_EXPECTED = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    f" an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_DNS_LABEL}')"
)
_DNS_1035_EXPECTED = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and"
    " end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    f" '{_DNS_1035}')"
)
_VALUE_EXPECTED = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '{_LABEL_VALUE}')"
)
_MUST_BE_LABELS = frozenset({"Namespace"})
_MUST_BE_1035 = frozenset({"Service"})
_FREE_NAMES = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})
_SUFFIX = 5
_KEPT_OF_GENERATE_NAME = _MAXIMUM_LABEL - _SUFFIX


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text, re.ASCII) is not None


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def subdomain_problems(text: str) -> list[str]:
    if len(text) > _MAXIMUM_SUBDOMAIN:
        return [f"must be no more than {_MAXIMUM_SUBDOMAIN} characters"]
    return [] if _matches(_DNS_SUBDOMAIN, text) else [_SUBDOMAIN_EXPECTED]


def label_problems(text: str) -> list[str]:
    """Of a DNS label: container names, namespaces."""
    problems = [_too_long(_MAXIMUM_LABEL)] if len(text) > _MAXIMUM_LABEL else []
    return problems if _matches(_DNS_LABEL, text) else [*problems, _LABEL_EXPECTED]


def label_value_problems(text: str) -> list[str]:
    problems = [_too_long(_MAXIMUM_LABEL)] if len(text.encode()) > _MAXIMUM_LABEL else []
    return problems if _matches(_LABEL_VALUE, text) else [*problems, _VALUE_EXPECTED]


def qualified_name_problems(text: str) -> list[str]:
    """Of a key with an optional DNS prefix: `example.com/name`."""
    problems: list[str] = []
    prefix, slash, name = text.rpartition("/")
    if prefix.count("/"):
        return [
            "a valid label key "
            + _NAME_PART_EXPECTED.removeprefix("name part ")
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {each}" for each in subdomain_problems(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > _MAXIMUM_LABEL:
        problems.append(f"name part {_too_long(_MAXIMUM_LABEL)}")
    return problems if _matches(_NAME_PART, name) else [*problems, _NAME_PART_EXPECTED]


def name_problems(kind: str, name: str) -> list[str]:
    """Of an object's own name, by what its kind demands."""
    if kind in _FREE_NAMES:
        bad = [each for each in ("/", "%") if each in name]
        return [f"may not contain '{each}'" for each in bad]
    if kind in _MUST_BE_LABELS:
        return ["must not contain dots"] if "." in name else label_problems(name)
    if kind in _MUST_BE_1035:
        return [] if _matches(_DNS_1035, name) else [_DNS_1035_EXPECTED]
    return subdomain_problems(name)


def generated_name(prefix: str, suffix: str) -> str:
    """`prefix` shortened so that with the five characters of `suffix` it stays a label."""
    return prefix[:_KEPT_OF_GENERATE_NAME] + suffix


def quoted(value: object) -> str:
    """As Go's %q writes a text in the messages."""
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def invalid_value(field: str, value: object, problem: str) -> Cause:
    told = quoted(value) if isinstance(value, str) else str(value)
    return Cause(CauseReason.INVALID, f"Invalid value: {told}: {problem}", field)


def label_causes(labels: Mapping[str, Any], field: str) -> list[Cause]:
    """Of a map of labels; Kubernetes names the map and the offending key or value."""
    causes: list[Cause] = []
    for key, value in labels.items():
        causes += [invalid_value(field, key, each) for each in qualified_name_problems(key)]
        causes += [invalid_value(field, value, each) for each in label_value_problems(str(value))]
    return causes


def annotation_causes(annotations: Mapping[str, Any], field: str) -> list[Cause]:
    """Keys are qualified names once put in lower case; all together have a limit."""
    causes = [
        invalid_value(field, key, each)
        for key in annotations
        for each in qualified_name_problems(key.lower())
    ]
    size = sum(len(k.encode()) + len(str(v).encode()) for k, v in annotations.items())
    if size > _MAXIMUM_ANNOTATIONS:
        message = f"Too long: may not be more than {_MAXIMUM_ANNOTATIONS} bytes"
        causes.append(Cause(CauseReason.TOO_LONG, message, field))
    return causes
