"""Maintenance windows in their zones, and the breaker that looks at the whole fleet."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from remediator.cluster import BreakerState, NodeView
from remediator.config import Breaker, Window
from remediator.gates import (
    breaker_after,
    next_opening,
)
from remediator.operation import Attempt, NodeOperation, Phase
from tests.remediator.building import (
    HOUR,
    MINUTE,
    NOW,
    START,
    fleet_of,
    node_of,
    pinned,
)


def ended(ago: timedelta, name: str = "no-0", **changes: Any) -> NodeOperation:
    return pinned(
        name,
        Phase.SUCCEEDED,
        isolated=False,
        isolated_at=NOW - ago - MINUTE,
        ended_at=NOW - ago,
        attempts=(Attempt(0, 1, NOW - ago),),
        **changes,
    )


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


OPENINGS = {
    "inside": ({"start": "09:00", "end": "17:00"}, "2026-11-30T12:00", "2026-11-30T12:00"),
    "before": ({"start": "09:00", "end": "17:00"}, "2026-11-30T08:00", "2026-11-30T09:00"),
    "at its end": ({"start": "09:00", "end": "17:00"}, "2026-11-30T17:00", "2026-12-01T09:00"),
    "over midnight": ({"start": "22:00", "end": "06:00"}, "2026-12-01T05:59", "2026-12-01T05:59"),
    "the whole day": ({"days": ["tue"]}, "2026-11-30T12:00", "2026-12-01T00:00"),
    "a week away": ({"days": ["mon"], "end": "01:00"}, "2026-11-30T01:00", "2026-12-07T00:00"),
    "a night that began yesterday": (
        {"days": ["mon"], "start": "22:00", "end": "06:00"},
        "2026-12-01T03:00",
        "2026-12-01T03:00",
    ),
    "in its own zone": (
        {"start": "09:00", "end": "10:00", "time_zone": "Asia/Tokyo"},
        "2026-11-30T00:30",
        "2026-11-30T00:30",
    ),
    "summer time": (
        {"start": "09:00", "end": "10:00", "time_zone": "Europe/Berlin"},
        "2026-07-01T06:00",
        "2026-07-01T07:00",
    ),
    "winter time": (
        {"start": "09:00", "end": "10:00", "time_zone": "Europe/Berlin"},
        "2026-12-01T06:00",
        "2026-12-01T08:00",
    ),
}


@pytest.mark.parametrize("sentence", OPENINGS)
def test_a_window_defers_to_its_next_opening(sentence: str) -> None:
    window, now, opening = OPENINGS[sentence]

    assert next_opening([Window.model_validate(window)], utc(now)) == utc(opening)


def test_of_several_windows_the_first_to_open_counts() -> None:
    late, early = Window(start="20:00", end="21:00"), Window(start="18:00", end="19:00")

    assert next_opening([late, early], NOW) == utc("2026-11-30T18:00")
    assert next_opening([], NOW) is None


def tens(down: int, **changes: Any) -> tuple[NodeView, ...]:
    return tuple(
        replace(node_of(f"n{i}"), **changes) if i < down else node_of(f"n{i}") for i in range(10)
    )


THIRD = Breaker.model_validate({"max_unavailable": "30%", "within": "10m"})


@pytest.mark.parametrize(
    ("nodes", "opens"),
    [
        (tens(3, ready="False"), False),
        (tens(4, ready="False"), True),
        (tens(4, operation_taint="x"), True),
        (tens(4, unschedulable=True), False),
        (tens(4, ready="False", is_virtual=True), False),
        (tens(3, ready="False")[:3], False),
    ],
)
def test_the_breaker_opens_when_too_much_is_out_at_once(
    nodes: tuple[NodeView, ...], opens: bool
) -> None:
    state = breaker_after(fleet_of(*nodes), (), THIRD, NOW)

    assert (state is not None and state.open) is opens


def test_nodes_isolated_lately_count_though_they_are_back() -> None:
    lately = [ended(MINUTE, f"no-{i}", node=f"n{i}") for i in range(4)]

    assert breaker_after(fleet_of(*tens(0)), lately, THIRD, NOW) is not None
    assert breaker_after(fleet_of(*tens(0)), lately, THIRD, NOW + HOUR) is None


def test_after_a_reset_only_the_present_counts() -> None:
    reset = BreakerState(reset_at=NOW, reset_by="ada")
    lately = [ended(MINUTE, f"no-{i}", node=f"n{i}") for i in range(4)]

    healthy = breaker_after(fleet_of(*tens(0), breaker=reset), lately, THIRD, NOW)
    ill = breaker_after(fleet_of(*tens(4, ready="False"), breaker=reset), lately, THIRD, NOW)

    assert healthy is None
    assert ill is not None
    assert ill.reset_at == NOW


def test_an_open_breaker_stays_open_until_a_person_closes_it() -> None:
    state = BreakerState(open=True, since=START)

    assert breaker_after(fleet_of(*tens(0), breaker=state), (), THIRD, NOW) is None


def test_a_breaker_that_is_switched_off_never_opens() -> None:
    off = Breaker(enabled=False)

    assert breaker_after(fleet_of(*tens(10, ready="False")), (), off, NOW) is None
