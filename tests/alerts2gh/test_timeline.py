"""What the remediator tells: taken once, told in the issue, and holding back its close."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog
from flask import Flask
from prometheus_client import CollectorRegistry

from alerts2gh.config import Config
from alerts2gh.incident import Intent, IntentAction
from alerts2gh.metrics import TimelineMetrics
from alerts2gh.node_operations import (
    MAX_STORIES,
    SILENT_AFTER,
    UNTIL_TOLD_OTHERWISE,
    held_until,
    with_entries,
)
from alerts2gh.rendering import BODY_LIMIT
from alerts2gh.rendering.stories import story_comment
from alerts2gh.webhook import TimelineIntake, install_timeline
from alerts2gh.webhook.timeline import read_entries
from alerts2gh.worker import Housekeeper, longest_window
from chassis.alertmanager import fingerprint
from chassis.contracts import TimelineEntry, TimelinePhase
from chassis.telemetry import get_logger, new_registry
from chassis.webapp import RequestRefused, create_app
from tests.alerts2gh.builders import a_member, an_incident
from tests.alerts2gh.crashing import CrashError
from tests.alerts2gh.world import NOON, World, a_world, alert

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LABELS = {"alertname": "GPURuntimeError", "node": "gpu-n1"}
ALERT = fingerprint(LABELS)
Phase = TimelinePhase


def an_entry(phase: str = "Draining", at: datetime = NOON, **fields: Any) -> dict[str, Any]:
    return {
        "fingerprint": ALERT,
        "starts_at": NOON.isoformat(),
        "operation": "gpu-n1-7f3a",
        "phase": phase,
        "node": "gpu-n1",
        "at": at.isoformat(),
        "text": f"{phase} gpu-n1",
        **fields,
    }


def entry(phase: TimelinePhase = Phase.DRAINING, at: datetime = NOON, **f: Any) -> TimelineEntry:
    return TimelineEntry.model_validate({**an_entry(phase.value, at), **f})


# What is taken.


@pytest.mark.parametrize(
    ("body", "reason", "text"),
    [
        pytest.param(b"{", "bad_json", "the body is no JSON", id="no JSON"),
        pytest.param(b"[]", "bad_entry", "the body: Input should be an object", id="a list"),
        pytest.param(b'"\\ud800"', "bad_json", "no JSON", id="half a surrogate pair"),
        pytest.param(b'{"entries": []}', "bad_entry", "entries: ", id="no entries"),
        pytest.param(
            orjson.dumps({"entries": [an_entry()] * 1001}),
            "bad_entry",
            "entries: ",
            id="too many entries",
        ),
        pytest.param(
            orjson.dumps({"entries": [an_entry(), an_entry("Dancing")]}),
            "bad_entry",
            "entries[1].phase: ",
            id="an unknown phase",
        ),
        pytest.param(
            orjson.dumps(an_entry(surprise=1)), "bad_entry", "surprise: Extra", id="an unknown key"
        ),
        pytest.param(
            orjson.dumps({"entries": [an_entry()], "node": "x"}),
            "bad_entry",
            "node: Extra",
            id="an unknown key beside entries",
        ),
        pytest.param(
            orjson.dumps(an_entry() | {"at": "2026-11-30T12:00:00"}),
            "bad_entry",
            "at: ",
            id="no time zone",
        ),
        pytest.param(
            orjson.dumps(an_entry() | {"at": 1796040000}), "bad_entry", "at: ", id="a number"
        ),
        pytest.param(orjson.dumps(an_entry(attempt="2")), "bad_entry", "attempt: ", id="a text"),
        pytest.param(orjson.dumps(an_entry(fingerprint="X")), "bad_entry", "fingerprint: ", id="X"),
        pytest.param(
            orjson.dumps(an_entry(text="x" * 4097)), "bad_entry", "text: ", id="too long a text"
        ),
    ],
)
def test_what_can_never_be_an_entry_is_refused(body: bytes, reason: str, text: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        read_entries(body)

    assert (caught.value.status, caught.value.reason) == (400, reason)
    assert text in str(caught.value)


def test_many_mistakes_are_told_in_short() -> None:
    with pytest.raises(RequestRefused, match=r"; and \d+ more$"):
        read_entries(orjson.dumps({"entries": [an_entry("Dancing")] * 20}))


def test_one_entry_and_several_are_read() -> None:
    one, two = an_entry(), an_entry("Verifying")

    assert read_entries(orjson.dumps(one)) == (entry(),)
    assert read_entries(orjson.dumps({"entries": [one, two]})) == (entry(), entry(Phase.VERIFYING))


# What holds back the close.

MEMBER = replace(a_member(starts_at=NOON), fingerprint=ALERT, labels=LABELS)
NOW = NOON + HOUR
WEEK = (NOON + SILENT_AFTER).replace(hour=0, minute=0)


@pytest.mark.parametrize(
    ("entries", "member", "now", "expected"),
    [
        pytest.param([], MEMBER, NOW, None, id="no operation"),
        pytest.param([entry()], MEMBER, NOW, WEEK, id="one at work, for a week of silence"),
        pytest.param([entry()], MEMBER, WEEK, None, id="one that has been silent for a week"),
        pytest.param(
            [entry(at=NOON + 400 * DAY)], MEMBER, NOW, WEEK, id="a clock that is far ahead"
        ),
        pytest.param(
            [entry(), entry(Phase.SUCCEEDED, NOON + MINUTE)], MEMBER, NOW, None, id="one that ended"
        ),
        pytest.param(
            [entry(Phase.SUCCEEDED, NOON + MINUTE), entry()], MEMBER, NOW, None, id="late news"
        ),
        pytest.param(
            [entry(Phase.ESCALATED)], MEMBER, NOW, UNTIL_TOLD_OTHERWISE, id="one that was escalated"
        ),
        pytest.param(
            [entry(Phase.ESCALATED)],
            replace(MEMBER, starts_at=NOON + MINUTE),
            NOW,
            None,
            id="one that was escalated before the alert fired anew",
        ),
        pytest.param(
            [entry(Phase.ESCALATED), entry(Phase.SUCCEEDED, NOON + MINUTE, operation="second")],
            MEMBER,
            NOW,
            None,
            id="another operation on the node has mended it since",
        ),
        pytest.param(
            [entry(Phase.ESCALATED), entry(Phase.SUCCEEDED, NOON + MINUTE, node="other")],
            MEMBER,
            NOW,
            UNTIL_TOLD_OTHERWISE,
            id="another node was mended",
        ),
    ],
)
def test_until_when_operations_hold_back_the_close(
    entries: list[TimelineEntry], member: Any, now: datetime, expected: datetime | None
) -> None:
    assert held_until(entries, {ALERT: member}, now) == expected


def test_what_a_comment_under_way_tells_stays_first() -> None:
    late, early = entry(Phase.VERIFYING, NOON + MINUTE), entry(Phase.GATED, NOON - MINUTE)
    telling = Intent(IntentAction.COMMENT, "t", NOON, tells=1)
    incident = an_incident(MEMBER, stories=(late,))

    assert with_entries(incident, [], [early], NOW).stories == (early, late)
    during = replace(incident, intent=telling)
    assert with_entries(during, [], [early], NOW).stories == (late, early)


def test_stories_that_nobody_can_be_told_do_not_pile_up() -> None:
    many = [entry(at=NOON + n * MINUTE, attempt=n + 1) for n in range(MAX_STORIES + 5)]

    after = with_entries(an_incident(MEMBER), [], many, NOW)

    assert (after.stories, after.stories_dropped) == (tuple(many[5:]), 5)


# What is told.


def test_a_comment_tells_as_many_as_fit_and_mentions_nobody() -> None:
    loud = "@org/everyone fixes #1 <img src=x> --> \u2028" + "*x* " * 1000
    many = [entry(at=NOON + n * MINUTE, attempt=n + 1, text=loud[:4096]) for n in range(100)]

    text, told = story_comment(many, 3, "token")

    assert 1 <= told < 100
    assert len(text) <= BODY_LIMIT
    assert text.startswith("<!-- alerts2gh:write:token -->\n**Node operation**\n")
    assert "@org" not in text
    assert "<img" not in text
    assert text.endswith("3 earlier steps are not listed.")


@pytest.mark.parametrize(
    ("address", "linked"),
    [
        pytest.param("https://rem.example/operations/no-1", True, id="A1 a web page is linked"),
        pytest.param("http://rem:8080/operations/no-1", True, id="A2 without TLS, too"),
        pytest.param("javascript:alert(1)", False, id="A3 a script is text"),
        pytest.param("ftp://rem.example/x", False, id="A4 and so is any other address"),
        pytest.param("https://a:b@rem.example/x", False, id="A5 one with a password is code"),
    ],
)
def test_of_the_addresses_in_an_entry_only_plain_web_pages_are_links(
    address: str, linked: bool
) -> None:
    text, _ = story_comment([entry(text=f"inspect it.\n{address}")], 0, "token")

    assert (f"](<{address}>)" in text) is linked
    assert text.count("](<") == int(linked)


# The whole way.


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as one:
        yield one


def tell(world: World, *entries: dict[str, Any]) -> int:
    intake = TimelineIntake(
        world.store,
        poke=lambda: None,
        clock=world.clock,
        metrics=TimelineMetrics(CollectorRegistry()),
        log=structlog.wrap_logger(structlog.ReturnLogger()),
    )
    new = intake.take(orjson.dumps({"entries": entries}))
    world.settle()
    return new


def step(world: World, phase: str, **fields: Any) -> dict[str, Any]:
    return an_entry(phase, world.clock.at, **fields)


def story(world: World) -> list[str]:
    return [c.body for c in world.comments() if "Node operation" in c.body]


def fire_and_resolve(world: World) -> None:
    world.deliver(alert())
    world.advance(5 * MINUTE)
    world.deliver(alert(firing=False))


def test_the_issue_tells_the_story_and_closes_only_after_it_ended_well(world: World) -> None:
    world.deliver(alert())
    world.advance(MINUTE)
    assert tell(world, step(world, "Received"), step(world, "Isolated")) == 2
    (first,) = story(world)
    assert "**Received**" in first
    assert "**Isolated**" in first
    assert "`gpu-n1-7f3a` on `gpu-n1`" in first
    assert "An operation on the node is under way" in (world.issue().body or "")

    world.advance(5 * MINUTE)
    world.deliver(alert(firing=False))
    world.advance(2 * HOUR)
    assert world.states() == ["open"]

    tell(world, step(world, "Succeeded", outcome="healed"))
    assert "**Succeeded**, healed" in story(world)[-1]
    world.advance(MINUTE)
    assert world.states() == ["closed"]
    assert "is under way" not in (world.issue().body or "")


def test_an_escalated_operation_keeps_the_issue_open(world: World) -> None:
    fire_and_resolve(world)
    tell(world, step(world, "Executing"))
    assert "is under way" in (world.issue().body or "")
    tell(world, step(world, "Escalated", outcome="not_healed"))
    assert "has given up and waits for a person" in (world.issue().body or "")
    assert "is under way" not in (world.issue().body or "")
    world.advance(30 * DAY)

    assert world.states() == ["open"]


def test_an_operation_that_falls_silent_holds_for_a_week(world: World) -> None:
    fire_and_resolve(world)
    tell(world, step(world, "Executing"))
    world.advance(6 * DAY)
    assert world.states() == ["open"]
    world.advance(DAY)
    assert world.states() == ["closed"]


def test_an_entry_told_again_makes_no_second_comment(world: World) -> None:
    world.deliver(alert())
    entries = step(world, "Received"), step(world, "Draining")

    assert tell(world, *entries) == 2
    assert tell(world, *entries) == 0
    world.restart()
    assert tell(world, *entries) == 0
    assert len(story(world)) == 1


def test_early_entries_wait_for_their_alert(world: World) -> None:
    tell(world, step(world, "Received"))
    world.advance(HOUR)
    world.deliver(alert())

    assert len(story(world)) == 1


def test_entries_whose_alert_does_not_come_are_let_go_after_a_day(world: World) -> None:
    tell(world, step(world, "Received"))
    log = structlog.wrap_logger(structlog.ReturnLogger())
    keep_for = longest_window(world.config)
    housekeeper = Housekeeper(world.store, lambda: keep_for, clock=world.clock, log=log)
    world.advance(23 * HOUR)
    assert housekeeper.turn() == (0, 0)
    world.advance(2 * HOUR)
    assert housekeeper.turn() == (0, 1)
    world.deliver(alert())

    assert story(world) == []


def test_the_housekeeper_lets_go_of_what_is_long_over(world: World) -> None:
    fire_and_resolve(world)
    world.advance(HOUR)
    log = structlog.wrap_logger(structlog.ReturnLogger())
    keep_for = longest_window(world.config)
    housekeeper = Housekeeper(world.store, lambda: keep_for, clock=world.clock, log=log)
    assert keep_for == 8 * DAY
    world.advance(keep_for - HOUR)
    assert housekeeper.turn() == (0, 0)
    world.advance(HOUR)
    assert housekeeper.turn() == (1, 0)
    assert world.states() == ["closed"]


def test_the_longest_window_of_any_route_counts(tmp_path: Path) -> None:
    route = {"repository": "acme/alerts", "policy": {"suppress_for": "30d"}}
    with a_world(tmp_path, route=route, policy={"close_after": "15m"}) as world:
        config: Config = world.config

        assert longest_window(config) == 31 * DAY


def test_an_operation_goes_on_telling_when_its_alert_fires_anew(world: World) -> None:
    world.deliver(alert())
    tell(world, step(world, "Received"))
    world.advance(5 * MINUTE)
    world.deliver(alert(starts_at=world.clock.at))

    tell(world, step(world, "Succeeded"))

    assert "**Succeeded**" in story(world)[-1]


def test_what_is_told_after_the_close_is_a_comment_on_the_closed_issue(world: World) -> None:
    fire_and_resolve(world)
    world.advance(HOUR)
    tell(world, step(world, "Cancelled", outcome="cancelled"))

    assert (world.states(), len(story(world))) == (["closed"], 1)


def test_a_route_without_comments_tells_operations_all_the_same(tmp_path: Path) -> None:
    with a_world(tmp_path, policy={"comment_on": "nothing"}) as world:
        world.deliver(alert())
        tell(world, step(world, "Received"))

        assert len(story(world)) == len(world.comments()) == 1


@pytest.mark.parametrize("point", range(1, 13))
def test_a_crash_anywhere_tells_the_story_once(world: World, point: int) -> None:
    world.deliver(alert())
    world.points.crash_at(point)
    try:
        tell(world, step(world, "Received"), step(world, "Draining"))
    except CrashError:
        world.restart()
    world.points.disarm()
    world.advance(HOUR)

    assert len(story(world)) == 1


# Over HTTP.


@pytest.fixture
def app(world: World) -> Flask:
    registry = new_registry("alerts2gh", "0")
    log = get_logger("test")
    app = create_app("alerts2gh", registry=registry, log=log, max_body_bytes=10_000, auth=None)
    intake = TimelineIntake(world.store, lambda: None, world.clock, TimelineMetrics(registry), log)
    install_timeline(app, intake)
    return app


def test_the_answer_says_how_many_were_new(app: Flask) -> None:
    client = app.test_client()
    body = orjson.dumps({"entries": [an_entry(), an_entry("Verifying")]})

    answers = [client.post("/v1/timeline", data=body) for _ in range(2)]

    assert [(a.status_code, a.json) for a in answers] == [(200, {"new": 2}), (200, {"new": 0})]
    metrics = client.get("/metrics").text
    assert 'alerts2gh_timeline_entries_total{kind="new"} 2.0' in metrics
    assert 'alerts2gh_timeline_entries_total{kind="known"} 2.0' in metrics


def test_refusals_have_the_one_error_shape(app: Flask) -> None:
    client = app.test_client()

    bad = client.post("/v1/timeline", data=orjson.dumps(an_entry("Dancing")))
    large = client.post("/v1/timeline", data=b"x" * 10_001)

    assert (bad.status_code, orjson.loads(bad.data)["reason"]) == (400, "bad_entry")
    assert (large.status_code, orjson.loads(large.data)["reason"]) == (413, "body_too_large")
    assert "alerts2gh_timeline_refused_total 1.0" in client.get("/metrics").text
