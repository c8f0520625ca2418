"""CPUs of GPU nodes, with the real scheduler: low CPU pods may have them until a GPU comes; high ones have their part and stay."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gpu_admission.served import Served
from tests.journeys.gpu_admission_world import (
    CPU_RESOURCE,
    DEPLOY,
    GPU,
    HIGH,
    LABEL,
    LOW,
    PRODUCTS,
    World,
    a_container,
    a_node,
    a_pod,
    a_world,
    add_node,
    asking,
    landed,
    node_of,
    settled,
    unschedulable,
)
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
TAINT = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
PART = 4
"""CPUs of the 16 of a GPU node that high-priority CPU pods may have."""
EXPENSIVE = "dear"
CPU_POLICY: dict[str, Any] = {
    "unit": "milli",
    "low_tolerations": [TAINT],
    "capacity": [
        {"match_labels": {EXPENSIVE: "yes"}, "cpus": 0},
        {"match_labels": {LABEL: PRODUCTS["l4"]}, "cpus": PART},
        {"match_labels": {"kind": "cpu"}, "cpus": "allocatable"},
    ],
}


def overlay(folder: Path) -> Path:
    """The base with the component, as docs/deploying.md has it."""
    kustomization = {
        "resources": [os.path.relpath(DEPLOY / "base", folder)],
        "components": [os.path.relpath(DEPLOY / "components" / "cpus", folder)],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder


def catalogue(**policy: Any) -> dict[str, Any]:
    shipped = yaml.safe_load((DEPLOY / "base" / "catalogue.yaml").read_text("utf-8"))
    for each in shipped["models"]:
        each["tolerations"] = [TAINT]
    return {**shipped, "cpu_policy": {**CPU_POLICY, **policy}}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    deployed = overlay(tmp_path_factory.mktemp("overlay"))
    with a_world(tmp_path_factory.mktemp("cpus"), deployed, scheduler=True) as one:
        add_node(one, a_node("n-gpu", "l4", gpus=4), [TAINT])
        one.start(a_replica(one, "replica-0"))
        yield one


def a_replica(world: World, name: str) -> Served:
    one = world.a_replica(name, capacity={"resync": "5s"})
    one.catalogue(catalogue())
    return one


@pytest.fixture
def served(world: World) -> Iterator[Served]:
    """With one GPU node; what a test has submitted is gone afterwards."""
    until_it_carries(world, "n-gpu", "4k")
    yield world.served
    world.clear("Pod")
    world.clear("Node", "n-gpu")


def carries(world: World, node: str) -> str | None:
    """The resource in the node's status; None when capacity and allocatable differ, too."""
    status = world.get("Node", node).body["status"]
    found = [status[part].get(CPU_RESOURCE) for part in ("capacity", "allocatable")]
    return found[0] if found[0] == found[1] else None


def until_it_carries(world: World, node: str, amount: str) -> None:
    wait_until(f"{node} to carry {amount}", lambda: carries(world, node) == amount, 30)


def a_cpu_pod(name: str, cpus: str, priority: str, **spec: Any) -> dict[str, Any]:
    return a_pod(name, a_container(requests={"cpu": cpus}), priority=priority, **spec)


def a_kubelet_restarts(world: World, node: str) -> None:
    """It reports what it does not know as 0."""
    key = CPU_RESOURCE.replace("/", "~1")
    patch = [
        {"op": "replace", "path": f"/status/{part}/{key}", "value": "0"}
        for part in ("capacity", "allocatable")
    ]
    answer = world.call(
        "PATCH", f"/api/v1/nodes/{node}/status", patch, "application/json-patch+json"
    )
    assert answer.code == 200, answer.message


# Who carries the resource.


def test_the_resource_is_the_cpu_request_of_each_container(world: World, served: Served) -> None:
    """Also where a LimitRange gave the request, and in init containers."""
    world.made({"kind": "Namespace", "metadata": {"name": "ranged"}})
    limits = {"type": "Container", "defaultRequest": {"cpu": "1500m"}}
    world.made(
        {"kind": "LimitRange", "metadata": {"name": "cpus"}, "spec": {"limits": [limits]}}, "ranged"
    )
    pod = a_pod(
        "two",
        a_container("first", requests={"cpu": "250m"}),
        a_container("second"),
        priority=HIGH,
        initContainers=[a_container("init", requests={"cpu": "2"})],
    )

    spec = world.create(pod, namespace="ranged", dry_run=True).spec

    containers = [*spec["initContainers"], *spec["containers"]]
    for part in ("limits", "requests"):
        amounts = [each["resources"][part][CPU_RESOURCE] for each in containers]
        assert [_milli(each) for each in amounts] == [2000, 250, 1500]
    assert served.metric('gpu_admission_reviews_total{endpoint="/mutate-pods"')


def _milli(amount: str) -> int:
    return int(amount[:-1]) * 1000 if amount.endswith("k") else int(amount)


def test_low_pods_tolerate_gpu_nodes_and_carry_nothing(world: World, served: Served) -> None:
    spec = world.create(a_cpu_pod("low", "2", LOW), dry_run=True).spec

    assert CPU_RESOURCE not in spec["containers"][0]["resources"]["requests"]
    assert (
        TAINT.items()
        <= next(each for each in spec["tolerations"] if each.get("key") == "gpu").items()
    )


