"""Where an issue's assignees come from: the links of a chain. Choosing is assignment's work."""

import ipaddress
import re
from datetime import date, datetime
from typing import Annotated, Self
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from alerts2gh.config.names import Login, RepositoryName
from alerts2gh.config.sizes import entries
from chassis.config import Settings

MAX_ASSIGNEES = 10
"""GitHub takes no more assignees on one issue."""

_NETWORK = re.compile(r"[0-9A-Fa-f:.]+/\d+")

Logins = Annotated[tuple[Login, ...], entries(1, MAX_ASSIGNEES)]
Turns = Annotated[tuple[Login, ...], entries(1)]


class StaticAssignees(Settings):
    """These logins, always."""

    logins: Logins


class FromLabel(Settings):
    """The login(s) that an alert label or annotation names, comma-separated.

    `map` translates, say, mail names.
    """

    label: str | None = Field(default=None, min_length=1)
    annotation: str | None = Field(default=None, min_length=1)
    map: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.label is None) == (self.annotation is None):
            raise ValueError("give exactly one of label and annotation")
        return self


class OwnerRule(Settings):
    """Who owns the nodes or instances that `match` fits: an exact name, a glob or a CIDR."""

    match: str = Field(min_length=1)
    logins: Logins

    @field_validator("match")
    @classmethod
    def _readable_network(cls, value: str) -> str:
        if _NETWORK.fullmatch(value):
            try:
                ipaddress.ip_network(value, strict=False)
            except ValueError as error:
                raise ValueError(f"not a network, like 10.0.0.0/8: {error}") from error
        return value


class OwnerMap(Settings):
    """The first rule that fits the value of one of `labels` decides."""

    labels: Annotated[tuple[str, ...], entries(1)] = ("node", "instance")
    rules: Annotated[tuple[OwnerRule, ...], entries(1)]


class FromCodeowners(Settings):
    """The owners that a repository's CODEOWNERS file names for a path.

    The path is fixed, or stands in an annotation of the alert.
    """

    repository: RepositoryName
    file: str = Field(default=".github/CODEOWNERS", min_length=1)
    path: str | None = Field(default=None, min_length=1)
    path_annotation: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_path(self) -> Self:
        if (self.path is None) == (self.path_annotation is None):
            raise ValueError("give exactly one of path and path_annotation")
        return self


class RotationOverride(Settings):
    """Somebody else is on call from `start` (included) to `end` (not included)."""

    start: datetime
    end: datetime
    logins: Logins

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("give start and end with a UTC offset, like 2026-12-24T09:00:00+09:00")
        if self.end <= self.start:
            raise ValueError("end must be after start")
        return self


class OnCall(Settings):
    """Who is on call: `logins` take turns of `period_days` from `start`, at `handover` o'clock."""

    start: date
    period_days: int = Field(default=7, ge=1, le=366)
    handover: str = "09:00"
    time_zone: str = "UTC"
    logins: Turns
    overrides: tuple[RotationOverride, ...] = ()

    @field_validator("handover")
    @classmethod
    def _clock_time(cls, value: str) -> str:
        if not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]", value):
            raise ValueError('write the time of day as "HH:MM", in quotes')
        return value

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"{value!r} is no IANA time zone, like Asia/Tokyo") from error
        return value


class RoundRobin(Settings):
    """One of these logins, by the incident's id: the same incident always gets the same person."""

    logins: Turns


class AssigneeSource(Settings):
    """One link of the chain; the first that names somebody assignable decides."""

    static: StaticAssignees | None = None
    from_label: FromLabel | None = None
    owners: OwnerMap | None = None
    codeowners: FromCodeowners | None = None
    on_call: OnCall | None = None
    round_robin: RoundRobin | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        names = tuple(type(self).model_fields)
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"give exactly one of {', '.join(names)} in each entry of the list; "
                f"here {'are ' + ', '.join(given) if given else 'is none'}"
            )
        return self
