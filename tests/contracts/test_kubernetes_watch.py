"""A cache follows the API through outages: nothing missed, nothing that vanished left over, no list without need."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from chassis.kube_client import CONFIG_MAPS, NODES, Expired, KubeClient
from chassis.kube_watch import Backoff, Change, ChangeKind, KubeCache, WatchMetrics
from tests.contracts.kubernetes_peers import (
    SOON,
    KubernetesPeer,
    a_config_map,
    a_node,
    now,
    wait_for,
)

Node = dict[str, Any]


class Watched:
    """A started cache of the nodes with one label, and all that it told."""

    def __init__(self, client: KubeClient, label: str, **options: Any) -> None:
        self.told: list[Change[Node]] = []
        self.registry = CollectorRegistry()
        options.setdefault("on_change", self.told.append)
        self.cache: KubeCache[Node] = KubeCache(
            client,
            NODES,
            log=structlog.get_logger(),
            clock=now,
            label_selector=f"test={label}",
            page_size=2,
            backoff=Backoff(first=timedelta(milliseconds=200), limit=SOON),
            metrics=WatchMetrics("nodemend", self.registry),
            **options,
        )

    def kinds(self) -> list[tuple[str, str]]:
        return [(change.kind.value, change.key) for change in self.told]

    def wait_for_label(self, name: str, value: str) -> None:
        wait_for(
            lambda: (
                ((self.cache.get(name) or {}).get("metadata", {}).get("labels", {})).get("v")
                == value
            ),
            f"{name} has v={value}",
            40,
        )


@contextmanager
def watching(client: KubeClient, label: str, **options: Any) -> Iterator[Watched]:
    watched = Watched(client, label, **options)
    watched.cache.start()
    try:
        assert watched.cache.wait_synced(20)
        wait_for(lambda: watched.cache._stream, "the watch is open")
        yield watched
    finally:
        watched.cache.stop()


def make(kube: KubeClient, label: str, *names: str) -> None:
    for name in names:
        kube.create(NODES, a_node(name, test=label))


def set_label(kube: KubeClient, name: str, value: str) -> None:
    kube.patch(NODES, name, {"metadata": {"labels": {"v": value}}})


def test_each_change_is_told_once_with_the_old_and_the_new_object(kube: KubeClient) -> None:
    make(kube, "told", "told-1", "told-2", "told-3")
    with watching(kube, "told") as watched:
        assert sorted(watched.cache.items()) == ["told-1", "told-2", "told-3"]
        set_label(kube, "told-1", "1")
        kube.delete(NODES, "told-2")
        make(kube, "told", "told-4")
        wait_for(lambda: len(watched.told) >= 6, "three more changes")

        assert watched.kinds()[3:] == [
            ("modified", "told-1"),
            ("deleted", "told-2"),
            ("added", "told-4"),
        ]
        modified, deleted = watched.told[3:5]
        assert modified.old is not None
        assert modified.new is not None
        assert "v" not in modified.old["metadata"]["labels"]
        assert modified.new["metadata"]["labels"]["v"] == "1"
        assert deleted.old is not None
        assert deleted.new is None
        assert watched.cache.relists == 0


def test_an_object_that_leaves_the_selection_is_deleted(kube: KubeClient) -> None:
    make(kube, "leaves", "leaves-1")
    with watching(kube, "leaves") as watched:
        kube.patch(NODES, "leaves-1", {"metadata": {"labels": {"test": None}}})
        # Readers see it before it is told.
        wait_for(lambda: watched.kinds()[-1] == ("deleted", "leaves-1"), "it is told")

        assert watched.cache.get("leaves-1") is None


def test_an_observer_that_fails_does_not_end_the_watch(kube: KubeClient) -> None:
    told: list[str] = []

    def fail(change: Change[Node]) -> None:
        told.append(change.key)
        raise ValueError("a bug")

    make(kube, "fails", "fails-1")
    with watching(kube, "fails", on_change=fail) as watched:
        set_label(kube, "fails-1", "1")
        watched.wait_for_label("fails-1", "1")

        wait_for(lambda: len(told) >= 2, "both were told")


def test_a_watch_that_is_cut_goes_on_where_it_was_without_a_list(
    kubernetes_peer: KubernetesPeer, kube: KubeClient
) -> None:
    make(kube, "cut", "cut-1", "cut-2")
    with kubernetes_peer.relayed() as (client, relay), watching(client, "cut") as watched:
        relay.cut()
        set_label(kube, "cut-1", "1")
        kube.delete(NODES, "cut-2")
        relay.mend()
        watched.wait_for_label("cut-1", "1")
        wait_for(lambda: watched.cache.get("cut-2") is None, "the deletion arrives")

        assert watched.cache.relists == 0
        assert watched.registry.get_sample_value(
            "nodemend_watch_failures_total", {"resource": "nodes"}
        )


def test_what_vanished_while_history_was_lost_is_told_as_deleted(
    kubernetes_peer: KubernetesPeer, kube: KubeClient
) -> None:
    make(kube, "gone", "gone-1", "gone-2", "gone-3", "gone-4")
    with kubernetes_peer.relayed() as (client, relay), watching(client, "gone") as watched:
        relay.cut()
        kube.delete(NODES, "gone-2")
        kube.delete(NODES, "gone-3")
        make(kube, "gone", "gone-3", "gone-5")
        set_label(kube, "gone-1", "1")
        kubernetes_peer.forget_history()
        relay.mend()
        wait_for(lambda: len(watched.told) >= 4 + 5, "five more changes", 40)

        assert watched.cache.get("gone-5")
        told = watched.kinds()[4:]
        assert sorted(told) == sorted(
            [
                ("deleted", "gone-2"),
                ("deleted", "gone-3"),
                ("added", "gone-3"),
                ("added", "gone-5"),
                ("modified", "gone-1"),
            ]
        )
        assert told.index(("deleted", "gone-3")) < told.index(("added", "gone-3"))
        assert all(c.old for c in watched.told if c.kind is ChangeKind.DELETED)
        assert watched.cache.relists == 1


def test_a_killed_server_that_comes_back_is_followed_again(
    kubernetes_peer: KubernetesPeer, kube: KubeClient
) -> None:
    make(kube, "killed", "killed-1")
    with watching(kube, "killed") as watched:
        kubernetes_peer.kill()
        assert watched.cache.get("killed-1"), "readers keep the last known state"
        kubernetes_peer.restart()
        set_label(kube, "killed-1", "1")
        watched.wait_for_label("killed-1", "1")

        assert [each for each in watched.kinds() if each[0] == "deleted"] == []


def test_a_server_that_falls_silent_is_noticed(
    kubernetes_peer: KubernetesPeer, kube: KubeClient
) -> None:
    make(kube, "silent", "silent-1")
    failures = ("nodemend_watch_failures_total", {"resource": "nodes"})
    with watching(kube, "silent", stall_timeout=SOON) as watched:
        kubernetes_peer.pause()
        try:
            before = watched.cache.last_event
            wait_for(lambda: watched.registry.get_sample_value(*failures), "silence is a failure")
            assert watched.cache.last_event == before
        finally:
            kubernetes_peer.resume()
        set_label(kube, "silent-1", "1")
        watched.wait_for_label("silent-1", "1")


def test_a_watch_stops_at_once_also_when_the_server_is_silent(
    kubernetes_peer: KubernetesPeer, kube: KubeClient
) -> None:
    make(kube, "stops", "stops-1")
    with watching(kube, "stops") as watched:
        kubernetes_peer.pause()
        try:
            started = now()
            watched.cache.stop()
            assert now() - started < timedelta(seconds=1)
        finally:
            kubernetes_peer.resume()
        assert not [each for each in threading.enumerate() if each.name == "watch-nodes"]


def test_bookmarks_tell_that_the_watch_lives(kube: KubeClient) -> None:
    params = {"allowWatchBookmarks": True, "timeoutSeconds": 3, "resourceVersion": "0"}
    with kube.watch_lines(
        CONFIG_MAPS, "default", params=params, read_timeout=timedelta(seconds=30)
    ) as stream:
        lines = [*stream]

    # The API sends one shortly before it ends a watch in good order.
    assert b'"BOOKMARK"' in lines[-1]


def test_a_watch_from_a_forgotten_version_has_expired(
    kubernetes_peer: KubernetesPeer, kube: KubeClient
) -> None:
    old = kube.create(CONFIG_MAPS, a_config_map("forgotten"))["metadata"]["resourceVersion"]
    kube.patch(CONFIG_MAPS, "forgotten", {"data": {"a": "1"}}, "default")
    kubernetes_peer.forget_history()
    kube.patch(CONFIG_MAPS, "forgotten", {"data": {"a": "2"}}, "default")

    def first_line() -> bytes:
        params = {"resourceVersion": old, "timeoutSeconds": 5}
        with kube.watch_lines(
            CONFIG_MAPS, "default", params=params, read_timeout=timedelta(seconds=10)
        ) as stream:
            return next(iter(stream))

    # Some servers refuse the request, others answer with one event.
    try:
        told = first_line()
    except Expired as error:
        told = f'"ERROR" "code":{error.status}'.encode()
    assert b'"ERROR"' in told
    assert b'"code":410' in told


def test_a_server_with_an_empty_database_is_listed_anew(
    kubernetes_peer: KubernetesPeer, kube: KubeClient
) -> None:
    """Versions start over, so that the ones we know lie in a future that may never come."""
    make(kube, "empty", "empty-1", "empty-2")
    for value in range(300):  # so many that the new history stays behind
        set_label(kube, "empty-1", str(value))
    with watching(kube, "empty") as watched:
        kubernetes_peer.restart(new_history=True)
        make(kube, "empty", "empty-2", "empty-3")
        wait_for(lambda: watched.cache.get("empty-3"), "the new world is seen", 40)
        wait_for(lambda: ("deleted", "empty-1") in watched.kinds(), "the old one is told")

        assert watched.cache.get("empty-1") is None
        assert watched.cache.relists >= 1


@pytest.mark.parametrize("missing", ["no-such-namespace"])
def test_a_namespace_that_is_not_there_is_just_empty(kube: KubeClient, missing: str) -> None:
    assert kube.list(CONFIG_MAPS, missing).items == []
