"""The demand of a cluster's pods, as metrics: what is pending and what runs, by what was asked for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from chassis.kube_client import PODS, KubeClient, KubeSettings
from chassis.kube_watch import WatchMetrics
from chassis.telemetry import get_logger
from gpu_admission.catalogue import Catalogue
from gpu_admission.kube_cluster import ClusterCaches, DemandWatch
from gpu_admission.metrics import DemandMetrics
from sandbox.kubernetes_server import SandboxKubernetes
from tests.contracts.simulated_worlds import now
from tests.gpu_admission.admitting import a_container, a_pod, admitted, asking, catalogue_of
from tests.journeys.service import wait_until


@pytest.fixture
def cluster() -> Iterator[SandboxKubernetes]:
    with SandboxKubernetes(controllers=False, scheduler=False) as running:
        yield running


@pytest.fixture
def client(cluster: SandboxKubernetes, tmp_path: Path) -> Iterator[KubeClient]:
    kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
    made = KubeClient(KubeSettings(kubeconfig=kubeconfig, qps=0), get_logger("test"))
    yield made
    made.close()


class Watching:
    def __init__(self, client: KubeClient) -> None:
        self.catalogue: Catalogue | None = None
        self.registry = CollectorRegistry()
        metrics = WatchMetrics("gpu_admission", self.registry)
        parts: dict[str, Any] = {"clock": now, "log": get_logger("test"), "metrics": metrics}
        self.caches = ClusterCaches(client, **parts)
        self.demand = DemandWatch(client, lambda: self.catalogue, self.caches, **parts)
        DemandMetrics(self.registry, self.demand.records)
        self.caches.start()
        self.demand.start()

    def stop(self) -> None:
        self.demand.stop()
        self.caches.stop()

    def told(self) -> dict[tuple[str, ...], float] | None:
        """GPUs by name, VRAM, class and state; None where there is no such family."""
        for family in self.registry.collect():
            if family.name == "gpu_admission_demand_gpus":
                order = ("name", "minimum_vram_gb", "class", "state")
                return {
                    tuple(each.labels[label] for label in order): each.value
                    for each in family.samples
                }
        return None


@pytest.fixture
def watching(client: KubeClient) -> Iterator[Watching]:
    one = Watching(client)
    yield one
    one.stop()


def run(client: KubeClient, name: str, pod: dict[str, Any], **spec: Any) -> None:
    metadata = {**pod["metadata"], "name": name, "namespace": "default"}
    client.create(PODS, {**pod, "metadata": metadata, "spec": {**pod["spec"], **spec}})


def test_it_is_told_by_what_was_asked_for_before_we_changed_the_pod(
    client: KubeClient, watching: Watching
) -> None:
    assert watching.told() is None, "nothing is known without a catalogue"
    watching.catalogue = catalogue_of()
    run(client, "waits", admitted(asking("any-24gb", "2")))
    run(client, "runs", admitted(asking("any-24gb", "3")), nodeName="n1")
    run(client, "raw", a_pod(a_container(nvidia="4")))
    run(client, "plain", a_pod(a_container(cpu="4")))

    expected = {
        ("any", "24", "low", "pending"): 2,
        ("any", "24", "low", "running"): 3,
        ("nvidia.com/gpu", "0", "low", "pending"): 4,
    }
    wait_until("all of it", lambda: watching.told() == expected)


def test_a_pod_that_has_ended_or_is_gone_wants_nothing(
    client: KubeClient, watching: Watching
) -> None:
    watching.catalogue = catalogue_of()
    for name in ("ends", "goes"):
        run(client, name, admitted(asking("v100")), nodeName="n1")
    wait_until("both", lambda: watching.told() == {("v100", "0", "low", "running"): 2})

    client.patch(PODS, "ends", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
    wait_until("one", lambda: watching.told() == {("v100", "0", "low", "running"): 1})
    client.delete(PODS, "goes", "default", grace_seconds=0)
    wait_until("none", lambda: watching.told() == {})
