"""Takes typed values out of JSON objects, collecting mistakes instead of ending at the first. Pure."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from exporters.custom_checks.go_duration import parse_go_duration


class CheckedValues:
    """What it hands out for a wrong value is harmless; the mistake is in `mistakes`, as `key: what is wrong`.

    `remarks` tell of what is odd and works.
    """

    def __init__(self) -> None:
        self.mistakes: list[str] = []
        self.remarks: list[str] = []

    def keys(self, data: Mapping[str, Any], known: set[str], place: str) -> dict[str, Any]:
        """The known keys, in whatever case; Go's JSON reader does not look at case."""
        names = {name.lower(): name for name in known}
        found = {}
        for key, value in data.items():
            name = names.get(key.lower())
            if name is None:
                self.remarks.append(f"{place}{key}: nothing reads this key")
            elif value is not None:
                found[name] = value
        return found

    def object(self, data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = data.get(key, {})
        if isinstance(value, dict):
            return value
        self.wrong(key, "must be an object")
        return {}

    def objects(self, data: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        value = data.get(key, [])
        if not isinstance(value, list):
            self.wrong(key, "must be a list")
            return
        for number, each in enumerate(value):
            if isinstance(each, dict):
                yield f"{key}[{number}]", each
            else:
                self.wrong(f"{key}[{number}]", "must be an object")

    def text(self, data: Mapping[str, Any], key: str, place: str) -> str:
        value = data.get(key, "")
        if isinstance(value, str) and value and "\0" not in value:
            return value
        self.wrong(f"{place}{key}", "must be a text, not empty")
        return ""

    def duration(
        self, data: Mapping[str, Any], key: str, place: str, default: str | timedelta
    ) -> timedelta:
        value = data.get(key, default)
        try:
            if isinstance(value, timedelta):
                return value
            if not isinstance(value, str):
                raise ValueError("must be a text with a unit, like 30s")  # noqa: TRY004 -- it becomes a mistake
            duration = parse_go_duration(value)
            if not duration:
                raise ValueError("must be more than 0")
        except ValueError as error:
            self.wrong(f"{place}{key}", str(error))
            return timedelta(seconds=1)
        return duration

    def number(self, data: Mapping[str, Any], key: str, default: int) -> int:
        value = data.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        self.wrong(f"pluginConfig.{key}", "must be a whole number above 0")
        return default

    def flag(self, data: Mapping[str, Any], key: str) -> bool:
        value = data.get(key, False)
        if isinstance(value, bool):
            return value
        self.wrong(f"pluginConfig.{key}", "must be true or false")
        return False

    def wrong(self, key: str, text: str) -> None:
        self.mistakes.append(f"{key}: {text}")
