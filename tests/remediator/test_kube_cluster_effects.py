"""Effects on a cluster: only ours is touched, and doing one twice is doing it once."""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from chassis.contracts import OPERATION_TAINT, SCALE_DOWN_DISABLED_ANNOTATION
from chassis.errors import PermanentError
from chassis.kube_client import (
    CUSTOM_RESOURCE_DEFINITIONS,
    JOBS,
    NODES,
    PDBS,
    PODS,
    Conflict,
    KubeClient,
    KubeSettings,
    PatchKind,
    Resource,
)
from remediator.cluster import (
    AskProbe,
    CreateJob,
    DeleteJob,
    DeletePod,
    Effect,
    EvictionKind,
    EvictPod,
    ForgetWish,
    Isolate,
    PodRef,
    Release,
)
from remediator.kube_cluster import NODE_OPERATIONS, KubeCluster, Listeners
from remediator.operation import (
    CANCELLED_BY,
    SCALE_DOWN_MARK,
    Intent,
    IntentAction,
    NodeOperation,
    OperationSpec,
    OperationStatus,
    Phase,
    Trigger,
)
from sandbox.kubernetes_rules.cel_rules import without_cel_rules
from sandbox.kubernetes_server import SandboxKubernetes
from tests.remediator.building import config_of

CRD = Path(__file__).parents[2] / "deploy" / "remediator" / "crd.yaml"
FOREIGN = {"key": "example.com/maintenance", "value": "x", "effect": "NoExecute"}


def now() -> datetime:
    return datetime.now(UTC)


class Bench:
    """A cluster with one node and one operation on it."""

    def __init__(self, server: SandboxKubernetes, kubeconfig: Path) -> None:
        log = structlog.get_logger()
        self.server = server
        self.client = KubeClient(KubeSettings(kubeconfig=kubeconfig, qps=0), log)
        definition = without_cel_rules(yaml.safe_load(CRD.read_text("utf-8")))
        self.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        (self.node,) = server.add_nodes(1)
        self.cluster = KubeCluster(self.client, config_of(), clock=now, log=log)
        self.operation = self.make("no-1")

    def make(self, name: str) -> NodeOperation:
        spec = OperationSpec(self.node, "gpu", Trigger.MANUAL, 1)
        return self.cluster.create_operation(name, spec)

    def raw(self) -> dict[str, Any]:
        return self.client.get(NODES, self.node)

    @property
    def uid(self) -> str:
        return str(self.raw()["metadata"]["uid"])

    def isolate(self, name: str = "no-1") -> None:
        self.cluster.apply(self.operation, Isolate(self.node, self.uid, name))

    def release(self, boot_id: str = "") -> None:
        effect = Release(self.node, self.uid, self.operation.name, self.operation.uid, boot_id)
        self.cluster.apply(self.operation, effect)

    def taints(self) -> list[tuple[str, str]]:
        found = self.raw()["spec"].get("taints") or ()
        return [(each["key"], each.get("value", "")) for each in found]

    def annotations(self) -> dict[str, str]:
        return dict(self.raw()["metadata"].get("annotations") or {})

    def patch_node(self, body: dict[str, Any]) -> None:
        self.client.patch(NODES, self.node, body, kind=PatchKind.MERGE)

    def pod(self, name: str, **labels: str) -> PodRef:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"nodeName": self.node, "containers": [{"name": "c", "image": "i"}]},
        }
        made = self.client.create(PODS, body)
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        self.client.patch(
            PODS, name, {"status": status}, "default", kind=PatchKind.MERGE, subresource="status"
        )
        return PodRef("default", name, made["metadata"]["uid"])

    def answer_of(self, pod: PodRef) -> EvictionKind:
        """What the API said to the last try, as the next observation has it."""
        draining = replace(
            self.operation, status=replace(self.operation.status, phase=Phase.EXECUTING)
        )
        seen = self.cluster.observe(draining, config_of().playbook("gpu")).pods or ()
        (found,) = [each for each in seen if each.uid == pod.uid]
        assert found.answer is not None
        return found.answer.kind


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with SandboxKubernetes(scheduler=False) as server:
        one = Bench(server, server.kubeconfig(tmp_path / "kubeconfig"))
        yield one
        one.cluster.stop()
        one.client.close()


def test_isolation_adds_our_taint_to_those_of_others_and_marks_the_node(bench: Bench) -> None:
    bench.patch_node({"spec": {"taints": [FOREIGN]}})

    bench.isolate()
    before = bench.raw()["metadata"]["resourceVersion"]
    bench.isolate()

    assert bench.taints() == [("example.com/maintenance", "x"), (OPERATION_TAINT, "no-1")]
    assert bench.annotations()[SCALE_DOWN_DISABLED_ANNOTATION] == "true"
    assert bench.annotations()[SCALE_DOWN_MARK] == "no-1"
    assert bench.raw()["metadata"]["resourceVersion"] == before


