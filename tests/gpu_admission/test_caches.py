"""What requests look up of the cluster: there at once, and soon after it is new."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from chassis.kube_client import NAMESPACES, PRIORITY_CLASSES, KubeClient, KubeSettings
from chassis.kube_watch import WatchMetrics
from chassis.telemetry import get_logger
from gpu_admission.kube_cluster import ClusterCaches
from sandbox.kubernetes_server import SandboxKubernetes
from tests.journeys.service import wait_until


@pytest.fixture
def client(tmp_path: Path) -> Iterator[KubeClient]:
    with SandboxKubernetes(controllers=False, scheduler=False) as cluster:
        settings = KubeSettings(kubeconfig=cluster.kubeconfig(tmp_path / "kubeconfig"))
        made = KubeClient(settings, get_logger("test"))
        yield made
        made.close()


@pytest.fixture
def caches(client: KubeClient) -> Iterator[ClusterCaches]:
    made = ClusterCaches(
        client,
        clock=lambda: datetime.now(UTC),
        log=get_logger("test"),
        metrics=WatchMetrics("test", CollectorRegistry()),
    )
    assert made.why_not_ready == "namespaces and priority classes are not listed yet"
    made.start()
    assert made.wait_synced(timedelta(seconds=10))
    yield made
    made.stop()


def a_namespace(name: str, **labels: str) -> dict[str, object]:
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def test_the_first_pod_of_a_new_namespace_finds_its_labels(
    client: KubeClient, caches: ClusterCaches
) -> None:
    """The API answered a moment ago; the watch may tell of it a moment later."""
    client.create(NAMESPACES, a_namespace("team-a", tier="gold"))

    view = caches.namespace("team-a", labels_needed=True)

    assert view.labels is not None
    assert view.labels["tier"] == "gold"


def test_a_namespace_that_nobody_knows_has_no_labels_and_nobody_waits_long(
    caches: ClusterCaches,
) -> None:
    assert caches.namespace("none", labels_needed=True).labels is None


def test_a_changed_priority_class_counts(client: KubeClient, caches: ClusterCaches) -> None:
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "prod"},
        "value": 5000,
        "globalDefault": True,
    }
    client.create(PRIORITY_CLASSES, body)

    wait_until("the class", lambda: caches.priorities.values.get("prod") == 5000)
    assert caches.priorities.default == 5000

    client.delete(PRIORITY_CLASSES, "prod")

    wait_until("its end", lambda: "prod" not in caches.priorities.values)
    assert caches.priorities.default == 0
