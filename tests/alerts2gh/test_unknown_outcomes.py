"""Writes whose outcome nobody knows, limits, a lost credential, and crashes at every point of every write.

Whatever happens, GitHub ends with one open issue for what fires, every change told, and nothing told twice.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from alerts2gh.config import FlappingPolicy, IssuePolicy
from alerts2gh.incident import IssueState
from alerts2gh.worker import Clerk
from sandbox.github_server import Fault, FaultKind
from tests.alerts2gh.crashing import COMMITS, WRITES, CrashError
from tests.alerts2gh.twins import TwinWorld
from tests.alerts2gh.world import HOME, NOON, World, a_world, alert

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
LONGEST_LOOK = timedelta(seconds=60)
# The first of the chain does not exist; saying so is an edit right after the assignment.
CHAIN = {
    "repository": HOME,
    "assignees": [{"static": {"logins": ["nobody-knows"]}}, {"static": {"logins": ["bob"]}}],
}
FLAPPY = {"flapping": {"changes": 4, "hold": "30m"}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path, route=CHAIN, policy=FLAPPY) as one:
        yield one


Accepting = World | TwinWorld

# A life that makes every kind of write. Each step may be delivered again by a sender that got no answer.


def opens(world: Accepting) -> None:
    world.accept_alerts(alert(starts_at=NOON))


def resolves(world: Accepting) -> None:
    world.accept_alerts(alert(starts_at=NOON, firing=False))


def again(world: Accepting) -> None:
    world.accept_alerts(alert(starts_at=NOON + 25 * MINUTE))


def flaps(world: Accepting) -> None:
    world.accept_alerts(alert(starts_at=NOON + 25 * MINUTE, firing=False))


def stays(world: Accepting) -> None:
    world.accept_alerts(
        alert(starts_at=NOON + 45 * MINUTE), alert("gpu-n2", starts_at=NOON + 45 * MINUTE)
    )


STORY: tuple[tuple[Callable[[Accepting], None], timedelta], ...] = (
    (opens, 5 * MINUTE),
    (resolves, 20 * MINUTE),
    (again, 10 * MINUTE),
    (flaps, 10 * MINUTE),
    (stays, 3 * HOUR),
)


def live(world: Accepting, steps: int = len(STORY)) -> None:
    """The story, or its beginning, restarting after each crash; at its end two alerts fire."""
    for step, span in STORY[:steps]:
        surviving(world, lambda step=step: step(world))
        surviving(world, lambda span=span: world.advance(span))


def surviving(world: Accepting, act: Callable[[], None]) -> None:
    end = world.clock.at
    try:
        act()
    except CrashError:
        world.clock.at = max(world.clock.at, end)
        world.restart()
        act()


def assert_whole(world: World, steps: int = len(STORY)) -> None:
    """One open issue, in the right state, all changes told once."""
    (issue,) = world.issues()
    texts = [comment.body for comment in world.comments(issue.number)]
    tokens = [text.splitlines()[0] for text in texts]
    assert creates(world) == 1
    assert issue.state == ("closed" if steps == 2 else "open")
    assert issue.assignees == ("bob",)
    assert "Assigned: `bob`" in (issue.body or "")
    assert "flapping" not in issue.labels
    assert len(tokens) == len(set(tokens))
    assert world.store.dead_letters() == ()
    assert world.incident().intent is None
    if steps == 2:
        assert len(texts) == 1
    if steps == len(STORY):
        assert "**2 alerts firing**" in (issue.body or "")
        assert sum("gpu-n2" in text and "(new)" in text for text in texts) == 1
        assert world.next_wake() is None


def creates(world: World) -> int:
    return len(world.effects("POST", "/issues"))


PATHS = {
    "create": ("POST", r"/issues$", 1),
    "assign": ("POST", r"/assignees$", 1),
    "edit": ("PATCH", r"/issues/\d+$", 1),
    "comment": ("POST", r"/comments$", 2),
    "label": ("POST", r"/labels$", 5),
    "unlabel": ("DELETE", r"/labels/", 5),
}
"""Each write, and after how many steps of the story it has been made."""


def test_the_story_makes_every_kind_of_write(world: World) -> None:
    live(world)
    assert_whole(world)
    for method, path, _ in PATHS.values():
        assert [e for e in world.effects(method) if re.search(path, e.path)], path
    states = [e.fields["state"] for e in world.effects("PATCH") if "state" in e.fields]
    assert states == ["closed", "open"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["502", "time-out", "dropped"])
@pytest.mark.parametrize("write", PATHS)
def test_an_answer_that_does_not_come_changes_nothing_of_the_end(
    world: World, write: str, kind: str, when: str
) -> None:
    method, path, steps = PATHS[write]
    fault = {
        "502": Fault(FaultKind.ERROR, when, method, path, count=1, status=502),  # type: ignore[arg-type]
        "time-out": Fault(FaultKind.TIMEOUT, when, method, path, count=1, seconds=0.05),  # type: ignore[arg-type]
        "dropped": Fault(FaultKind.DROP, when, method, path, count=1),  # type: ignore[arg-type]
    }[kind]
    world.github.state.faults.add(fault)
    live(world, steps)
    assert any(entry.fault for entry in world.github.log())
    assert_whole(world, steps)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("state", ["closed", "open"])
def test_a_close_or_a_reopen_without_an_answer_happens_once(
    world: World, state: str, when: str
) -> None:
    number = {"closed": 2, "open": 3}[state]  # of the edits
    live(world, 1)
    lost = Fault(FaultKind.DROP, when, "PATCH", count=1)  # type: ignore[arg-type]
    if number == 2:
        world.github.state.faults.add(lost)
    resolves(world)
    world.advance(20 * MINUTE)
    assert world.states() == ["closed"]
    if number == 3:
        world.github.state.faults.add(lost)
    again(world)
    world.advance(10 * MINUTE)
    assert world.states() == ["open"]
    assert any(entry.fault for entry in world.github.log())
    changed = [e.fields["state"] for e in world.effects("PATCH") if "state" in e.fields]
    assert changed == ["closed", "open"]
    assert len(world.comments()) == 2


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("steps", "turn", "end"),
    [
        pytest.param((resolves, again), flaps, "closed", id="a reopen, and then it resolves"),
        pytest.param((resolves,), again, "open", id="a close, and then it fires"),
    ],
)
def test_a_process_dies_around_a_write_and_the_opposite_is_wanted_when_another_takes_over(
    world: World,
    steps: tuple[Callable[[Accepting], None], ...],
    turn: Callable[[Accepting], None],
    end: str,
    when: str,
) -> None:
    live(world, 1)
    for step in steps[:-1]:
        step(world)
        world.advance(20 * MINUTE)
    world.points.crash_on(f"{when} edit_issue")
    steps[-1](world)
    with pytest.raises(CrashError):
        world.advance(20 * MINUTE)
    world.restart()

    turn(world)
    world.advance(HOUR)

    assert world.states() == [end]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_list_that_lags_less_than_the_looks_needs_one_create(world: World, when: str) -> None:
    world.github.state.switches.list_lag = LONGEST_LOOK - timedelta(seconds=5)
    lose_the_create(world, when)
    world.accept_alerts(alert())
    world.advance(HOUR)
    assert (creates(world), world.states()) == (1, ["open"])


def lose_the_create(world: World, when: str, count: int = 1) -> None:
    fault = Fault(FaultKind.ERROR, when, "POST", "/issues$", count=count)  # type: ignore[arg-type]
    world.github.state.faults.add(fault)


def test_a_list_that_lags_longer_makes_a_second_issue_that_the_audit_repairs(world: World) -> None:
    world.github.state.switches.list_lag = 5 * MINUTE
    lose_the_create(world, "after")
    world.accept_alerts(alert())
    world.advance(2 * MINUTE)
    assert world.states() == ["open", "open"]
    world.advance(15 * MINUTE)
    assert world.states() == ["open", "closed"]
    assert world.issue(2).state_reason == "duplicate"
    assert "#1" in world.comments(2)[-1].body
    assert world.issue(1).assignees == ("bob",)
    resolves(world)
    world.advance(HOUR)
    assert world.states() == ["closed", "closed"]


def test_an_issue_hidden_by_the_list_is_found_though_nothing_fires_any_more(world: World) -> None:
    world.github.state.switches.list_lag = 5 * MINUTE
    lose_the_create(world, "after")
    world.accept_alerts(alert())
    world.advance(timedelta(seconds=30))
    resolves(world)
    world.advance(HOUR)
    assert world.states() == ["closed"]
    assert world.next_wake() is None


def test_changes_that_come_while_a_create_is_unanswered_are_told(world: World) -> None:
    lose_the_create(world, "after")
    world.accept_alerts(alert())
    world.advance(timedelta(seconds=1))
    world.accept_alerts(alert("gpu-n2"))
    world.advance(HOUR)
    assert creates(world) == 1
    assert "gpu-n2" in (world.issue().body or "")
    assert ["gpu-n2" in comment.body for comment in world.comments()] == [True]


def test_a_repair_that_breaks_off_says_nothing_twice(world: World) -> None:
    world.github.state.switches.list_lag = 5 * MINUTE
    lose_the_create(world, "after")
    world.accept_alerts(alert())
    world.advance(2 * MINUTE)
    world.github.state.faults.add(
        Fault(FaultKind.ERROR, "after", "POST", "/issues/2/comments$", count=1)
    )
    world.github.state.faults.add(Fault(FaultKind.ERROR, "before", "PATCH", "/issues/2$", count=2))
    world.advance(HOUR)
    assert world.states() == ["open", "closed"]
    assert len(world.comments(2)) == 1


def test_a_second_issue_that_cannot_be_closed_costs_the_first_nothing(world: World) -> None:
    world.github.state.switches.list_lag = 5 * MINUTE
    lose_the_create(world, "after")
    world.accept_alerts(alert())
    world.advance(2 * MINUTE)
    world.github.state.faults.add(
        Fault(FaultKind.ERROR, "before", "PATCH", "/issues/2$", status=403)
    )
    world.advance(HOUR)
    assert world.states() == ["open", "open"]
    assert world.store.dead_letters() == ()
    assert world.next_wake() is None


# Limits.


LIMITS = {
    "primary with headers": Fault(FaultKind.PRIMARY_LIMIT, seconds=1800, status=403),
    "primary as 429": Fault(FaultKind.PRIMARY_LIMIT, seconds=1800, status=429),
    "secondary with retry-after": Fault(FaultKind.SECONDARY_LIMIT, retry_after=1800, status=403),
    "secondary as 429 with retry-after": Fault(
        FaultKind.SECONDARY_LIMIT, retry_after=1800, status=429
    ),
    "secondary without headers": Fault(FaultKind.SECONDARY_LIMIT, status=403, headers=False),
    "429 without headers": Fault(FaultKind.SECONDARY_LIMIT, status=429, headers=False),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_obeyed_by_writes_and_reads_and_over_a_restart(world: World, name: str) -> None:
    fault = replace(LIMITS[name], method="POST", path="/issues$", count=1)
    wait = timedelta(seconds=fault.retry_after or fault.seconds or 60)
    world.github.state.faults.add(fault)
    world.accept_alerts(alert())
    world.settle()
    blocked = len(world.github.log())
    world.restart()
    world.accept_alerts(alert("gpu-n2"))
    world.accept_alerts(alert(), group={"alertname": "Other"})
    world.advance(wait - timedelta(seconds=5))
    assert len(world.github.log()) == blocked
    world.advance(HOUR)
    assert world.states() == ["open", "open"]
    assert world.store.dead_letters() == ()


def test_a_limit_met_by_a_read_stops_writes(world: World) -> None:
    world.accept_alerts(alert())
    world.settle()
    limit = Fault(
        FaultKind.SECONDARY_LIMIT, method="GET", path="/issues/1$", count=1, retry_after=600
    )
    world.github.state.faults.add(limit)
    world.accept_alerts(alert("gpu-n2"))
    world.settle()
    blocked = len(world.github.log())
    world.accept_alerts(alert(), group={"alertname": "Other"})
    world.advance(9 * MINUTE)
    assert len(world.github.log()) == blocked
    world.advance(HOUR)
    assert world.states() == ["open", "open"]


def test_a_refused_token_is_tried_again_and_a_rotated_one_works(world: World) -> None:
    world.github.state.revoke_token(world.github.token)
    world.accept_alerts(alert())
    world.advance(HOUR)
    assert world.issues() == []
    assert world.store.dead_letters() == ()
    world.github.state.add_token("rotated", world.github.login)
    (world.folder / "token").write_text("rotated")
    world.advance(HOUR)
    assert world.states() == ["open"]


def test_a_login_that_github_does_not_tell_holds_up_without_a_flood(world: World) -> None:
    world.github.state.faults.add(
        Fault(FaultKind.ERROR, method="GET", path="^/user$", status=404, count=3)
    )
    world.accept_alerts(alert())
    world.settle()
    assert len(world.github.log()) == 1
    world.advance(HOUR)
    assert world.states() == ["open"]


# Crashes.


STEPS = {
    "create_issue": 1,
    "add_assignees": 1,
    "edit_issue": 1,
    "save": 1,
    "save_budget": 1,
    "add_comment": 2,
    "add_labels": 5,
    "remove_label": 5,
}


def test_all_writes_are_crashed_around() -> None:
    assert STEPS.keys() == {*WRITES, *COMMITS} - {"bury"}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", STEPS)
def test_a_crash_around_a_write_or_a_commit_loses_and_doubles_nothing(
    world: World, name: str, when: str
) -> None:
    world.points.crash_on(f"{when} {name}")
    live(world, STEPS[name])
    assert not world.points.armed
    assert_whole(world, STEPS[name])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_around_a_dead_letter_leaves_one_at_least(tmp_path: Path, when: str) -> None:
    with a_world(tmp_path) as world:
        world.github.state.change_repository(HOME, archived=True)
        world.points.crash_on(f"{when} bury")
        live(world, 1)
        assert world.states("acme/fallback") == ["open"]
        assert {letter.reason for letter in world.store.dead_letters()} == {"archived"}


def test_a_crash_at_each_point_of_the_whole_story_makes_one_issue() -> None:
    """In memory, until the story passes without reaching the next point."""
    number, reached = 0, True
    while reached:
        number += 1
        world = TwinWorld(IssuePolicy(flapping=FlappingPolicy(changes=4, hold=30 * MINUTE)))
        world.points.crash_at(number)
        live(world)
        reached = not world.points.armed
        (issue,) = world.issues()
        texts = [comment.body for comment in world.github.comments[1]]
        tokens = [text.splitlines()[0] for text in texts]
        assert (issue.state, "flapping" in issue.labels) == (IssueState.OPEN, False), number
        assert len(tokens) == len(set(tokens)), number
        assert sum("gpu-n2" in text and "(new)" in text for text in texts) == 1, number
        assert world.memory.letters == []
        assert world.next_wake() is None
    assert number > 60


def test_without_the_intent_a_crash_after_the_create_makes_a_second_issue(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the checks above can fail."""
    monkeypatch.setattr(Clerk, "_note_intent", lambda *_: None)
    world.github.state.switches.list_lag = MINUTE
    world.points.crash_on("after create_issue")
    surviving(world, lambda: opens(world))
    surviving(world, lambda: world.advance(5 * MINUTE))
    assert creates(world) == 2
    with pytest.raises(ValueError, match="too many values"):
        assert_whole(world, 1)
