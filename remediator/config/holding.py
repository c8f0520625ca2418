"""What holds operations back: gates, windows, budgets, rate limit, breaker. Deciding is gates' work."""

import re
from datetime import timedelta
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from chassis.config import Duration, MatcherList, Settings
from remediator.config.common import (
    BudgetName,
    NodeShare,
    PlainName,
    Share,
    SomeTime,
    Word,
    entries,
)
from remediator.config.proving import Query

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _clock_time(value: str) -> str:
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d|24:00", value, re.ASCII):
        raise ValueError('write the time of day as "HH:MM", in quotes')
    return value


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{value!r} is no IANA time zone, like Asia/Tokyo") from error
    return value


ClockTime = Annotated[str, AfterValidator(_clock_time)]


class Window(Settings):
    """A stretch of the day on which operations may begin; one that ends before it starts goes over midnight."""

    days: Annotated[tuple[Day, ...], entries(1, 7)] = DAYS
    start: ClockTime = "00:00"
    end: ClockTime = "24:00"
    time_zone: Annotated[str, AfterValidator(_zone)] = "UTC"

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.start in {self.end, "24:00"}:
            raise ValueError("the window must have a length; end differs from start")
        return self


class GateSettings(Settings):
    """What must be open before a node is isolated.

    `windows`: names; one of them must be open. `cooldown`: since the node's last operation ended.
    `guards`: queries that must pass. `max_wait`: after it, a person is told.
    """

    approval: bool = False
    windows: tuple[PlainName, ...] = ()
    cooldown: Duration = timedelta(minutes=30)
    silences: bool = True
    guards: tuple[Query, ...] = ()
    control_plane: bool = False
    exclude: MatcherList = ()
    max_wait: SomeTime = timedelta(days=7)


class OperationsLimit(Settings):
    """After `count` operations on a node `within` this time the next goes to a person, unrepaired."""

    count: Annotated[int, Field(ge=1, le=100)] = 3
    within: SomeTime = timedelta(days=7)


class BudgetSettings(Settings):
    """How many of the nodes that `selector` fits may be unavailable at once.

    `topology_key`: a node label; the limit holds for each of its values (rack, switch) by itself.
    `gpus`: count the nodes' GPUs instead of the nodes.
    """

    name: BudgetName
    selector: MatcherList = ()
    max_unavailable: NodeShare
    topology_key: Word | None = None
    gpus: bool = False


class RateLimit(Settings):
    """At most `isolations` nodes are isolated `per` this time."""

    isolations: Annotated[int, Field(ge=1)] = 10
    per: SomeTime = timedelta(hours=1)


class Breaker(Settings):
    """Opens when this much of the fleet is isolated or NotReady at once, or was isolated `within`.

    Clusters below `min_nodes` have none. Open, it lets nothing new begin; only a person closes it.
    """

    enabled: bool = True
    max_unavailable: NodeShare = Share(30, percent=True)
    within: SomeTime = timedelta(minutes=10)
    min_nodes: Annotated[int, Field(ge=1)] = 4