def test_release_takes_ours_off_and_leaves_everything_else(bench: Bench) -> None:
    bench.patch_node({"spec": {"taints": [FOREIGN], "unschedulable": True}})
    bench.isolate()

    bench.release()
    bench.release()

    keys = [key for key, _ in bench.taints()]
    assert "example.com/maintenance" in keys
    assert OPERATION_TAINT not in keys
    assert bench.raw()["spec"]["unschedulable"] is True
    assert not {SCALE_DOWN_MARK, SCALE_DOWN_DISABLED_ANNOTATION} & set(bench.annotations())


def test_a_scale_down_that_a_person_has_disabled_stays_disabled(bench: Bench) -> None:
    bench.patch_node({"metadata": {"annotations": {SCALE_DOWN_DISABLED_ANNOTATION: "true"}}})

    bench.isolate()
    bench.release()

    assert bench.annotations() == {SCALE_DOWN_DISABLED_ANNOTATION: "true"}


def test_release_never_takes_another_operations_taint(bench: Bench) -> None:
    other = {"key": OPERATION_TAINT, "value": "no-2", "effect": "NoSchedule"}
    bench.patch_node({"spec": {"taints": [other]}})

    bench.release()

    assert bench.taints() == [(OPERATION_TAINT, "no-2")]


def test_the_taint_of_an_active_operation_is_never_replaced(bench: Bench) -> None:
    bench.make("no-2")
    other = {"key": OPERATION_TAINT, "value": "no-2", "effect": "NoSchedule"}
    bench.patch_node({"spec": {"taints": [other]}})

    with pytest.raises(PermanentError, match="isolated by no-2"):
        bench.isolate()

    assert bench.taints() == [(OPERATION_TAINT, "no-2")]


def test_the_taint_of_an_operation_that_is_gone_is_taken_over(bench: Bench) -> None:
    other = {"key": OPERATION_TAINT, "value": "no-gone", "effect": "NoSchedule"}
    bench.patch_node({"spec": {"taints": [other]}})

    bench.isolate()

    assert bench.taints() == [(OPERATION_TAINT, "no-1")]


def test_nothing_is_done_for_an_operation_that_has_changed(bench: Bench) -> None:
    bench.cluster.record(bench.operation, OperationStatus(phase=Phase.GATED, since=now()))

    with pytest.raises(Conflict):
        bench.isolate()

    assert bench.taints() == []


def test_nothing_is_done_to_another_node_of_the_same_name(bench: Bench) -> None:
    with pytest.raises(Conflict, match="another one"):
        bench.cluster.apply(bench.operation, Isolate(bench.node, "other-uid", "no-1"))

    assert bench.taints() == []


def test_a_status_is_written_only_over_the_one_it_was_decided_on(bench: Bench) -> None:
    status = OperationStatus(phase=Phase.GATED, since=now())
    bench.cluster.record(bench.operation, status)

    with pytest.raises(Conflict):
        bench.cluster.record(bench.operation, status)


def test_our_own_last_write_is_what_the_next_decision_sees(bench: Bench) -> None:
    bench.cluster.record(bench.operation, OperationStatus(phase=Phase.GATED, since=now()))

    (seen,) = bench.cluster.operations()

    assert seen.status.phase is Phase.GATED


@pytest.mark.parametrize("budgets", [0, 1, 2], ids=["no budget", "one budget", "two budgets"])
def test_an_eviction_is_answered_by_what_the_api_says(bench: Bench, budgets: int) -> None:
    pod = bench.pod("train", app="train")
    for number in range(budgets):
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"b{number}", "namespace": "default"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "train"}}},
        }
        bench.client.create(PDBS, body)

    bench.cluster.apply(bench.operation, EvictPod(pod))

    kinds = (EvictionKind.ACCEPTED, EvictionKind.BUDGET, EvictionKind.SEVERAL_BUDGETS)
    assert bench.answer_of(pod) is kinds[budgets]


def test_a_pod_reborn_under_the_same_name_is_left_alone(bench: Bench) -> None:
    pod = bench.pod("train")

    bench.cluster.apply(bench.operation, DeletePod(replace(pod, uid="the-one-before")))
    bench.cluster.apply(bench.operation, EvictPod(replace(pod, uid="the-one-before")))

    assert "deletionTimestamp" not in bench.client.get(PODS, "train", "default")["metadata"]


def job(name: str) -> CreateJob:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }
    return CreateJob(name, "default", manifest)


def test_a_job_that_is_made_twice_is_one_and_its_deletion_takes_its_pod(bench: Bench) -> None:
    bench.cluster.apply(bench.operation, job("op-1"))
    bench.cluster.apply(bench.operation, job("op-1"))
    assert len(bench.client.list(JOBS, "default").items) == 1

    bench.cluster.apply(bench.operation, DeleteJob("op-1", "default"))
    bench.cluster.apply(bench.operation, DeleteJob("op-1", "default"))

    assert not bench.client.list(JOBS, "default").items


def test_no_job_is_made_once_the_node_has_rebooted(bench: Bench) -> None:
    intent = Intent(IntentAction.RUN_JOB, now(), boot_id="an-earlier-boot", job="op-1")
    status = OperationStatus(phase=Phase.EXECUTING, since=now(), intent=intent)
    operation = bench.cluster.record(bench.operation, status)

    with pytest.raises(Conflict, match="rebooted"):
        bench.cluster.apply(operation, job("op-1"))

    assert not bench.client.list(JOBS, "default").items


