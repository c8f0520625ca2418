"""Two Alertmanagers that promise at-least-once and nothing else: late, repeated, truncated and in any order.

Each group ends with the right state, in at most one issue.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alerts2gh.incident import FoldReason, Member
from chassis.alertmanager import Alert, parse_webhook
from tests.alerts2gh.twins import TwinWorld
from tests.alerts2gh.world import NOON, a_world, alert, webhook

SECOND = timedelta(seconds=1)
LATEST = 100  # seconds; less than the reorder window of two minutes, beyond which lateness is news
IN_THE_END = timedelta(hours=6)


@dataclass(frozen=True)
class Copy:
    """One delivery of a flush: by whom, how late, cut to how many alerts, and whether work is done after it."""

    sender: str
    delay: int
    cut: int | None
    settle: bool


@dataclass(frozen=True)
class Flush:
    """A change in one group: after `gap` seconds these members change between firing and resolved."""

    group: int
    gap: int
    toggled: frozenset[int]
    copies: tuple[Copy, ...]


copies = st.builds(
    Copy,
    sender=st.sampled_from("AB"),
    delay=st.integers(0, LATEST),
    cut=st.none() | st.integers(1, 2),
    settle=st.booleans(),
)
flushes = st.builds(
    Flush,
    group=st.integers(0, 2),
    gap=st.sampled_from((1, 5, 20, 60, 130, 600, 1200)),
    toggled=st.frozensets(st.integers(0, 3), min_size=1),
    copies=st.lists(copies, min_size=1, max_size=4).map(tuple),
)
histories = st.lists(flushes, min_size=1, max_size=9)


@dataclass(frozen=True)
class Sent:
    """What arrives, and when."""

    at: datetime
    group: int
    body: dict[str, Any]
    settle: bool


@dataclass
class Truth:
    """What is so: for each group and member the start of its last episode, and whether it still fires."""

    members: dict[int, dict[int, tuple[datetime, bool]]]

    @classmethod
    def none(cls) -> "Truth":
        return cls({})

    def change(self, flush: Flush, at: datetime) -> list[dict[str, Any]]:
        """Apply a flush; the alerts an Alertmanager sends for it: what fires, and what has just resolved."""
        group = self.members.setdefault(flush.group, {})
        for member in flush.toggled:
            starts_at, firing = group.get(member, (at, False))
            group[member] = (starts_at if firing else at, not firing)
        shown = {m: s for m, s in group.items() if s[1] or m in flush.toggled}
        return [
            alert(f"gpu-n{m}", starts_at=starts_at, firing=firing)
            for m, (starts_at, firing) in sorted(shown.items())
        ]

    def fires(self, group: int) -> bool:
        return any(firing for _, firing in self.members.get(group, {}).values())


def deliveries(history: list[Flush]) -> tuple[list[Sent], Truth]:
    """All that is sent, in the order of arrival. The first copy of each flush is whole."""
    truth, at = Truth.none(), NOON
    sent = []
    for flush in history:
        at += flush.gap * SECOND
        alerts = truth.change(flush, at)
        for number, copy in enumerate(flush.copies):
            cut = copy.cut if number and copy.cut and copy.cut < len(alerts) else None
            body = webhook(
                *alerts[:cut],
                group={"alertname": f"Group{flush.group}"},
                truncated=len(alerts) - cut if cut else 0,
                externalURL=f"http://{copy.sender}.example:9093",
            )
            sent.append(Sent(at + copy.delay * SECOND, flush.group, body, copy.settle))
    return sorted(sent, key=lambda each: each.at), truth


def play(world: Any, take: Callable[[dict[str, Any]], object], history: list[Flush]) -> None:
    sent, truth = deliveries(history)
    for each in sent:
        if each.settle:
            world.advance(max(each.at - world.clock.at, timedelta()))
        world.clock.at = max(world.clock.at, each.at)
        take(each.body)
    world.advance(IN_THE_END)
    last = {each.group: each.body["truncatedAlerts"] for each in sent}
    for group in truth.members:
        title = f"Group{group}"
        mine = [issue for issue in world.issues() if issue.title.startswith(title)]
        still_open = [issue for issue in world.open_issues() if issue.title.startswith(title)]
        assert len(mine) <= 1
        if truth.fires(group):
            assert len(still_open) == 1
        elif not last[group]:
            assert still_open == []
    assert_known(world, truth)


def assert_known(world: Any, truth: Truth) -> None:
    """The members are as they are in truth."""
    for incident in world.store.incidents():
        group = truth.members[int(incident.labels["alertname"].removeprefix("Group"))]
        for name, (starts_at, firing) in group.items():
            member: Member = next(
                m for m in incident.members.values() if m.labels["node"] == f"gpu-n{name}"
            )
            assert (member.starts_at, member.firing) == (starts_at, firing)


@given(histories)
@settings(max_examples=120, deadline=None, derandomize=True)
def test_any_order_ends_in_one_issue_in_the_right_state(history: list[Flush]) -> None:
    world = TwinWorld()
    play(world, lambda body: world.take(parse_webhook(orjson.dumps(body))), history)
    assert world.memory.letters == []


@given(histories)
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_the_same_with_the_real_store_and_github_over_http(
    tmp_path: Path, history: list[Flush]
) -> None:
    with TemporaryDirectory(dir=tmp_path) as folder, a_world(Path(folder)) as world:
        play(world, world.accept, history)
        assert world.store.dead_letters() == ()


def by_arrival(before: Member | None, alert: Alert) -> FoldReason:
    """What a receiver does that believes whatever came last."""
    if before is None:
        return FoldReason.NEW_MEMBER
    return FoldReason.REPEAT if alert.status is before.status else FoldReason.FIRING_AGAIN


def test_the_property_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: with the order of arrival alone deciding, a late copy leaves an issue open."""
    late = (Copy("A", 0, None, settle=True), Copy("B", 90, None, settle=True))
    history = [
        Flush(0, 1, frozenset({0}), late),
        Flush(0, 20, frozenset({0}), late[:1]),
    ]
    world = TwinWorld()

    def take(body: dict[str, Any]) -> None:
        world.take(parse_webhook(orjson.dumps(body)))

    play(world, take, history)
    monkeypatch.setattr(
        "alerts2gh.incident.folding._fold_reason",
        lambda before, alert, *_: by_arrival(before, alert),
    )
    world = TwinWorld()
    with pytest.raises(AssertionError):
        play(world, take, history)
