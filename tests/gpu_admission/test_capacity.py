"""The keeper of the CPU resource: written as the catalogue says, put back, tried again, and nothing else touched."""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from chassis.kube_client import NODES, KubeClient, KubeSettings, PatchKind
from chassis.kube_lease import Term
from chassis.kube_watch import WatchMetrics
from chassis.telemetry import get_logger
from gpu_admission.catalogue import Catalogue
from gpu_admission.kube_cluster import CapacityKeeper
from gpu_admission.metrics import CapacityMetrics
from sandbox.kubernetes_server import SandboxKubernetes
from tests.gpu_admission.admitting import CPU_RESOURCE, catalogue_of
from tests.journeys.service import wait_until

GPU_NODE = {"nvidia.com/gpu.present": "true"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxKubernetes]:
    with SandboxKubernetes(controllers=False, scheduler=False) as running:
        yield running


@pytest.fixture
def client(cluster: SandboxKubernetes, tmp_path: Path) -> Iterator[KubeClient]:
    kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
    made = KubeClient(KubeSettings(kubeconfig=kubeconfig, qps=0), get_logger("test"))
    yield made
    for each in made.list(NODES).items:
        made.delete(NODES, each["metadata"]["name"])
    made.close()


class Keeping:
    """A keeper; it leads while `term` goes on."""

    def __init__(self, client: KubeClient, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.registry = CollectorRegistry()
        self.keeper = CapacityKeeper(
            client,
            lambda: self.catalogue,
            clock=lambda: datetime.now(UTC),
            log=get_logger("test"),
            metrics=CapacityMetrics(self.registry),
            watches=WatchMetrics("gpu_admission", self.registry),
            resync=timedelta(hours=1),
        )
        self.keeper.start()
        self._term: Term | None = None
        self._thread: threading.Thread | None = None

    def lead(self) -> None:
        self._term = Term(time.monotonic, time.monotonic() + 3600)
        self._thread = threading.Thread(target=self.keeper.lead, args=(self._term,))
        self._thread.start()

    def rest(self) -> None:
        if self._term is not None and self._thread is not None:
            self._term.set()
            self._thread.join()

    def told(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"gpu_admission_{name}", labels)


@pytest.fixture
def keeping(client: KubeClient) -> Iterator[Keeping]:
    one = Keeping(client, catalogue_of())
    yield one
    one.rest()
    one.keeper.stop()


def add(client: KubeClient, name: str, cpus: str = "64", **labels: str) -> None:
    amounts = {"cpu": cpus, "memory": "1Gi"}
    client.create(
        NODES,
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": amounts, "allocatable": dict(amounts)},
        },
    )


def carries(client: KubeClient, name: str) -> Any:
    status = client.get(NODES, name)["status"]
    assert status["capacity"].get(CPU_RESOURCE) == status["allocatable"].get(CPU_RESOURCE)
    return status["capacity"].get(CPU_RESOURCE)


def a_kubelet_restarts(client: KubeClient, name: str) -> None:
    key = CPU_RESOURCE.replace("/", "~1")
    patch = [
        {"op": "replace", "path": f"/status/{part}/{key}", "value": "0"}
        for part in ("capacity", "allocatable")
    ]
    client.patch(NODES, name, patch, kind=PatchKind.JSON, subresource="status")


def until_it_carries(client: KubeClient, name: str, amount: str | None) -> None:
    wait_until(f"{name} to carry {amount}", lambda: carries(client, name) == amount, 20)


def test_each_node_gets_its_part_and_gets_it_back(client: KubeClient, keeping: Keeping) -> None:
    add(client, "gpu", **GPU_NODE)
    add(client, "cpu", "3500m")
    keeping.lead()

    until_it_carries(client, "gpu", "32k")
    until_it_carries(client, "cpu", "3500")
    assert client.get(NODES, "gpu")["status"]["capacity"]["cpu"] == "64"
    a_kubelet_restarts(client, "gpu")
    until_it_carries(client, "gpu", "32k")
    wait_until("the count", lambda: keeping.told("capacity_nodes", state="right") == 2)
    wait_until("all writes", lambda: keeping.told("capacity_writes_total", result="ok") == 3)


def test_another_catalogue_counts_at_once_and_nodes_that_are_gone_do_not(
    client: KubeClient, keeping: Keeping
) -> None:
    add(client, "gpu", **GPU_NODE)
    add(client, "cpu")
    keeping.lead()
    until_it_carries(client, "cpu", "64k")
    wait_until("both", lambda: keeping.told("capacity_nodes", state="right") == 2)

    shares = [{"match_labels": GPU_NODE, "cpus": 1}]
    keeping.catalogue = catalogue_of(cpu_policy={"capacity": shares})
    keeping.keeper.look_at_all()

    until_it_carries(client, "gpu", "1k")
    wait_until("one", lambda: keeping.told("capacity_nodes", state="right") == 1)
    client.delete(NODES, "gpu")
    wait_until("none", lambda: keeping.told("capacity_nodes", state="right") == 0)


def test_a_write_that_fails_is_told_and_tried_again(
    cluster: SandboxKubernetes, client: KubeClient, keeping: Keeping
) -> None:
    add(client, "gpu", **GPU_NODE)
    cluster.control.fail(count=100, code=403, verbs=frozenset({"patch"}), subresource="status")
    keeping.lead()

    wait_until("the failure", lambda: keeping.told("capacity_nodes", state="wrong") == 1, 20)
    assert keeping.told("capacity_writes_total", result="error")
    cluster.control.clear_faults()
    until_it_carries(client, "gpu", "32k")
    wait_until("the end of it", lambda: keeping.told("capacity_nodes", state="wrong") == 0)


def test_who_does_not_lead_writes_nothing_and_tells_nothing_of_nodes(
    client: KubeClient, keeping: Keeping
) -> None:
    add(client, "gpu", **GPU_NODE)
    keeping.lead()
    until_it_carries(client, "gpu", "32k")
    wait_until("the count", lambda: keeping.told("capacity_nodes", state="right") == 1)
    keeping.rest()

    a_kubelet_restarts(client, "gpu")
    client.delete(NODES, "gpu")
    add(client, "other", **GPU_NODE)

    assert keeping.told("capacity_nodes", state="right") is None
    assert keeping.told("leader") == 0
    assert carries(client, "other") is None
    keeping.lead()
    until_it_carries(client, "other", "32k")
    wait_until("the one that is left", lambda: keeping.told("capacity_nodes", state="right") == 1)
