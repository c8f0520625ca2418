"""CPUs of GPU nodes: who carries the second resource, how much of it, and who tolerates the taint."""

from typing import Any

import pytest

from gpu_admission.catalogue import Catalogue
from gpu_admission.cpu_share import amount_of, capacity_of
from gpu_admission.mutation import Unchanged
from tests.gpu_admission.admitting import (
    CLUSTER,
    CPU_RESOURCE,
    HIGH,
    LOW,
    a_container,
    a_pod,
    admitted,
    asking,
    catalogue_of,
    decide,
    settings_of,
)

TOLERATION = {"key": "gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}


def with_policy(**changes: Any) -> Catalogue:
    return catalogue_of(cpu_policy={**settings_of()["cpu_policy"], **changes})


CORES = with_policy(unit="core")


def carried(pod: dict[str, Any], catalogue: Catalogue = CLUSTER) -> list[Any]:
    """Each container's amount, init containers first; the same in limits and requests."""
    spec = admitted(pod, catalogue)["spec"]
    found = []
    for container in (*spec.get("initContainers", []), *spec["containers"]):
        resources = container.get("resources") or {}
        both = [(resources.get(part) or {}).get(CPU_RESOURCE) for part in ("limits", "requests")]
        assert both[0] == both[1]
        found.append(both[0])
    return found


def requesting(cpu: Any, **pod: Any) -> dict[str, Any]:
    return a_pod({"name": "c", "resources": {"requests": {"cpu": cpu}}}, **pod)


AMOUNTS = {
    "30": ("30000", "30"),
    "2.5": ("2500", "3"),
    "2500m": ("2500", "3"),
    "1m": ("1", "1"),
    "100u": ("1", "1"),
    "0": (None, None),
    "nonsense": (None, None),
    "-1": (None, None),
}


@pytest.mark.parametrize("cpu", AMOUNTS)
def test_a_high_pod_carries_its_cpus_in_thousandths_or_in_whole_cores_rounded_up(cpu: str) -> None:
    pod = requesting(cpu, priority=HIGH)

    assert (carried(pod)[0], carried(pod, CORES)[0]) == AMOUNTS[cpu]


def test_each_container_carries_its_own_init_containers_too() -> None:
    pod = a_pod(
        a_container("a", cpu="1"),
        a_container("none"),
        a_container("b", cpu="500m"),
        init=[a_container("i", cpu="2"), {**a_container("s", cpu="1"), "restartPolicy": "Always"}],
        priority=HIGH,
    )

    assert carried(pod) == ["2000", "1000", "1000", None, "500"]


def test_limits_count_where_a_file_has_no_requests() -> None:
    pod = a_pod({"name": "c", "resources": {"limits": {"cpu": "2"}}}, priority=HIGH)

    assert carried(pod) == ["2000"]


def test_what_the_pod_requests_as_a_whole_counts_like_the_scheduler_counts_it() -> None:
    pod = a_pod(
        a_container("a", cpu="1"),
        a_container("b", cpu="1"),
        priority=HIGH,
        resources={"requests": {"cpu": "5"}},
    )

    assert carried(pod) == ["4000", "1000"]
    bare = a_pod(a_container("a"), priority=HIGH, resources={"requests": {"cpu": "3"}})
    assert carried(bare) == ["3000"]


@pytest.mark.parametrize("carries", ["1", "999999"])
def test_what_a_high_pod_says_itself_is_overwritten(carries: str) -> None:
    container = {
        "name": "c",
        "resources": {
            "limits": {CPU_RESOURCE: carries, "cpu": "2"},
            "requests": {CPU_RESOURCE: carries, "cpu": "2"},
        },
    }

    assert carried(a_pod(container, priority=HIGH)) == ["2000"]


def test_a_low_pod_carries_none_and_tolerates_the_gpu_nodes() -> None:
    pod = requesting("2", priority=LOW)

    assert carried(pod) == [None]
    assert admitted(pod)["spec"]["tolerations"] == [TOLERATION]


def test_a_low_pod_that_carries_some_would_use_up_the_high_ones_part() -> None:
    container = {
        "name": "c",
        "resources": {"limits": {CPU_RESOURCE: "5"}, "requests": {CPU_RESOURCE: "5", "cpu": "1"}},
    }

    assert carried(a_pod(container, priority=LOW)) == [None]
    assert carried(a_pod({**container, "name": "d"}, a_container("g", gpu_any="1"))) == [None, None]


def test_a_high_pod_gets_no_toleration() -> None:
    assert "tolerations" not in admitted(requesting("2", priority=HIGH))["spec"]


ELSE: dict[str, dict[str, Any]] = {
    "a GPU by our key": asking("any", priority=HIGH),
    "a GPU by the nodes' resource": a_pod(a_container("c", nvidia="1", cpu="2"), priority=HIGH),
    "a GPU in one container of two": a_pod(
        a_container("a", gpu_any="1"), a_container("b", cpu="2"), priority=HIGH
    ),
    "a claim on a device": requesting("2", priority=HIGH, resourceClaims=[{"name": "gpu"}]),
    "a slice of a GPU, which is no back-end's": a_pod(
        a_container("c", cpu="2", **{"nvidia.com/mig-1g.5gb": "1"}), priority=HIGH
    ),
    "the system's priority": requesting("2", priority=2_000_000_000),
}


@pytest.mark.parametrize("case", ELSE)
def test_a_pod_that_is_no_cpu_pod_carries_none(case: str) -> None:
    assert set(carried(ELSE[case])) == {None}
    assert TOLERATION not in admitted(ELSE[case])["spec"].get("tolerations", [])


@pytest.mark.parametrize("key", ["gpu_any", "nvidia", "nvidia.com/mig-1g.5gb"])
def test_zero_gpus_is_a_cpu_pod(key: str) -> None:
    pod = a_pod(a_container("c", cpu="2", **{key: "0"}), priority=HIGH)

    assert carried(pod) == ["2000"]


def test_another_resource_is_no_way_around_the_share() -> None:
    pod = a_pod(a_container("c", cpu="2", **{"smarter-devices/fuse": "1"}), priority=HIGH)

    assert carried(pod) == ["2000"]


def test_a_second_call_changes_nothing() -> None:
    for catalogue in (CLUSTER, CORES):
        for priority in (HIGH, LOW):
            pod = requesting("2500m", priority=priority)
            assert isinstance(decide(admitted(pod, catalogue), catalogue), Unchanged)


def test_without_a_policy_nothing_is_done() -> None:
    pod = requesting("2", priority=HIGH)

    assert isinstance(decide(pod, catalogue_of(cpu_policy=None)), Unchanged)


def test_the_admin_may_name_the_classes_and_the_resource() -> None:
    catalogue = with_policy(classes=["low"], resource="example.com/cpus")

    assert catalogue.cpu is not None
    assert catalogue.cpu.classes == {"low"}
    resources = admitted(requesting("2"), catalogue)["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {"example.com/cpus": "2000"}


# The nodes.


def a_node(cpu: str | None = "96", **labels: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": cpu}} if cpu is not None else {}
    return {"metadata": {"labels": labels}, "status": status}


GPU_NODE = {"nvidia.com/gpu.present": "true"}

CAPACITIES: dict[str, tuple[dict[str, Any], dict[str, Any], int | None]] = {
    "a GPU node has its part": (a_node(**GPU_NODE), {}, 32_000),
    "a GPU node has its part, in cores": (a_node(**GPU_NODE), {"unit": "core"}, 32),
    "a CPU node has all that it has": (a_node("95500m"), {}, 95_500),
    "a CPU node has all, rounded up": (a_node("95500m"), {"unit": "core"}, 96),
    "a part of a core is rounded down": (
        a_node(),
        {"unit": "core", "capacity": [{"cpus": "2500m"}]},
        2,
    ),
    "a node that has not said what it has": (a_node(None), {}, None),
    "a node that no entry is for": (a_node(), {"capacity": []}, None),
    "none of it": (a_node(), {"capacity": [{"cpus": 0}]}, 0),
}


@pytest.mark.parametrize("case", CAPACITIES)
def test_how_much_of_the_resource_a_node_has(case: str) -> None:
    node, changes, expected = CAPACITIES[case]
    policy = with_policy(**changes).cpu
    assert policy is not None

    assert capacity_of(node, policy) == expected


def test_a_whole_cpu_node_takes_every_pod_that_its_cpus_take() -> None:
    policy = CLUSTER.cpu
    assert policy is not None
    pods = [{"resources": {"requests": {"cpu": "500m"}}}] * 8

    assert sum(amount_of(each, policy) for each in pods) == capacity_of(a_node("4"), policy)
