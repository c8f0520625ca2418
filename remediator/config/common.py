"""Field types of several sections: names, durations with a least value, shares, web addresses, files."""

import os
import re
from collections.abc import Callable, Sized
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    ValidationInfo,
)

from chassis.config import Duration, SecretFile, Settings
from chassis.config.fields import FOLDER

S = TypeVar("S", bound=Sized)
_PERCENT = re.compile(r"(\d{1,3})%", re.ASCII)
_ALL = 100


def entries(at_least: int, at_most: int = 1000) -> AfterValidator:
    """A check of the number of entries, told once and only if the entries are right."""

    def check(value: S) -> S:
        if len(value) < at_least:
            raise ValueError(f"give at least {at_least} entr{'y' if at_least == 1 else 'ies'}")
        if len(value) > at_most:
            raise ValueError(f"give at most {at_most} entries, not {len(value)}")
        return value

    return AfterValidator(check)


def at_least(shortest: timedelta, text: str) -> AfterValidator:
    """A check that a duration is no shorter than `shortest`, written as `text`."""

    def check(value: timedelta) -> timedelta:
        if value < shortest:
            raise ValueError(f"must be at least {text}")
        return value

    return AfterValidator(check)


def _named(what: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", value):
            raise ValueError(
                f"name {what} with small letters, digits and hyphens, at most 63, like gpu-reset"
            )
        return value

    return check


@dataclass(frozen=True, slots=True)
class Share:
    """A number of nodes, or a percentage of those selected: `limit(total)` says how many it is."""

    count: int
    percent: bool = False

    def limit(self, total: int) -> int:
        """How many of `total` it is; a percentage is rounded down, and is at least 1."""
        if not self.percent:
            return self.count
        return max(1, total * self.count // _ALL) if total else 0

    def __str__(self) -> str:
        return f"{self.count}%" if self.percent else str(self.count)


def _share(value: Any) -> Share:
    if isinstance(value, Share):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        found = Share(value)
    elif isinstance(value, str) and (percent := _PERCENT.fullmatch(value.strip())):
        found = Share(int(percent[1]), percent=True)
    else:
        raise ValueError("write a number like 2, or a percentage like 10%")
    if found.count < 1:
        raise ValueError(f"{found} allows nothing; to hold everything back, use `remediator pause`")
    if found.percent and found.count > _ALL:
        raise ValueError("a percentage is at most 100%")
    return found


def _web_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in value):
        raise ValueError("not a web address; write it like https://HOST[:PORT]/PATH")
    return value.rstrip("/")


def _node_path(value: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9_.-]+)+/?|/", value) or ".." in value.split("/"):
        raise ValueError("write an absolute path on the nodes, like /run/nvidia/driver")
    return value.rstrip("/") or "/"


def _existing_file(value: Path, info: ValidationInfo) -> Path:
    path = Path((info.context or {}).get(FOLDER, "")) / value
    if not path.is_file() or not os.access(path, os.R_OK):
        raise ValueError(f"cannot read the file {path}; correct the path or put the file there")
    return path


NodeShare = Annotated[
    Share,
    PlainValidator(_share, json_schema_input_type=int | str),
    PlainSerializer(str, return_type=str),
]
SomeTime = Annotated[Duration, at_least(timedelta(seconds=1), "1s")]
PlaybookName = Annotated[str, AfterValidator(_named("playbooks"))]
RungName = Annotated[str, AfterValidator(_named("rungs"))]
BudgetName = Annotated[str, AfterValidator(_named("budgets"))]
PlainName = Annotated[str, AfterValidator(_named("it"))]
Word = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[!-~]+$")]
WebURL = Annotated[str, AfterValidator(_web_url)]
NodePath = Annotated[str, AfterValidator(_node_path)]
ExistingFile = Annotated[Path, AfterValidator(_existing_file)]


class Peer(Settings):
    """A web service that is asked: Alertmanager, Prometheus, alerts2gh."""

    url: WebURL
    bearer_token_file: SecretFile | None = None
    ca_file: ExistingFile | None = None
    timeout: SomeTime = timedelta(seconds=10)
