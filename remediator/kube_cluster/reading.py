"""Small readers of the API's JSON that never raise: a watch hands over whatever the API has.

Pure. Knows no resource type.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from sys import intern
from typing import Any

_LONG_FRACTION = re.compile(r"(\.\d{6})\d+")
_MOMENTS = 10_000
"""Thousands of nodes are heard in the same seconds: their times are read, and kept, once."""
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
"""For a time that the API should have told and has not: older than everything."""


def part(raw: Any, *path: str) -> Mapping[str, Any]:
    """The object at a path, empty if there is none."""
    for key in path:
        raw = raw.get(key) if isinstance(raw, Mapping) else None
    return raw if isinstance(raw, Mapping) else {}


def each(raw: Any, *path: str) -> Iterator[Mapping[str, Any]]:
    """The objects of the list at a path."""
    found = part(raw, *path[:-1]).get(path[-1])
    if isinstance(found, list):
        yield from (one for one in found if isinstance(one, Mapping))


def text(raw: Mapping[str, Any], key: str, most: int = 1024) -> str:
    """A text, empty if absent, cut off where it is very long."""
    value = raw.get(key)
    return value[:most] if isinstance(value, str) else ""


def texts(raw: Mapping[str, Any], key: str) -> dict[str, str]:
    """A mapping of texts; names that thousands of objects share are kept once."""
    found = part(raw, key)
    return {intern(str(name)): intern(str(value)) for name, value in found.items()}


def time(raw: Mapping[str, Any], key: str) -> datetime | None:
    """A time in UTC, None if absent or no time."""
    value = raw.get(key)
    return _moment(value) if isinstance(value, str) else None


@lru_cache(maxsize=_MOMENTS)
def _moment(value: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(_LONG_FRACTION.sub(r"\1", value))
        return found.astimezone(UTC) if found.tzinfo else None
    except (ValueError, OverflowError):
        return None


def count(raw: Mapping[str, Any], key: str) -> int:
    """A count that the API writes as a number or as digits, else 0."""
    digits = str(raw.get(key))
    return int(digits) if digits.isascii() and digits.isdigit() else 0
