"""One alert as Alertmanager tells about it, in webhooks and in GET /api/v2/alerts alike.

Pure. Reading it is on the path of every delivery, so the checks are plain code and no model library.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from chassis.errors import PermanentError

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_FNV_OFFSET, _FNV_PRIME, _FNV_MASK = 0xCBF29CE484222325, 0x100000001B3, 0xFFFFFFFFFFFFFFFF
_SEPARATOR = b"\xff"  # no byte of UTF-8 text, so names and values cannot run into each other
_ZERO_TIME = "0001-01-01T"  # how Go writes "no time"


class AlertStatus(StrEnum):
    """What Alertmanager says of an alert or a group."""

    FIRING = "firing"
    RESOLVED = "resolved"


_STATUSES = {status.value: status for status in AlertStatus}


class FieldError(PermanentError):
    """A field is not what Alertmanager sends; the message names it."""


@dataclass(frozen=True, slots=True, init=False)
class Alert:
    """An alert; times are UTC with microseconds (Alertmanager's nanoseconds are cut off).

    `ends_at` is None while Alertmanager knows no end. `fingerprint` is 16 hexadecimal digits and
    the same for the same labels, whichever Alertmanager sends them.
    """

    status: AlertStatus
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: datetime
    ends_at: datetime | None
    generator_url: str
    fingerprint: str

    def __init__(  # noqa: PLR0913, PLR0917 (the fields)
        self,
        status: AlertStatus,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        starts_at: datetime,
        ends_at: datetime | None,
        generator_url: str,
        fingerprint: str,
    ) -> None:
        # What dataclass writes for a frozen class looks each name up twice; groups hold thousands.
        _set_status(self, status)
        _set_labels(self, labels)
        _set_annotations(self, annotations)
        _set_starts_at(self, starts_at)
        _set_ends_at(self, ends_at)
        _set_generator_url(self, generator_url)
        _set_fingerprint(self, fingerprint)


(
    _set_status,
    _set_labels,
    _set_annotations,
    _set_starts_at,
    _set_ends_at,
    _set_generator_url,
    _set_fingerprint,
) = [vars(Alert)[each.name].__set__ for each in fields(Alert)]


def fingerprint(labels: Mapping[str, str]) -> str:
    """The fingerprint that Alertmanager gives to these labels: FNV-1a, 64 bit, in hexadecimal.

    As `LabelSet.Fingerprint` of Prometheus' common library: over name, 0xFF, value, 0xFF of each
    label, sorted by name.
    """
    data = b"".join(
        part.encode("utf-8", "surrogatepass") + _SEPARATOR
        for name in sorted(labels)
        for part in (name, labels[name])
    )
    total = _FNV_OFFSET
    for byte in data:
        total = (total ^ byte) * _FNV_PRIME & _FNV_MASK
    return f"{total:016x}"


def ordinary_alert(raw: Any, status: AlertStatus | None = None) -> Alert | None:
    """What `alert_from` returns, quicker, or None if anything about the JSON is not as usual."""
    try:
        labels, annotations, url = raw["labels"], raw["annotations"], raw["generatorURL"]
        start, end, given = raw["startsAt"], raw["endsAt"], raw["fingerprint"]
        if not (type(start) is type(end) is type(url) is type(given) is str):
            return None
        if not (type(labels) is type(annotations) is dict) or not _FINGERPRINT.fullmatch(given):
            return None
        "".join(labels.values())  # checks the type of each several times faster than a loop
        "".join(annotations.values())
        status = status or _STATUSES[raw["status"]]
        starts_at, ends_at = _parsed(start), _parsed(end)
    except (TypeError, LookupError, ValueError, OverflowError):
        return None
    if starts_at is None:
        return None
    return Alert(status, labels, annotations, starts_at, ends_at, url, given)


def alert_from(raw: Any, where: str, status: AlertStatus | None = None) -> Alert:
    """Read one alert out of parsed JSON; unknown fields are ignored.

    Args:
        raw: The JSON value.
        where: Its place, for errors, such as `alerts[3]`.
        status: Its status where the JSON itself has none (GET /api/v2/alerts).

    Raises:
        FieldError: A needed field is missing or one has another type.
    """
    if type(raw) is not dict:
        raise FieldError(f"{where} must be an object")
    try:
        labels = texts(raw, "labels")
        return Alert(
            status=status or status_from(raw),
            labels=labels,
            annotations=texts(raw, "annotations"),
            starts_at=_start(raw.get("startsAt")),
            ends_at=_end(raw.get("endsAt")),
            generator_url=text(raw, "generatorURL"),
            fingerprint=_fingerprint_from(raw, labels),
        )
    except FieldError as error:
        raise FieldError(f"{where}.{error}") from error


def status_from(raw: dict[str, Any]) -> AlertStatus:
    """The field `status`."""
    given = raw.get("status")
    if given == "firing":
        return AlertStatus.FIRING
    if given == "resolved":
        return AlertStatus.RESOLVED
    raise FieldError('status must be "firing" or "resolved"')


def text(raw: dict[str, Any], key: str) -> str:
    """A text field, empty if absent."""
    value = raw.get(key)
    if value is None:
        return ""
    if type(value) is not str:
        raise FieldError(f"{key} must be a text")
    return value


def texts(raw: dict[str, Any], key: str) -> dict[str, str]:
    """A field that maps names to texts, empty if absent (Go writes an empty map as null)."""
    value = raw.get(key)
    if value is None:
        return {}
    if type(value) is not dict:
        raise FieldError(f"{key} must be an object")
    try:
        "".join(value.values())
    except TypeError as error:
        raise FieldError(f"{key} must hold texts only") from error
    return value


def _fingerprint_from(raw: dict[str, Any], labels: dict[str, str]) -> str:
    given = text(raw, "fingerprint")
    return given if _FINGERPRINT.fullmatch(given) else fingerprint(labels)


def _start(given: Any) -> datetime:
    start = moment("startsAt", given)
    if start is None:
        raise FieldError("startsAt is missing")
    return start


def _end(given: Any) -> datetime | None:
    return moment("endsAt", given)


def moment(key: str, given: Any) -> datetime | None:
    """A time as Go writes it, in UTC; None if it is absent or the year 1, Go's "no time"."""
    if given is None:
        return None
    if type(given) is not str:
        raise FieldError(f"{key} must be a text")
    try:
        return _parsed(given)
    except (ValueError, OverflowError) as error:
        raise FieldError(f"{key} must be a time like 2026-01-31T08:00:00Z") from error


@lru_cache(maxsize=4096)  # the alerts of a group mostly start together
def _parsed(given: str) -> datetime | None:
    if not given or given.startswith(_ZERO_TIME):
        return None
    found = _TIME.fullmatch(given)
    if found is None:
        raise ValueError("not RFC 3339")
    seconds, fraction, zone = found.groups()
    written = f"{seconds}.{fraction or '0':0<6}"
    if zone == "Z":
        return datetime.fromisoformat(f"{written}+00:00")
    return datetime.fromisoformat(f"{written}{zone}").astimezone(UTC)
