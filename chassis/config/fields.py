"""Field types that every service's settings share: durations, secret files, matchers.

Each turns the text of the YAML file into a value or raises ValueError with what to write instead.
A secret's content never enters a repr, a dump or an error.
"""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import GetCoreSchemaHandler, PlainSerializer, PlainValidator, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from chassis.alertmanager import Matcher, MatcherError, parse_matchers
from chassis.errors import PermanentError

FOLDER = "folder"  # key of the validation context: the folder that relative paths start from
SECRETS = "secrets"  # key of the validation context: a list that collects every SecretFile made
MISTAKES = "mistakes"  # key of the validation context: a list for lines about further files

_MAX_SECRET_BYTES = 1 << 20
_MILLISECONDS = {
    "y": 31_536_000_000,
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_DURATION = re.compile("".join(rf"(?:([0-9]+){unit})?" for unit in _MILLISECONDS))
_HELP = "write a number and a unit, like 30s or 1h30m"


def parse_duration(text: str) -> timedelta:
    """Parse a duration as Prometheus writes it: y w d h m s ms, each at most once, in this order.

    Raises:
        ValueError: Anything else, among it a plain number other than 0.
    """
    if text == "0":
        return timedelta(0)
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise ValueError(f"not a duration; {_HELP}")
    try:
        total = sum(
            int(count or 0) * factor
            for count, factor in zip(found.groups(), _MILLISECONDS.values(), strict=True)
        )
        return timedelta(milliseconds=total)
    except (OverflowError, ValueError) as error:  # int() refuses thousands of digits
        raise ValueError("the duration is too long; 292 years is a sensible limit") from error


def format_duration(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back, exact to the millisecond; never negative."""
    rest = duration // timedelta(milliseconds=1)
    parts: list[str] = []
    for unit, factor in _MILLISECONDS.items():
        if unit in {"y", "w"} and rest % factor:
            continue  # "1w1d" reads worse than "8d"
        count, rest = divmod(rest, factor)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _duration_from(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise ValueError("a duration cannot be negative")
        return value
    if isinstance(value, str):
        return parse_duration(value.strip())
    if value == 0 and not isinstance(value, bool):
        return timedelta(0)
    plain_number = isinstance(value, int | float) and not isinstance(value, bool)
    what = f"the number {value} has no unit" if plain_number else "not a duration"
    raise ValueError(f"{what}; {_HELP}")


Duration = Annotated[
    timedelta,
    PlainValidator(_duration_from, json_schema_input_type=str),
    PlainSerializer(format_duration, return_type=str),
]


class SecretFile:
    """A secret that lies in a file, read anew at each use so that a rotated one counts at once.

    In YAML it is the path, relative to the folder of the configuration file. The file must be
    readable, UTF-8 and not empty when the configuration is loaded. While a rotation has removed
    it for a moment, the last good content is used.
    """

    __slots__ = ("_last", "path")

    def __init__(self, path: Path) -> None:
        """Read the file once.

        Raises:
            PermanentError: It cannot be read, is empty, not UTF-8, or over 1 MiB.
        """
        self.path = path
        self._last = self._content()

    def read(self) -> str:
        """The content now, without white space around it; the last good one if it is unusable."""
        try:
            self._last = self._content()
        except PermanentError:
            return self._last
        return self._last

    def _content(self) -> str:
        try:
            with self.path.open("rb") as file:
                raw = file.read(_MAX_SECRET_BYTES + 1)
            text = raw.decode().strip()
        except UnicodeDecodeError:
            # Not chained: the error holds the bytes of the secret.
            raise PermanentError(f"{self.path} is not UTF-8 text") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a usable path"
            raise PermanentError(f"cannot read {self.path}: {reason}") from error
        if len(raw) > _MAX_SECRET_BYTES:
            raise PermanentError(f"{self.path} is larger than 1 MiB, so it is no secret")
        if not text:
            raise PermanentError(f"{self.path} is empty; put the secret into it")
        return text

    def __repr__(self) -> str:
        return f"SecretFile({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretFile) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _source: Any, _handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            cls._validated,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda secret: str(secret.path), return_schema=core_schema.str_schema()
            ),
        )

    @classmethod
    def _validated(cls, value: Any, info: ValidationInfo) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str) or not value:
            raise ValueError("write the path of a file that holds the secret")
        context = info.context or {}
        try:
            secret = cls(Path(context.get(FOLDER, "")) / value)
        except PermanentError as error:
            raise ValueError(str(error)) from error
        context.get(SECRETS, []).append(secret)
        return secret


def _matchers_from(value: Any) -> tuple[Matcher, ...]:
    if isinstance(value, Matcher):
        return (value,)
    if isinstance(value, str):
        try:
            return parse_matchers(value)
        except MatcherError as error:
            raise ValueError(str(error)) from error
    if isinstance(value, list | tuple):
        return tuple(matcher for each in value for matcher in _matchers_from(each))
    raise ValueError("""write matchers as text or a list of texts, like 'severity="critical"'""")


MatcherList = Annotated[
    tuple[Matcher, ...],
    PlainValidator(_matchers_from, json_schema_input_type=str | list[str]),
    PlainSerializer(lambda matchers: [str(each) for each in matchers], return_type=list[str]),
]