def test_neither_gpu_pods_nor_the_systems_are_met_by_the_rule(world: World, served: Served) -> None:
    gpu = world.create(asking("l4", priority=HIGH), dry_run=True)
    before = world.reviews()
    system = a_cpu_pod("system", "1", "system-node-critical")
    stored = world.create(system, namespace="kube-system", dry_run=True)

    assert CPU_RESOURCE not in gpu.spec["containers"][0]["resources"].get("limits", {})
    assert CPU_RESOURCE not in stored.limits
    assert world.reviews() == before


# Where they land.


def test_low_cpu_pods_fill_a_gpu_node_and_leave_it_for_a_gpu_pod(
    world: World, served: Served
) -> None:
    names = [f"low-{number}" for number in range(4)]
    for name in names:
        world.made(a_cpu_pod(name, "4", LOW, terminationGracePeriodSeconds=0))
    assert [landed(world, each) for each in names] == ["n-gpu"] * 4
    world.made(a_cpu_pod("one-too-many", "4", LOW))
    assert settled(world, "one-too-many") == ""

    train = asking("l4", name="train", priority=HIGH)
    train["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "6"}
    world.made(train)

    assert landed(world, "train") == "n-gpu"
    left = [each for each in names if world.get("Pod", each).code == 200]
    gone = [each for each in names if each not in left]
    assert len(gone) == 2, left
    assert world.get("Pod", "train").limits[GPU] == "1"


def test_high_cpu_pods_have_their_part_of_a_gpu_node_and_are_never_driven_out(
    world: World, served: Served
) -> None:
    """They tolerate the node by themselves here; the resource is what bounds them."""
    tolerating: dict[str, Any] = {"tolerations": [TAINT], "terminationGracePeriodSeconds": 0}
    for name in ("high-0", "high-1"):
        world.made(a_cpu_pod(name, "2", HIGH, **tolerating))
    assert [landed(world, each) for each in ("high-0", "high-1")] == ["n-gpu"] * 2

    world.made(a_cpu_pod("high-2", "1", HIGH, **tolerating))
    assert settled(world, "high-2") == ""
    assert f"Insufficient {CPU_RESOURCE}" in unschedulable(world, "high-2")

    for number in range(3):
        pod = asking("l4", name=f"train-{number}", priority=HIGH)
        pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "4"}
        world.made(pod)
        assert landed(world, f"train-{number}") == "n-gpu"
    pod = asking("l4", name="train-3", priority=HIGH)
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "4"}
    world.made(pod)
    assert settled(world, "train-3") == ""
    assert [node_of(world, each) for each in ("high-0", "high-1")] == ["n-gpu"] * 2


def test_on_a_cpu_node_high_pods_have_all_there_is(world: World, served: Served) -> None:
    node = a_node("n-cpu", cpus="8")
    node["metadata"]["labels"]["kind"] = "cpu"
    add_node(world, node)
    until_it_carries(world, "n-cpu", "8k")

    for number in range(4):
        world.made(a_cpu_pod(f"high-{number}", "2", HIGH))
        assert landed(world, f"high-{number}") == "n-cpu"
    world.made(a_cpu_pod("high-4", "100m", HIGH))
    assert settled(world, "high-4") == ""


# The keeper.


def test_the_part_is_kept_by_selector_after_restarts_of_kubelets_and_new_catalogues(
    world: World, served: Served
) -> None:
    dear = a_node("n-dear", "h100", gpus=8)
    dear["metadata"]["labels"][EXPENSIVE] = "yes"
    add_node(world, dear, [TAINT])
    add_node(world, a_node("n-other", cpus="8"))
    until_it_carries(world, "n-dear", "0")

    a_kubelet_restarts(world, "n-gpu")
    until_it_carries(world, "n-gpu", "4k")

    shares = [{"match_labels": {LABEL: PRODUCTS["l4"]}, "cpus": "6500m"}]
    world.catalogue(catalogue(capacity=shares))
    until_it_carries(world, "n-gpu", "6500")
    status = world.get("Node", "n-other").body["status"]
    assert CPU_RESOURCE not in status["capacity"]
    assert status["capacity"]["cpu"] == "8"
    wait_until("the metric", lambda: _nodes(served, "right") == 1)
    assert _nodes(served, "wrong") == 0
    world.catalogue(catalogue())


def _nodes(served: Served, state: str) -> float | None:
    return served.metric(f'gpu_admission_capacity_nodes{{state="{state}"}}')


def test_another_replica_goes_on_when_the_leader_dies(world: World, served: Served) -> None:
    """What a kubelet took away meanwhile is put back, by one of them only."""
    other = a_replica(world, "replica-1")
    world.start(other)
    wait_until("the first to lead", lambda: served.metric("gpu_admission_leader") == 1)
    assert other.metric("gpu_admission_leader") == 0

    served.kill()
    world.replicas.remove(served)
    world.open_the_doorway()
    a_kubelet_restarts(world, "n-gpu")

    until_it_carries(world, "n-gpu", "4k")
    assert other.metric("gpu_admission_leader") == 1
    wait_until(
        "its count", lambda: other.metric('gpu_admission_capacity_writes_total{result="ok"}') == 1
    )
