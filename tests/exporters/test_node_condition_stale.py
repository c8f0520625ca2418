"""When nobody vouches for a condition any more, and that it shows at the scrape without any change of the node."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from exporters.node_condition_exporter.exposition import Exposition
from exporters.node_condition_lines import NodeLines, render_node
from tests.exporters.node_builders import NOW, a_condition, a_node, a_policy, ago


class Watched:
    """Nodes that change while their exposition is asked for."""

    def __init__(self, *nodes: dict[str, Any], **policy: Any) -> None:
        self.policy = a_policy(stale={"period": "5m"}, **policy)
        self.nodes: dict[str, NodeLines | None] = {}
        self.exposition = Exposition(lambda: self.nodes, self.policy)
        for node in nodes:
            self.put(node)

    def put(self, node: dict[str, Any]) -> None:
        self.nodes[node["metadata"]["name"]] = render_node(node, self.policy)

    def stale(self, at: datetime) -> dict[str, int]:
        """The value of the stale family by node and condition."""
        start = "nodemend_node_condition_stale{"
        lines = b"".join(self.exposition.pieces(at)).decode().splitlines()
        found = [line.removeprefix(start) for line in lines if line.startswith(start)]
        return {line.partition("}")[0].replace('"', ""): int(line[-1]) for line in found}


@pytest.mark.parametrize(
    ("condition", "stale"),
    [
        pytest.param(a_condition("X"), 0, id="written a minute ago"),
        pytest.param(a_condition("X", lastHeartbeatTime=ago(minutes=15)), 0, id="three periods old"),
        pytest.param(a_condition("X", lastHeartbeatTime=ago(minutes=15, seconds=1)), 1, id="older"),
        pytest.param(a_condition("X", lastHeartbeatTime=ago(days=17)), 1, id="17 days old"),
        pytest.param(a_condition("X", lastHeartbeatTime=None), 1, id="never said to hold"),
        pytest.param(a_condition("X", lastHeartbeatTime="soon"), 1, id="a time that is none"),
        pytest.param(a_condition("X", lastHeartbeatTime=ago(minutes=-14)), 0, id="a clock ahead"),
        pytest.param(a_condition("X", lastHeartbeatTime=ago(days=-3)), 1, id="a clock far ahead"),
    ],
)  # fmt: skip
def test_a_condition_is_stale_when_its_heartbeat_is_older_than_three_periods(
    condition: Any, stale: int
) -> None:
    assert Watched(a_node("n1", [condition])).stale(NOW) == {"node=n1,condition=X": stale}


@pytest.mark.parametrize(
    ("ready", "stale"), [("True", 0), ("False", 0), ("Unknown", 1), ("Bogus", 0)]
)
def test_nothing_holds_that_a_silent_node_once_wrote(ready: str, stale: int) -> None:
    node = a_node("n1", [a_condition("Ready", ready), a_condition("X")])

    assert Watched(node).stale(NOW) == {"node=n1,condition=X": stale}


def test_the_node_controllers_own_conditions_are_not_judged() -> None:
    node = a_node("n1", [a_condition("MemoryPressure", lastHeartbeatTime=ago(days=1))])

    assert Watched(node).stale(NOW) == {}


def test_a_condition_becomes_stale_at_a_scrape_without_any_change_of_its_node() -> None:
    watched = Watched(a_node("n1", [a_condition("X", lastHeartbeatTime=ago(minutes=14))]))
    limit = NOW + timedelta(minutes=1)

    seen = [
        watched.stale(limit + timedelta(seconds=each))["node=n1,condition=X"]
        for each in (-60, -1, 0, 1, 2)
    ]

    assert seen == [0, 0, 0, 1, 1]


def test_a_new_heartbeat_makes_it_fresh_again() -> None:
    watched = Watched(a_node("n1", [a_condition("X", lastHeartbeatTime=ago(hours=1))]))
    before = watched.stale(NOW)
    watched.put(a_node("n1", [a_condition("X", lastHeartbeatTime=ago(seconds=0))]))

    assert (before, watched.stale(NOW)) == ({"node=n1,condition=X": 1}, {"node=n1,condition=X": 0})


def test_a_clock_that_jumps_ahead_and_back_leaves_nothing_stale() -> None:
    watched = Watched(a_node("n1", [a_condition("X")]))

    seen = [watched.stale(NOW + each)["node=n1,condition=X"] for each in (timedelta(0), timedelta(days=1), timedelta(0))]  # fmt: skip

    assert seen == [0, 1, 0]


def test_a_heartbeat_far_ahead_becomes_fresh_when_its_time_comes() -> None:
    watched = Watched(a_node("n1", [a_condition("X", lastHeartbeatTime=ago(hours=-1))]))
    after = [timedelta(minutes=each) for each in (0, 44, 46, 74, 76)]

    assert [watched.stale(NOW + each)["node=n1,condition=X"] for each in after] == [1, 1, 0, 0, 1]


def test_only_what_changed_or_is_due_is_judged_again() -> None:
    watched = Watched(a_node("n1", [a_condition("X")]), a_node("n2", [a_condition("X")]))
    watched.stale(NOW)
    first = dict(watched.exposition._judged)
    watched.put(a_node("n2", [a_condition("X")]))
    watched.stale(NOW + timedelta(seconds=1))
    second = watched.exposition._judged

    assert [second[name] is first[name] for name in ("n1", "n2")] == [True, False]
