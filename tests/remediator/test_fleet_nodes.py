"""All nodes at once: from a watch that speaks, by a list when it is silent, and a list is not made all the time."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import structlog

from chassis.kube_client import KubeList, Unavailable
from remediator.cluster import NodeView
from remediator.kube_cluster.fleet import FleetNodes
from tests.remediator.building import MINUTE, NOW, SECOND, node_of

LONGEST = 30 * SECOND


class Watch:
    """The part of a cache that is looked at."""

    def __init__(self, *nodes: NodeView, heard: datetime | None = NOW) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.last_event = heard

    def items(self) -> dict[str, NodeView]:
        return dict(self.nodes)


class Api:
    """Lists one node, in some time, or fails."""

    def __init__(self) -> None:
        self.lists = 0
        self.fails = False
        self.took = 0.0
        self.clock = 0.0

    def pages(self, _resource: object, *, limit: int) -> Iterator[KubeList]:
        assert limit
        self.lists += 1
        self.clock += self.took
        if self.fails:
            raise Unavailable("away", status=503, reason="Away")
        yield KubeList([{"metadata": {"name": "listed"}}], "7")


class Desk:
    def __init__(self, watch: Watch) -> None:
        self.now, self.api, self.watch = NOW, Api(), watch
        whole: Any = FleetNodes(
            self.api,  # type: ignore[arg-type]  # the one verb that it uses
            watch,  # type: ignore[arg-type]  # likewise
            clock=lambda: self.now,
            log=structlog.get_logger(),
            monotonic=lambda: self.api.clock,
        )
        self.nodes: FleetNodes = whole

    def read(self) -> tuple[timedelta, list[str]]:
        """How old the nodes are, and which."""
        as_of, nodes = self.nodes.read(LONGEST)
        return self.now - as_of, sorted(nodes)


def test_a_watch_that_speaks_is_believed_and_copied_once_a_change() -> None:
    desk = Desk(Watch(node_of("n1")))

    assert desk.read() == (timedelta(0), ["n1"])
    assert desk.nodes.watched() is desk.nodes.watched()

    before = desk.nodes.watched()
    desk.watch.nodes["n2"] = node_of("n2")
    desk.nodes.changed()

    assert desk.read() == (timedelta(0), ["n1", "n2"])
    assert list(before) == ["n1"]
    assert desk.api.lists == 0


def test_a_silent_watch_is_no_news() -> None:
    desk = Desk(Watch(node_of("n1"), heard=NOW - MINUTE))

    assert desk.read() == (timedelta(0), ["listed"])
    assert desk.read() == (timedelta(0), ["listed"])
    assert desk.api.lists == 1

    desk.now += 2 * SECOND
    desk.read()
    assert desk.api.lists == 2

    desk.watch.last_event = desk.now
    assert desk.read() == (timedelta(0), ["n1"])


def test_a_list_that_takes_long_is_used_longer_and_its_age_is_told() -> None:
    desk = Desk(Watch(heard=None))
    desk.api.took = 2.0
    desk.read()

    desk.now += 19 * SECOND
    assert desk.read() == (19 * SECOND, ["listed"])
    assert desk.api.lists == 1

    desk.now += 2 * SECOND
    assert desk.read() == (timedelta(0), ["listed"])

    desk.api.took = 100.0
    desk.now += MINUTE
    desk.read()
    desk.now += LONGEST
    desk.read()
    assert desk.api.lists == 4


def test_what_cannot_be_listed_stays_as_old_as_it_is() -> None:
    desk = Desk(Watch(node_of("n1"), heard=NOW - MINUTE))
    desk.api.fails = True

    assert desk.read() == (MINUTE, ["n1"])