@pytest.mark.parametrize(
    "effect",
    [
        pytest.param("isolate", id="F1 a node is isolated"),
        pytest.param("release", id="F2 a node is released"),
        pytest.param("probe", id="F3 a probe is asked for"),
        pytest.param("job", id="F4 a Job is made"),
    ],
)
def test_what_changes_while_the_node_is_read_refuses_the_write(
    bench: Bench, effect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call may take longer than a term, and the operation be another leader's by then."""
    if effect == "release":
        bench.isolate()
    effects: dict[str, Effect] = {
        "isolate": Isolate(bench.node, bench.uid, "no-1"),
        "release": Release(bench.node, bench.uid, "no-1", bench.operation.uid),
        "probe": AskProbe(bench.node, bench.uid, bench.operation.uid),
        "job": job("op-1"),
    }
    before = bench.raw()["spec"].get("taints"), bench.annotations()
    read = bench.client.get

    def slow(resource: Resource, *arguments: Any, **options: Any) -> dict[str, Any]:
        found = read(resource, *arguments, **options)
        if resource is NODES:
            monkeypatch.setattr(bench.client, "get", read)
            bench.cluster.record(bench.operation, OperationStatus(phase=Phase.GATED, since=now()))
        return found

    monkeypatch.setattr(bench.client, "get", slow)
    with pytest.raises(Conflict, match="has changed"):
        bench.cluster.apply(bench.operation, effects[effect])

    assert (bench.raw()["spec"].get("taints"), bench.annotations()) == before
    assert not bench.client.list(JOBS, "default").items


def test_nothing_is_released_in_another_boot_than_the_one_that_was_proven(bench: Bench) -> None:
    bench.isolate()

    with pytest.raises(Conflict, match="rebooted since it was proven"):
        bench.release("an-earlier-boot")
    assert ("nodemend.dev/operation", "no-1") in bench.taints()

    bench.release(bench.raw()["status"]["nodeInfo"]["bootID"])
    assert not bench.taints()


def test_a_probe_is_asked_for_by_our_uid_and_unasked_at_the_release(bench: Bench) -> None:
    bench.isolate()
    ask = AskProbe(bench.node, bench.uid, bench.operation.uid)

    bench.cluster.apply(bench.operation, ask)
    assert bench.annotations()["nodemend.dev/probe-request"] == bench.operation.uid

    bench.release()
    assert "nodemend.dev/probe-request" not in bench.annotations()


def test_only_the_wish_that_was_taken_up_is_forgotten(bench: Bench) -> None:
    body = {"metadata": {"annotations": {CANCELLED_BY: "bob"}}}
    raw = bench.client.patch(NODE_OPERATIONS, "no-1", body, kind=PatchKind.MERGE)
    operation = bench.cluster.shelf.wrote(raw).operation
    assert operation is not None

    bench.cluster.apply(operation, ForgetWish("no-1", CANCELLED_BY, "alice"))
    assert _annotation(bench) == "bob"

    bench.cluster.apply(operation, ForgetWish("no-1", CANCELLED_BY, "bob"))
    assert _annotation(bench) is None


def _annotation(bench: Bench) -> str | None:
    metadata = bench.client.get(NODE_OPERATIONS, "no-1")["metadata"]
    found = (metadata.get("annotations") or {}).get(CANCELLED_BY)
    return None if found is None else str(found)


def test_an_operation_edited_into_nonsense_is_told_and_never_guessed(bench: Bench) -> None:
    stored = bench.cluster.shelf.wrote(
        {"metadata": {"name": "no-x", "resourceVersion": "9999"}, "spec": {"episode": "many"}}
    )

    assert stored.operation is None
    assert "no-x" in stored.problem
    assert bench.cluster.unreadable == 1


def test_a_new_operation_and_a_persons_word_wake_the_leader_even_if_it_has_read_them_itself(
    bench: Bench,
) -> None:
    woken: list[str] = []

    def changed(names: Collection[str]) -> None:
        woken.extend(names)

    def nothing(*_: object) -> None:
        return

    listeners = Listeners(operations=changed, node=nothing, switches=nothing)
    log = structlog.get_logger()
    cluster = KubeCluster(bench.client, config_of(), clock=now, log=log, listeners=listeners)
    cluster.start()
    assert cluster.wait_synced(5)
    made = cluster.create_operation("no-2", OperationSpec(bench.node, "gpu", Trigger.MANUAL, 2))
    until(lambda: "no-2" in woken)

    woken.clear()
    cluster.record(made, OperationStatus(phase=Phase.GATED, since=now()))
    body = {"metadata": {"annotations": {CANCELLED_BY: "bob"}}}
    bench.client.patch(NODE_OPERATIONS, "no-2", body, kind=PatchKind.MERGE)
    cluster.shelf.refresh("no-2")
    until(lambda: "no-2" in woken)

    assert set(woken) == {"no-2"}
    cluster.stop()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)
