"""What a probe pod looks like, and what its status means: a result of its own kind for each way not to be a verdict."""

from typing import Any

import pytest

from exporters.probe_pods import (
    Outcome,
    PodStage,
    Probe,
    Purpose,
    end_of,
    gpus_in_use,
    pod_body,
    pod_name,
    view_of_pod,
)
from tests.exporters.probe_builders import RECIPE, a_probe_node

A_PROBE = Probe(a_probe_node(), Purpose.PERIODIC, 2)


def a_pod(status: dict[str, Any], *, placed: bool = True, deleting: bool = False) -> dict[str, Any]:
    body = pod_body(A_PROBE, RECIPE)
    body["metadata"] |= {"uid": "u1", "creationTimestamp": "2026-11-30T12:00:00Z"}
    if deleting:
        body["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:01Z"
    if placed:
        body["spec"]["nodeName"] = "n1"
    return {**body, "status": status}


def disrupted(reason: str) -> dict[str, Any]:
    return {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}


def container(kind: str, **state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "gpu-probe", "state": {kind: state}}]}


STATUSES: dict[str, tuple[dict[str, Any], PodStage, Outcome | None]] = {
    "placed and not started": ({"phase": "Pending"}, PodStage.STARTING, None),
    "running": ({"phase": "Running"}, PodStage.RUNNING, None),
    "passed": (
        {"phase": "Succeeded", **container("terminated", exitCode=0)},
        PodStage.ENDED,
        None,
    ),
    "found a problem": (
        {"phase": "Failed", **container("terminated", exitCode=1)},
        PodStage.ENDED,
        None,
    ),
    "all GPUs in use at the kubelet": (
        {"phase": "Failed", "reason": "UnexpectedAdmissionError"},
        PodStage.ENDED,
        Outcome.SKIPPED_BUSY,
    ),
    "other resources in use at the kubelet": (
        {"phase": "Failed", "reason": "OutOfcpu"},
        PodStage.ENDED,
        Outcome.SKIPPED_BUSY,
    ),
    "preempted, and ended by it": (
        {"phase": "Failed", **disrupted("PreemptionByScheduler"), **container("terminated", exitCode=1)},
        PodStage.ENDED,
        Outcome.PREEMPTED,
    ),
    "evicted by the kubelet": (
        {"phase": "Failed", "reason": "Evicted", **disrupted("TerminationByKubelet")},
        PodStage.ENDED,
        Outcome.EVICTED,
    ),
    "evicted before there were such conditions": (
        {"phase": "Failed", "reason": "Evicted"},
        PodStage.ENDED,
        Outcome.EVICTED,
    ),
    "evicted by a taint": (
        {"phase": "Running", **disrupted("DeletionByTaintManager")},
        PodStage.RUNNING,
        Outcome.EVICTED,
    ),
    "out of time": (
        {"phase": "Failed", "reason": "DeadlineExceeded"},
        PodStage.ENDED,
        Outcome.TIMEOUT,
    ),
    "the node was lost": (
        {"phase": "Failed", "reason": "NodeLost"},
        PodStage.ENDED,
        Outcome.INTERRUPTED,
    ),
    "the image is not to be had": (
        {"phase": "Pending", **container("waiting", reason="ImagePullBackOff")},
        PodStage.STARTING,
        Outcome.IMAGE_PULL_FAILED,
    ),
    "the image was not to be had at the first try": (
        {"phase": "Pending", **container("waiting", reason="ErrImagePull")},
        PodStage.STARTING,
        Outcome.IMAGE_PULL_FAILED,
    ),
    "the container cannot be made": (
        {"phase": "Pending", **container("waiting", reason="CreateContainerConfigError")},
        PodStage.STARTING,
        Outcome.ERROR,
    ),
    "failed for a reason that is not known": (
        {"phase": "Failed", "reason": "Mystery"},
        PodStage.ENDED,
        Outcome.ERROR,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("status", "stage", "trouble"), STATUSES.values(), ids=STATUSES.keys())
def test_a_status_means_a_stage_and_a_trouble(
    status: dict[str, Any], stage: PodStage, trouble: Outcome | None
) -> None:
    seen = view_of_pod(a_pod(status))

    assert (seen.stage, seen.trouble) == (stage, trouble)


@pytest.mark.parametrize("trouble", [each for each in Outcome if not each.is_completed])
def test_with_a_trouble_no_report_counts(trouble: Outcome) -> None:
    """Except when time ran out although all had been said: a broken driver keeps a process from ending."""
    seen = view_of_pod(a_pod({"phase": "Failed"}))
    with_trouble = type(seen)(**{**_fields(seen), "trouble": trouble})

    assert end_of(with_trouble, reported=1) is trouble
    assert (end_of(with_trouble, reported=2) is None) == (trouble is Outcome.TIMEOUT)


def _fields(view: Any) -> dict[str, Any]:
    return {name: getattr(view, name) for name in view.__dataclass_fields__}


def test_a_pod_that_ended_without_a_report_is_an_error_and_one_that_vanished_was_interrupted() -> (
    None
):
    ended = view_of_pod(a_pod({"phase": "Failed"}))
    running = view_of_pod(a_pod({"phase": "Running"}))

    assert end_of(ended, reported=0) is Outcome.ERROR
    assert end_of(ended, reported=1) is None
    assert end_of(running, reported=0) is Outcome.INTERRUPTED


def test_a_pod_that_is_not_placed_waits() -> None:
    seen = view_of_pod(a_pod({"phase": "Pending"}, placed=False, deleting=True))

    assert seen.stage is PodStage.WAITING
    assert seen.is_deleting


def test_what_a_pod_is_for_is_read_back_from_it() -> None:
    proof = Probe(a_probe_node("n2", request="op-1"), Purpose.PROOF, 8)
    seen = view_of_pod(pod_body(proof, RECIPE))

    assert (seen.node, seen.node_uid, seen.boot_id) == ("n2", "uid-n2", "boot-1")
    assert (seen.purpose, seen.operation, seen.gpus) == (Purpose.PROOF, "op-1", 8)
    assert seen.name == pod_name("uid-n2")


@pytest.mark.parametrize(
    "pod",
    [
        {"metadata": {"name": "x"}},
        {"metadata": {"name": "x", "annotations": {"nodemend.dev/probe-gpus": "²", "nodemend.dev/probe-purpose": "?"}}},
        {"metadata": {"name": "x", "creationTimestamp": "noon"}, "status": {"startTime": None}},
    ],
)  # fmt: skip
def test_a_pod_that_makes_no_sense_is_read_all_the_same(pod: dict[str, Any]) -> None:
    assert view_of_pod(pod).purpose is Purpose.PERIODIC
    assert view_of_pod(pod).gpus == 0


def test_a_probe_pod_asks_the_scheduler_harms_nobody_and_ends() -> None:
    spec = pod_body(A_PROBE, RECIPE)["spec"]

    assert "nodeName" not in spec
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]  # fmt: skip
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    assert spec["preemptionPolicy"] == "Never"
    assert spec["priorityClassName"] == "nodemend-gpu-probe"
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["activeDeadlineSeconds"] == 120
    assert spec["terminationGracePeriodSeconds"] == 5
    assert spec["restartPolicy"] == "Never"
    assert spec["automountServiceAccountToken"] is False
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def a_user_pod(phase: str, *, gpus: int, init: int = 0) -> dict[str, Any]:
    limits = [{"resources": {"limits": {"nvidia.com/gpu": str(each)}}} for each in (gpus, init)]
    return {
        "spec": {"containers": [limits[0]], "initContainers": [limits[1]]},
        "status": {"phase": phase},
    }


def test_finished_and_failed_pods_use_no_gpu() -> None:
    pods = [
        a_user_pod("Running", gpus=1),
        a_user_pod("Pending", gpus=1, init=2),
        a_user_pod("Succeeded", gpus=4),
        a_user_pod("Failed", gpus=4),
        {"spec": {"containers": [{}]}},
    ]

    assert gpus_in_use(pods, "nvidia.com/gpu") == 3
