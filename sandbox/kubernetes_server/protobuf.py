"""Reads the few Kubernetes messages that kubectl sends as protobuf only, for drain, auth and create namespace.

Everything else is refused with what to send instead. Field numbers are those of Kubernetes' published
generated.proto files. Nothing is ever answered in protobuf: clients that ask for it take JSON too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.kubernetes_rules.statuses import unsupported_media_type

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ACCEPTED = ("application/json",)


@dataclass(frozen=True, slots=True)
class _Message:
    """Fields by number: the name, and how to read it (a message, `str`, `int`; in a list: repeated)."""

    fields: Mapping[int, tuple[str, Any]] = field(default_factory=dict)


_PRECONDITIONS = _Message({1: ("uid", str), 2: ("resourceVersion", str)})
_DELETE_OPTIONS = _Message(
    {
        1: ("gracePeriodSeconds", int),
        2: ("preconditions", _PRECONDITIONS),
        4: ("propagationPolicy", str),
        5: ("dryRun", [str]),
    }
)
_METADATA = _Message({1: ("name", str), 2: ("generateName", str), 3: ("namespace", str)})
_RESOURCE_ATTRIBUTES = _Message(
    {
        1: ("namespace", str),
        2: ("verb", str),
        3: ("group", str),
        4: ("version", str),
        5: ("resource", str),
        6: ("subresource", str),
        7: ("name", str),
    }
)
_OTHER_ATTRIBUTES = _Message({1: ("path", str), 2: ("verb", str)})
_ACCESS_SPEC = _Message(
    {
        1: ("resourceAttributes", _RESOURCE_ATTRIBUTES),
        2: ("nonResourceAttributes", _OTHER_ATTRIBUTES),
    }
)
_KINDS: Mapping[str, _Message] = {
    "Eviction": _Message({1: ("metadata", _METADATA), 2: ("deleteOptions", _DELETE_OPTIONS)}),
    "DeleteOptions": _DELETE_OPTIONS,
    "Namespace": _Message({1: ("metadata", _METADATA)}),
    "SelfSubjectReview": _Message({1: ("metadata", _METADATA)}),
    "SelfSubjectAccessReview": _Message({1: ("metadata", _METADATA), 2: ("spec", _ACCESS_SPEC)}),
}
_TYPE_META = _Message({1: ("apiVersion", str), 2: ("kind", str)})
_ENVELOPE = _Message({1: ("type", _TYPE_META), 2: ("raw", bytes)})


def decoded(data: bytes) -> dict[str, Any]:
    """The object as JSON would have it.

    Raises:
        Refusal: It is none, or of a kind that is only read from JSON here (415).
    """
    try:
        if not data.startswith(_MAGIC):
            raise ValueError("not in Kubernetes' envelope")
        envelope = _read(data[len(_MAGIC) :], _ENVELOPE)
        head = envelope["type"]
        body = _read(envelope.get("raw", b""), _KINDS[head["kind"]])
    except (ValueError, KeyError, IndexError) as error:
        raise unsupported_media_type(_ACCEPTED) from error
    return {**head, **body}


def _read(data: bytes, message: _Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _pairs(data):
        if number not in message.fields:
            continue
        name, kind = message.fields[number]
        if isinstance(kind, list):
            found.setdefault(name, []).append(_value(value, kind[0]))
        else:
            found[name] = _value(value, kind)
    return found


def _value(value: int | bytes, kind: Any) -> Any:
    if isinstance(value, int):
        if kind is not int:
            raise ValueError("a number where there should be none")
        return value
    if isinstance(kind, _Message):
        return _read(value, kind)
    return value if kind is bytes else value.decode()


def _pairs(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            number, at = _varint(data, at)
            yield tag >> 3, number
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if kind == _BYTES:
            size, at = _varint(data, at)
        if size is None or at + size > len(data):
            raise ValueError("a field that cannot be read")
        if kind == _BYTES:
            yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004  (the last byte has no top bit)
            return value, at
