"""Column types that mean the same on SQLite and on PostgreSQL.

They convert values and nothing else.
"""

import re
from datetime import UTC, datetime, timedelta

from sqlalchemy import BigInteger, Dialect, Integer, Text
from sqlalchemy.types import TypeDecorator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_UNSAFE = re.compile("[\\\\\x00\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")

Sequence = BigInteger().with_variant(Integer, "sqlite")
"""A number that the database counts up. SQLite only does so for a column declared INTEGER."""


class Instant(TypeDecorator[datetime]):
    """A point in time, kept as microseconds since 1970 (UTC): exact, and sorted alike everywhere."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> int | None:
        return None if value is None else as_microseconds(value)

    def process_result_value(self, value: int | None, _dialect: Dialect) -> datetime | None:
        return None if value is None else _EPOCH + value * _MICROSECOND


class Words(TypeDecorator[str]):
    r"""Text from anywhere. NUL, which PostgreSQL refuses, and lone surrogates are kept as \uXXXX.

    The escape is one to one, so that equal texts stay equal and others differ.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        return None if value is None else as_storable(value)

    def process_result_value(self, value: str | None, _dialect: Dialect) -> str | None:
        if value is None or "\\" not in value:
            return value
        return _ESCAPED.sub(_unescape, value)


def as_microseconds(value: datetime) -> int:
    """What an `Instant` column holds."""
    return (value - _EPOCH) // _MICROSECOND


def as_storable(text: str) -> str:
    """What a `Words` column holds."""
    return _UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}"


def _unescape(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else "\\"
