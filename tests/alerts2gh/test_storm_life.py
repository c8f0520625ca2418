"""A storm from the first webhook to the last close, judged by what stands on GitHub and in its log."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.alerts2gh.crashing import CrashError
from tests.alerts2gh.world import FALLBACK, NOON, World, a_world, alert, webhook

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
STORM = {"storm": {"enabled": True, "incidents": 20, "window": "5m", "split_after": "1h"}}
Make = Callable[..., World]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    managers = []

    def one(**config: object) -> World:
        manager = a_world(tmp_path, **{**STORM, **config})  # type: ignore[arg-type]  # sections
        managers.append(manager)
        return manager.__enter__()

    yield one
    for manager in managers:
        manager.__exit__(None, None, None)


def send(
    world: World, names: range, *, firing: bool = True, starts_at: datetime | None = None
) -> None:
    """One group for each number, all at once."""
    for number in names:
        group = {"alertname": "GPURuntimeError", "rack": f"r{number:03}"}
        at = starts_at or NOON
        one = alert(f"n{number:03}", firing=firing, starts_at=at, rack=group["rack"])
        world.accept(webhook(one, group=group))


def rollup(world: World) -> str:
    """The body of the only rollup issue."""
    (found,) = [i for i in world.issues() if i.title.startswith("Storm: ")]
    return found.body or ""


def own_issues(world: World) -> list[str]:
    return [i.title for i in world.issues() if not i.title.startswith("Storm: ")]


def rows(body: str, status: str) -> int:
    return body.count(f"\n| {status} |")


def test_sixty_groups_at_once_become_one_issue_with_a_row_for_each(make: Make) -> None:
    world = make()
    send(world, range(60))
    world.settle()

    assert own_issues(world) == []
    assert rows(rollup(world), "**firing**") == 60
    assert [e.path for e in world.effects("POST")] == ["/repos/acme/alerts/issues"]
    assert len(world.effects()) == 1


def test_as_many_groups_as_allowed_get_issues_of_their_own(make: Make) -> None:
    world = make()
    send(world, range(20))
    world.settle()

    assert len(own_issues(world)) == len(world.issues()) == 20


def test_what_comes_after_the_first_twenty_is_rolled_up_and_updated_in_place(make: Make) -> None:
    world = make()
    for number in range(60):
        send(world, range(number, number + 1))
        world.settle()
        world.advance(timedelta(seconds=4))
    world.advance(MINUTE)

    assert len(own_issues(world)) == 20
    assert rows(rollup(world), "**firing**") == 40
    assert len(world.effects("POST", "/issues")) == 21
    assert world.effects("POST", "/comments") == []
    assert len(world.effects("PATCH")) <= 60 * 4 / 15


def test_slow_new_incidents_are_no_storm(make: Make) -> None:
    world = make()
    for number in range(30):
        send(world, range(number, number + 1))
        world.settle()
        world.advance(timedelta(seconds=16))

    assert len(own_issues(world)) == len(world.issues()) == 30


def test_without_rollup_each_group_has_its_issue(make: Make) -> None:
    world = make(storm={"enabled": False})
    send(world, range(30))
    world.settle()

    assert len(own_issues(world)) == len(world.issues()) == 30


def test_what_outlasts_the_storm_gets_an_issue_and_the_rest_never_does(make: Make) -> None:
    world = make()
    send(world, range(40))
    world.settle()
    world.advance(30 * MINUTE)
    send(world, range(35), firing=False)
    world.settle()
    world.advance(29 * MINUTE)
    assert own_issues(world) == []
    assert rows(rollup(world), "**firing**") == 5

    world.advance(3 * MINUTE)

    assert len(own_issues(world)) == 5
    body = rollup(world)
    assert (rows(body, "**firing**"), rows(body, "resolved")) == (0, 40)
    assert body.count("of its own") == 5 + 1  # the rows, and the sentence that says when
    world.advance(20 * MINUTE)
    states = {i.title.startswith("Storm: "): i.state for i in world.issues()}
    assert states == {True: "closed", False: "open"}


def test_a_rolled_incident_that_fires_again_later_is_judged_anew(make: Make) -> None:
    world = make()
    send(world, range(30))
    world.settle()
    world.advance(10 * MINUTE)
    send(world, range(30), firing=False)
    world.settle()
    world.advance(HOUR)
    assert own_issues(world) == []

    send(world, range(3), starts_at=world.clock.at)
    world.settle()

    assert len(own_issues(world)) == 3
    assert rows(rollup(world), "**firing**") == 0


def test_the_next_storm_reopens_the_rollup(make: Make) -> None:
    world = make()
    send(world, range(30))
    world.settle()
    world.advance(10 * MINUTE)
    send(world, range(30), firing=False)
    world.settle()
    world.advance(DAY)
    assert world.states() == ["closed"]

    send(world, range(30), starts_at=world.clock.at)
    world.settle()
    world.advance(MINUTE)

    assert own_issues(world) == []
    assert world.states() == ["open"]
    assert rows(rollup(world), "**firing**") == 30


def test_refused_webhooks_are_never_rolled_up(make: Make) -> None:
    world = make(storm={"enabled": True, "incidents": 2})
    send(world, range(5))
    with suppress(Exception):
        world.accept({"not": "a webhook"})
    world.settle()

    assert len(world.issues(FALLBACK)) == 1
    assert own_issues(world) == []


def test_after_the_database_was_lost_the_issues_are_found_again_and_nothing_is_rolled_up(
    make: Make,
) -> None:
    world = make(storm={"enabled": True, "incidents": 20})
    for number in range(22):
        send(world, range(number, number + 1))
        world.settle()
        world.advance(MINUTE)
    assert len(own_issues(world)) == 22
    world.lose_database()

    send(world, range(22))
    world.settle()

    assert len(world.issues()) == 22


def test_two_repositories_have_storms_of_their_own(make: Make) -> None:
    world = make(
        storm={"enabled": True, "incidents": 20},
        route={
            "repository": "acme/alerts",
            "routes": [{"matchers": ['rack=~"r00."'], "repository": "acme/other"}],
        },
    )
    send(world, range(40))
    world.settle()

    assert len(world.issues("acme/other")) == 10
    assert own_issues(world) == []
    assert rows(rollup(world), "**firing**") == 30


# All points of the first incident and of the rollup's creation, which comes last; between are others like the first.
POINTS = (1, 2, *range(7, 15), *range(27, 45))


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_anywhere_in_a_storm_loses_and_doubles_nothing(make: Make, point: int) -> None:
    world = make(storm={"enabled": True, "incidents": 2, "split_after": "30m"})
    send(world, range(4))
    world.points.crash_at(point)
    for step in (_a_minute_passes, _half_resolves):
        try:
            step(world)
        except CrashError:
            world.restart()
            world.advance(10 * MINUTE)
            step(world)
    world.points.disarm()
    world.advance(HOUR)

    assert len(own_issues(world)) == len(set(own_issues(world))) == 2
    body = rollup(world)
    assert (rows(body, "**firing**"), rows(body, "resolved")) == (0, 4)


def _a_minute_passes(world: World) -> None:
    world.advance(MINUTE)


def _half_resolves(world: World) -> None:
    send(world, range(2), firing=False)
    world.advance(HOUR)
