"""What the exporter knows of the nodes when the API fails, forgets or is away, on the embedded Kubernetes."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chassis.errors import ConfigError, TemporaryError
from chassis.kube_client import NODES, KubeClient, KubeSettings
from chassis.kube_watch import WatchMetrics
from chassis.telemetry import get_logger, new_registry
from exporters.config.node_conditions import NodeConditionsSettings
from exporters.node_condition_exporter import NodeConditionsService
from exporters.node_condition_exporter.view import NodesView
from sandbox.kubernetes_server import SandboxKubernetes
from tests.exporters.node_builders import NOW, a_condition, a_node
from tests.journeys.service import wait_until


@pytest.fixture
def cluster() -> Iterator[SandboxKubernetes]:
    with SandboxKubernetes(controllers=False, scheduler=False) as running:
        yield running


@pytest.fixture
def kubernetes(cluster: SandboxKubernetes, tmp_path: Path) -> KubeSettings:
    return KubeSettings(
        kubeconfig=cluster.kubeconfig(tmp_path / "kubeconfig"), timeout=timedelta(seconds=5)
    )


class Watched:
    """A view of the cluster's nodes, and the hands that change them."""

    def __init__(self, kubernetes: KubeSettings, **settings: Any) -> None:
        self.log = get_logger("test")
        self.registry = new_registry("nodemend", "1.2.3")
        self.client = KubeClient(kubernetes, self.log)
        self.view = NodesView(
            NodeConditionsSettings(kubernetes=kubernetes, **settings),
            KubeClient(kubernetes, self.log),
            metrics=WatchMetrics("nodemend", self.registry),
            clock=lambda: NOW,
            log=self.log,
        )

    def text(self) -> str:
        return b"".join(self.view.pieces()).decode()

    def relists(self) -> float | None:
        return self.registry.get_sample_value("nodemend_watch_relists_total", {"resource": "nodes"})

    def lines(self, name: str) -> Any:
        return (self.view._known() or {})[name]


@pytest.fixture
def watched(cluster: SandboxKubernetes, kubernetes: KubeSettings) -> Iterator[Watched]:
    for name in ("n1", "n2"):
        cluster.put(a_node(name, [a_condition("X", "True")]))
    one = Watched(kubernetes)
    one.view.start()
    assert one.view.wait_synced(10)
    # A watch that is still being asked for could tell what a test wants to happen behind its back.
    wait_until("the watch", lambda: cluster.control.open_watches("nodes") == 1)
    yield one
    one.view.stop()
    one.client.close()


def test_a_node_whose_deletion_nobody_told_leaves_no_series(
    cluster: SandboxKubernetes, watched: Watched
) -> None:
    """The watch breaks, the node goes, the API forgets its history: only a new list can tell."""
    cluster.control.fail(1000, resources=frozenset({"nodes"}), verbs=frozenset({"watch", "list"}))
    cluster.control.kill_watches("nodes")
    wait_until("the end of the watch", lambda: cluster.control.open_watches("nodes") == 0)
    watched.client.delete(NODES, "n1")
    cluster.control.expire_watches()
    assert 'node="n1"' in watched.text()

    cluster.control.clear_faults()

    wait_until("the end of n1", lambda: "nodemend_nodes 1\n" in watched.text())
    assert 'node="n1"' not in watched.text()
    assert watched.relists() == 1


def test_after_a_new_list_what_has_not_changed_is_not_held_twice(
    cluster: SandboxKubernetes, watched: Watched
) -> None:
    before = watched.lines("n1")
    cluster.control.kill_watches("nodes")
    cluster.control.expire_watches()
    wait_until("a new list", lambda: watched.relists() == 1)

    assert watched.lines("n1") is before


def test_a_node_that_was_deleted_is_gone_at_the_next_scrape(watched: Watched) -> None:
    watched.client.delete(NODES, "n2")

    wait_until("the end of n2", lambda: "nodemend_nodes 1\n" in watched.text())
    assert 'node="n2"' not in watched.text()


def test_before_the_first_list_no_node_is_known(kubernetes: KubeSettings) -> None:
    one = Watched(kubernetes)

    assert one.view.why_not_ready() == "the nodes have not been listed yet"
    assert 'node="' not in one.text()


def test_nodes_that_the_selector_leaves_out_are_not_watched(
    cluster: SandboxKubernetes, kubernetes: KubeSettings
) -> None:
    cluster.put(a_node("gpu", labels={"gpu": "true"}))
    cluster.put(a_node("cpu"))
    one = Watched(kubernetes, node_selector="gpu=true")
    one.view.start()
    try:
        assert one.view.wait_synced(10)
        assert ('node="gpu"' in one.text(), 'node="cpu"' in one.text()) == (True, False)
    finally:
        one.view.stop()


@pytest.fixture
def service(cluster: SandboxKubernetes, kubernetes: KubeSettings) -> Iterator[Any]:
    cluster.put(a_node("n1", [a_condition("X", "True")]))
    one = NodeConditionsService(
        NodeConditionsSettings(kubernetes=kubernetes, families=("condition",)),
        new_registry("nodemend", "1.2.3"),
        get_logger("test"),
        clock=lambda: NOW,
        version="1.2.3",
        shard_index=0,
        reload_wait=timedelta(seconds=1),
    )
    one._view.start()
    assert one._view.wait_synced(10)
    yield one
    one._view.stop()


def served(service: NodeConditionsService) -> set[str]:
    text = b"".join(service._pieces()).decode()
    return {line.partition("{")[0] for line in text.splitlines() if 'node="n1"' in line}


def test_a_reload_changes_over_once_it_knows_all_nodes(
    service: NodeConditionsService, kubernetes: KubeSettings
) -> None:
    service.use(NodeConditionsSettings(kubernetes=kubernetes, families=("info", "stale")))

    assert served(service) == {"nodemend_node_info", "nodemend_node_condition_stale"}


def test_a_reload_that_cannot_list_the_nodes_changes_nothing(
    service: NodeConditionsService, kubernetes: KubeSettings, cluster: SandboxKubernetes
) -> None:
    cluster.control.fail(1000, resources=frozenset({"nodes"}), verbs=frozenset({"list"}))

    with pytest.raises(TemporaryError, match="could not be listed within 1s"):
        service.use(NodeConditionsSettings(kubernetes=kubernetes, families=("info",)))

    assert served(service) == {"nodemend_node_condition"}


def test_a_reload_without_our_shard_changes_nothing(
    service: NodeConditionsService, kubernetes: KubeSettings
) -> None:
    service._shard_index = 1

    with pytest.raises(ConfigError, match="not below"):
        service.use(NodeConditionsSettings(kubernetes=kubernetes, families=("info",)))

    assert served(service) == {"nodemend_node_condition"}
