"""Durations as Go's time.ParseDuration reads them: 1m30s, 1.5h, 300ms. Pure."""

import re
from datetime import timedelta

_MICROSECONDS = {
    "ns": 0.001,
    "us": 1,
    "µs": 1,
    "μs": 1,
    "ms": 1e3,
    "s": 1e6,
    "m": 60e6,
    "h": 3600e6,
}
_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_PARTS = re.compile(_PART)
_WHOLE = re.compile(rf"\+?(?:{_PART})+", re.ASCII)


def parse_go_duration(text: str) -> timedelta:
    """The duration; in any order of units, as Go allows. Parts of a microsecond are rounded.

    Raises:
        ValueError: It is none, or a negative one.
    """
    if text in {"0", "+0"}:
        return timedelta(0)
    if text.startswith("-"):
        raise ValueError("a duration cannot be negative here")
    if not _WHOLE.fullmatch(text):
        raise ValueError("not a duration; write a number and a unit, like 30s or 1h30m")
    try:
        total = sum(float(number) * _MICROSECONDS[unit] for number, unit in _PARTS.findall(text))
        return timedelta(microseconds=total)
    except (OverflowError, ValueError) as error:
        raise ValueError("the duration is too long") from error
