"""A webhook that says nothing new is acknowledged, counted, and otherwise costs nothing."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from alerts2gh.metrics import WebhookMetrics
from alerts2gh.ports import Repeat
from alerts2gh.routing import Router
from alerts2gh.webhook.repeats import Remembered, Repeats, name_of
from tests.alerts2gh.world import NOON, World, a_world, alert, webhook

MINUTE = timedelta(minutes=1)
FIRING = webhook(alert())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as one:
        yield one


def taken(world: World, body: dict[str, Any]) -> int:
    """How many parts it adds to the backlog."""
    before = world.store.backlog()
    world.accept(body)
    return world.store.backlog() - before


def test_what_github_shows_already_is_not_stored_again(world: World) -> None:
    assert taken(world, FIRING) == 1
    world.settle()
    writes = len(world.github.log())
    world.advance(MINUTE)

    assert taken(world, FIRING) == 0
    world.settle()

    assert len(world.github.log()) == writes
    assert world.states() == ["open"]


@pytest.mark.parametrize(
    "news",
    [
        pytest.param(webhook(alert("gpu-n2")), id="another alert"),
        pytest.param(webhook(alert(firing=False)), id="it resolved"),
        pytest.param(webhook(alert(starts_at=NOON + MINUTE)), id="a new episode"),
        pytest.param(webhook(alert(annotations={"summary": "worse"})), id="another text"),
        pytest.param(webhook(alert(), truncated=1), id="alerts left out"),
        pytest.param(webhook(alert(), externalURL="http://other"), id="another Alertmanager"),
    ],
)
def test_whatever_is_new_is_stored_and_so_is_what_follows_it(
    world: World, news: dict[str, Any]
) -> None:
    world.accept(FIRING)
    world.settle()

    assert taken(world, news) == 1
    assert taken(world, FIRING) == 1


def test_an_alert_that_fires_again_with_the_same_start_counts_once_the_window_is_over(
    world: World,
) -> None:
    """The same bytes: first the slower Alertmanager's, then news."""
    world.accept(FIRING)
    world.settle()
    world.accept(webhook(alert(firing=False)))
    world.settle()
    assert taken(world, FIRING) == 1
    world.settle()
    assert not world.incident().is_firing
    world.advance(3 * MINUTE)

    assert taken(world, FIRING) == 1
    world.settle()

    assert world.incident().is_firing


def test_another_query_is_another_webhook(world: World) -> None:
    world.accept(FIRING)
    world.settle()
    before = world.store.backlog()

    world.accept(FIRING, {"labels": ["urgent"]})

    assert world.store.backlog() == before + 1


def test_after_a_reload_each_group_is_looked_at_once_more(world: World) -> None:
    world.accept(FIRING)
    world.settle()
    world.use(world.config)

    assert taken(world, FIRING) == 1
    world.settle()
    assert taken(world, FIRING) == 0


def test_a_repeat_is_counted_like_any_webhook(world: World) -> None:
    registry = CollectorRegistry()
    world.intake = replace(world.intake, metrics=WebhookMetrics(registry))
    for _ in range(3):
        world.accept(FIRING)
        world.settle()

    assert registry.get_sample_value("alerts2gh_webhooks_total", {"reason": "accepted"}) == 3
    assert registry.get_sample_value("alerts2gh_alerts_total", {"status": "firing"}) == 3


def test_memory_is_bounded_and_the_oldest_goes_first(a_router: Callable[[], Router]) -> None:
    router = a_router()
    repeats = Repeats(most_parts=5)
    three = Remembered(router, (Repeat("a", "b", "c"),) * 3, {})
    for name in (b"1", b"2"):
        repeats.remember(name, three)
    assert repeats.find(b"1", router) is None
    assert repeats.find(b"2", router) is three
    repeats.remember(b"2", three)  # the same again takes no more room
    assert repeats.find(b"2", router) is three
    assert repeats.find(b"2", a_router()) is None


@pytest.fixture
def a_router(world: World) -> Callable[[], Router]:
    return lambda: Router(world.config)


def test_a_name_covers_body_and_query() -> None:
    names = {
        name_of(b"a", {}),
        name_of(b"b", {}),
        name_of(b"a", {"owner": ["x"]}),
        name_of(b"a", {"owner": ["x", "y"]}),
        name_of(b"a", {"owner": ["\ud800"]}),
    }
    assert len(names) == 5
    one, other = {"a": ["1"], "b": ["2"]}, {"b": ["2"], "a": ["1"]}
    assert name_of(b"a", one) == name_of(b"a", other)
