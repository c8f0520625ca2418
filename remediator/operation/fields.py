"""Fields of a JSON object, read one by one with the place of a mistake in the error.

Pure. Knows nothing of operations.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from chassis.errors import PermanentError

W = TypeVar("W", bound=StrEnum)

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_LARGEST = 2**31 - 1


class Fields:
    """One JSON object and where it stands."""

    def __init__(self, raw: Any, where: str) -> None:
        """Raises PermanentError if `raw` is no object."""
        if not isinstance(raw, Mapping):
            raise PermanentError(f"{where}: must be an object, not {type(raw).__name__}")
        self._raw = raw
        self._where = where

    def at(self, where: str) -> "Fields":
        """The same fields under a better name."""
        return Fields(self._raw, where)

    def inner(self, key: str, *, needed: bool = True) -> "Fields":
        """The object under `key`; an empty one if it may be absent."""
        value = self._raw.get(key)
        if value is None and not needed:
            value = {}
        return Fields(value, self._path(key))

    def optional(self, key: str) -> "Fields | None":
        """The object under `key`, None if there is none."""
        return None if self._raw.get(key) is None else self.inner(key)

    def each(self, key: str, at_most: int) -> Iterator["Fields"]:
        """The objects of a list, none if it is absent."""
        value = self._raw.get(key)
        if value is None:
            return
        if not isinstance(value, list):
            raise self._wrong(key, "must be a list")
        if len(value) > at_most:
            raise self._wrong(key, f"has {len(value)} entries, at most {at_most} are allowed")
        for index, entry in enumerate(value):
            yield Fields(entry, f"{self._path(key)}[{index}]")

    def text(self, key: str, *, needed: bool = False) -> str:
        """A text, empty if absent."""
        value = self._raw.get(key)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or (needed and not value):
            raise self._wrong(key, "must be a text" + (" that is not empty" if needed else ""))
        return value

    def texts(self, key: str) -> dict[str, str]:
        """A mapping of texts, empty if absent."""
        value = self._raw.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(
            isinstance(part, str) for pair in value.items() for part in pair
        ):
            raise self._wrong(key, "must map texts to texts")
        return dict(value)

    def number(self, key: str, at_least: int = 0) -> int:
        """A whole number; absent is 0."""
        value = self._raw.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "must be a whole number")
        if not at_least <= value <= _LARGEST:
            raise self._wrong(key, f"must be a number from {at_least} to {_LARGEST}")
        return value

    def flag(self, key: str) -> bool:
        """True or false; absent is false."""
        value = self._raw.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, "must be true or false")
        return value

    def word(self, key: str, words: type[W], default: W | None = None) -> W:
        """One of a closed list of words."""
        value = self._raw.get(key)
        if value is None and default is not None:
            return default
        try:
            return words(str(value))
        except ValueError:
            known = ", ".join(words)
            raise self._wrong(key, f"must be one of {known}") from None

    def optional_word(self, key: str, words: type[W]) -> W | None:
        """One of a closed list of words, None if absent."""
        return None if self._raw.get(key) is None else self.word(key, words)

    def time(self, key: str) -> datetime | None:
        """A time in UTC, None if absent."""
        value = self._raw.get(key)
        if value is None:
            return None
        try:
            if not _TIME.fullmatch(value):
                raise ValueError
            return datetime.fromisoformat(value).astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            raise self._wrong(key, "must be a time like 2026-01-31T08:00:00Z") from None

    def needed_time(self, key: str) -> datetime:
        """A time in UTC that must be there."""
        found = self.time(key)
        if found is None:
            raise self._wrong(key, "is missing")
        return found

    def _path(self, key: str) -> str:
        return f"{self._where}.{key}" if ": " in self._where else f"{self._where}: {key}"

    def _wrong(self, key: str, problem: str) -> PermanentError:
        return PermanentError(f"{self._path(key)} {problem}")


def compact(**fields: Any) -> dict[str, Any]:
    """The fields that say something; False, 0 and empty values are what absence means."""
    return {
        key: written_time(value) if isinstance(value, datetime) else value
        for key, value in fields.items()
        if value
    }


def written_time(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds, as Kubernetes' MicroTime."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
