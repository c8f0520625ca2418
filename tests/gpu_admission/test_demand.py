"""What people want, read from the pods of a cluster."""

from typing import Any

import pytest

from gpu_admission.demand import DemandRecord, DemandState, demand_of
from tests.gpu_admission.admitting import (
    ANNOTATION,
    CLUSTER,
    GPU,
    HIGH,
    TEAM,
    a_container,
    a_pod,
    admitted,
    asking,
)


def demand(pod: dict[str, Any], node: str = "", phase: str = "Pending") -> set[tuple[Any, ...]]:
    if node:
        pod["spec"]["nodeName"] = node
    pod["status"] = {"phase": phase}
    return {
        (each.name, each.min_vram_gb, each.class_name, each.amount, each.state)
        for each in demand_of(pod, TEAM, CLUSTER)
    }


def test_a_pod_wants_what_was_written_not_what_it_got() -> None:
    pod = admitted(asking("any-24gb", "2", priority=HIGH))

    assert demand_of({**pod, "status": {"phase": "Pending"}}, TEAM, CLUSTER) == (
        DemandRecord("any", 24, "high", "team", 2, DemandState.PENDING),
    )


@pytest.mark.parametrize(
    ("node", "phase", "state"),
    [
        ("", "Pending", DemandState.PENDING),
        ("gpu-1", "Pending", DemandState.RUNNING),
        ("gpu-1", "Running", DemandState.RUNNING),
        ("gpu-1", "Unknown", DemandState.RUNNING),
    ],
)
def test_a_pod_on_a_node_holds_its_gpus(node: str, phase: str, state: DemandState) -> None:
    assert demand(admitted(asking("v100")), node, phase) == {("v100", 0, "low", 1, state)}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_wants_nothing(phase: str) -> None:
    assert demand(admitted(asking("v100")), "gpu-1", phase) == set()


def test_each_kind_is_counted_as_the_scheduler_counts() -> None:
    pod = a_pod(
        a_container("a", gpu_a100="1"),
        a_container("b", gpu_any_24gb="2"),
        init=[a_container("i", gpu_any_24gb="3")],
    )

    assert demand(admitted(pod)) == {
        ("a100", 0, "low", 1, "pending"),
        ("any", 24, "low", 3, "pending"),
    }


def test_a_raw_request_is_demand_for_the_nodes_resource() -> None:
    assert demand(a_pod(a_container("a", nvidia="2"))) == {(GPU, 0, "low", 2, "pending")}


def test_an_alias_is_what_was_written() -> None:
    assert demand(admitted(asking("big-80gb"))) == {("big", 80, "low", 1, "pending")}


@pytest.mark.parametrize(
    "claim",
    [
        '{"requests": {"a": {"gpu-a100": 8}}}',
        '{"requests": {"a": {"gpu-a100": 1}, "b": {"gpu-a100": 1}}}',
        "nonsense",
    ],
)
def test_an_annotation_that_does_not_fit_the_containers_is_not_believed(claim: str) -> None:
    pod = a_pod(a_container("a", nvidia="1"), metadata={"annotations": {ANNOTATION: claim}})

    assert demand(pod) == {(GPU, 0, "low", 1, "pending")}


@pytest.mark.parametrize(
    "pod", [{}, {"spec": None}, a_pod(a_container("a", cpu="1")), asking("b200")]
)
def test_other_pods_want_no_gpu(pod: dict[str, Any]) -> None:
    assert demand_of(pod, TEAM, CLUSTER) == ()
