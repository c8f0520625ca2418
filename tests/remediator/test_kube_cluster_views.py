"""What decisions see of objects of the API: whatever the objects hold, and never more than is certain."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as some

from chassis.alertmanager import Alert, AlertStatus
from chassis.contracts import (
    PROBE_REQUEST_ANNOTATION,
    PROBE_RESULT_ANNOTATION,
    ProbeResult,
    ProbeVerdict,
)
from remediator.cluster import BreakerState, JobState, Pause, ProbeState, Sight
from remediator.config import DrainSettings
from remediator.kube_cluster.asked import Asked
from remediator.kube_cluster.nodes import node_view, probe_view
from remediator.kube_cluster.peers import AlertSnapshot
from remediator.kube_cluster.pods import job_view, pod_view
from remediator.kube_cluster.state import Switches, data_of, switches_of
from remediator.kube_cluster.stored import stored_of
from tests.remediator.building import FINGERPRINT, MINUTE, NOW, SECOND, START, node_of

JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(
            some.sampled_from(
                ["metadata", "spec", "status", "taints", "conditions", "labels", "nodeInfo", "type"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(some.dictionaries(some.sampled_from(["metadata", "spec", "status", "data"]), JSON))
def test_no_object_breaks_a_view(raw: dict[str, Any]) -> None:
    node_view(raw)
    pod_view(raw, ("nvidia.com/gpu",))
    job_view(raw, [raw])
    stored_of(raw)
    switches_of(raw)


@pytest.mark.parametrize(
    ("raw", "counts"),
    [
        ({}, True),
        ({"metadata": {"labels": {"type": "virtual-kubelet"}}}, False),
        ({"spec": {"taints": [{"key": "virtual-kubelet.io/provider"}]}}, False),
        ({"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]}}, False),
        ({"spec": {"taints": [{"key": "karpenter.sh/disrupted"}]}}, False),
        ({"metadata": {"deletionTimestamp": "2026-11-30T12:00:00Z"}}, False),
    ],
    ids=["ordinary", "virtual label", "virtual taint", "autoscaler", "karpenter", "being deleted"],
)
def test_virtual_nodes_and_those_being_scaled_in_do_not_count(
    raw: dict[str, Any],
    counts: bool,
) -> None:
    assert node_view(raw).counts is counts


def test_a_node_without_the_condition_ready_is_not_ready() -> None:
    assert node_view({}).ready == "Unknown"


def answer(**changes: Any) -> str:
    whole: dict[str, Any] = {
        "operation": "op",
        "boot_id": "boot-1",
        "at": NOW,
        "gpus": {"g": ProbeVerdict.PASSED},
    }
    return ProbeResult.of(**(whole | changes), complete=True).dump()


@pytest.mark.parametrize(
    ("request_", "result", "state"),
    [
        (None, None, ProbeState.NOT_ASKED),
        ("other", answer(), ProbeState.NOT_ASKED),
        ("op", None, ProbeState.ASKED),
        ("op", "nonsense", ProbeState.ASKED),
        ("op", answer(operation="other"), ProbeState.ASKED),
        ("op", answer(boot_id="boot-0"), ProbeState.ASKED),
        ("op", answer(), ProbeState.PASSED),
        ("op", answer(gpus={"g": ProbeVerdict.PROBLEM}), ProbeState.FAILED),
        ("op", answer(gpus={"g": ProbeVerdict.INCONCLUSIVE}), ProbeState.INCONCLUSIVE),
    ],
    ids=[
        "nobody asked",
        "another operation asked",
        "no answer yet",
        "an answer that cannot be read",
        "an answer to another operation",
        "an answer of another boot",
        "passed",
        "problem",
        "could not tell",
    ],
)
def test_only_an_answer_to_our_request_in_this_boot_is_one(
    request_: str | None, result: str | None, state: ProbeState
) -> None:
    told = {PROBE_REQUEST_ANNOTATION: request_, PROBE_RESULT_ANNOTATION: result}
    node = node_of(annotations={key: value for key, value in told.items() if value})

    assert probe_view(node, "op").state is state


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "status": status}


def container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "repair", "state": state}]}


RUNNING = pod(phase="Running", **container(running={"startedAt": "2026-11-30T12:00:00Z"}))
PULLING = pod(phase="Pending", **container(waiting={"reason": "ImagePullBackOff"}))
REFUSED = pod(phase="Failed", reason="OutOfcpu")
COLLECTED = pod(phase="Failed", reason="x", conditions=[{"type": "DisruptionTarget"}])
NO_PROGRAM = pod(phase="Failed", **container(terminated={"exitCode": 128, "reason": "StartError"}))
OTHER_BOOT = pod(phase="Failed", **container(terminated={"exitCode": 75, "message": "{}"}))


@pytest.mark.parametrize(
    ("status", "pods", "began"),
    [
        ({}, [], False),
        ({"active": 1}, [], True),
        ({"active": 1}, [PULLING], False),
        ({"active": 1}, [RUNNING], True),
        ({"active": 1}, [pod(phase="Pending")], False),
        ({"failed": 1}, [REFUSED], False),
        ({"failed": 1}, [COLLECTED], True),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, [], True),
        ({"failed": 1}, [NO_PROGRAM], False),
    ],
    ids=[
        "no pod was made",
        "its pod is not seen",
        "its image cannot be had",
        "it runs",
        "its pod waits",
        "the kubelet refused it",
        "its pod was collected, and nobody knows",
        "it failed and its pod is gone",
        "the runtime could not start its program",
    ],
)
def test_a_job_counts_as_begun_unless_it_certainly_has_not(
    status: dict[str, Any],
    pods: list[dict[str, Any]],
    began: bool,
) -> None:
    assert job_view({"metadata": {"name": "j"}, "status": status}, pods).began is began


def test_a_job_tells_the_exit_code_of_its_container_and_a_missing_image() -> None:
    failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimit"}]}
    view = job_view({"metadata": {"name": "j"}, "status": failed}, [OTHER_BOOT])

    assert (view.state, view.exit_code, view.did_nothing) == (JobState.FAILED, 75, True)
    assert job_view({"status": {}}, [PULLING]).image_failed
    assert job_view({"metadata": {"name": "j"}, "status": failed}, [NO_PROGRAM]).did_nothing


def test_a_pod_terminates_since_its_deletion_and_not_since_the_end_of_its_grace() -> None:
    metadata = {
        "deletionTimestamp": NOW.isoformat(),
        "deletionGracePeriodSeconds": 30,
    }
    view = pod_view({"metadata": metadata}, ())

    assert view.terminating_since == NOW - timedelta(seconds=30)
    assert view.grace == timedelta(seconds=30)


def test_the_switches_come_back_as_they_were_written() -> None:
    breaker = BreakerState(open=True, since=NOW, text="too much", reset_at=START, reset_by="eve")
    written = Switches(Pause("ann", "racks"), breaker)

    assert switches_of({"data": data_of(written)}) == written
    assert switches_of({"data": data_of(Switches())}) == Switches()


def test_switches_that_cannot_be_read_hold_everything() -> None:
    assert switches_of({"data": {"pause": "{"}}).pause is not None
    assert switches_of({"data": {"breaker": '{"open": "yes"}'}}).breaker.open


def alert(print_: str = FINGERPRINT) -> Alert:
    return Alert(AlertStatus.FIRING, {}, {}, START, None, "", print_)


@pytest.mark.parametrize(
    ("alerts", "complete", "sight"),
    [
        ({FINGERPRINT: alert()}, False, Sight.FIRING),
        ({}, True, Sight.ABSENT),
        ({}, False, Sight.UNKNOWN),
    ],
    ids=["one of them has it", "all say it is gone", "one cannot be asked"],
)
def test_an_alert_is_gone_only_if_every_alertmanager_says_so(
    alerts: dict[str, Alert],
    complete: bool,
    sight: Sight,
) -> None:
    assert AlertSnapshot(alerts, {}, complete).view(FINGERPRINT, NOW).sight is sight


def test_a_silenced_alert_says_who_silenced_it() -> None:
    view = AlertSnapshot({FINGERPRINT: alert()}, {FINGERPRINT: "by ann: racks"}, complete=True)

    seen = view.view(FINGERPRINT, NOW)
    assert (seen.silenced, seen.silence) == (True, "by ann: racks")


def test_whoever_waits_for_an_answer_is_told_and_an_old_one_is_never_given_as_newer() -> None:
    told, came = list[str](), Event()

    def tell(names: Collection[str]) -> None:
        told.extend(names)
        came.set()

    asked = Asked(
        lambda key: key.upper(),
        clock=lambda: NOW,
        max_age=MINUTE,
        told=tell,
        log=structlog.get_logger(),
    )
    asked.start()
    assert asked.get("a", "no-1") is None
    assert came.wait(5)
    assert told == ["no-1"]

    found = asked.get("a", "no-2")
    assert found is not None
    assert (found.value, found.as_of) == ("A", NOW)
    assert asked.get("a", "no-3", newer_than=NOW + SECOND) is None
    asked.stop()
    assert replace(found).value == "A"


ASKS = {
    "a whole GPU": ({"nvidia.com/gpu": "2"}, 2),
    "a share of one": ({"nvidia.com/gpu.shared": 1}, 1),
    "a slice of one": ({"nvidia.com/mig-1g.5gb": "3"}, 3),
    "a resource of another kind": ({"nvidia.com/gpumem": "4000", "cpu": "8"}, 0),
}


@pytest.mark.parametrize(("limits", "gpus"), ASKS.values(), ids=ASKS)
@pytest.mark.parametrize("key", ["containers", "initContainers"])
def test_a_pod_uses_gpus_by_whatever_name_it_asks_for_them(
    key: str, limits: dict[str, Any], gpus: int
) -> None:
    raw = {"spec": {key: [{"name": "c", "resources": {"limits": limits}}]}}

    assert pod_view(raw, DrainSettings().gpu_resources).gpus == gpus


CARDS = {
    "as many as can be used": ({"allocatable": {"nvidia.com/gpu": "6"}}, 6),
    "those that it has when its plugin is down": (
        {"allocatable": {"nvidia.com/gpu": "0"}, "capacity": {"nvidia.com/gpu": "8"}},
        8,
    ),
    "those that are cut into slices": ({"allocatable": {"nvidia.com/mig-1g.5gb": "28"}}, 4),
}


@pytest.mark.parametrize(("status", "gpus"), CARDS.values(), ids=CARDS)
def test_a_nodes_gpus_are_counted_whole_for_budgets(status: dict[str, Any], gpus: int) -> None:
    labels = {"nvidia.com/gpu.count": "4"}

    assert node_view({"metadata": {"labels": labels}, "status": status}).gpus == gpus
    assert node_view({"metadata": {"labels": {"nvidia.com/gpu.count": "many"}}}).gpus == 0
