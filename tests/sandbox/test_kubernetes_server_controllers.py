"""What runs inside the sandbox Kubernetes: garbage collection, budgets, Jobs, namespaces, the scheduler."""

from typing import Any

import pytest

from sandbox.kubernetes_server import SandboxKubernetes
from tests.sandbox.kubernetes_calls import (
    JOBS,
    MAPS,
    MERGE,
    NODES,
    PODS,
    a_map,
    a_pod,
    ask,
    made,
    ready,
    server,
    until,
)

__all__ = ["server"]  # a fixture, asked for by name
PDBS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def owned(body: dict[str, Any], owner: dict[str, Any], **more: Any) -> dict[str, Any]:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}


def maps(server: SandboxKubernetes) -> set[str]:
    return {each["metadata"]["name"] for each in server.objects("configmaps")}


def pod(server: SandboxKubernetes, name: str) -> dict[str, Any]:
    found = server.object("pods", name, "default")
    assert found is not None
    return found


def a_job(name: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def end(server: SandboxKubernetes, name: str, phase: str) -> None:
    ask(server, "PATCH", f"{PODS}/{name}/status", {"status": {"phase": phase}}, kind=MERGE)


@pytest.mark.parametrize(
    ("policy", "left"),
    [("Background", set()), ("Foreground", set()), ("Orphan", {"child"})],
)
def test_dependents_go_with_their_owner_unless_they_are_orphaned(
    server: SandboxKubernetes, policy: str, left: set[str]
) -> None:
    owner = made(server, MAPS, a_map("owner"))
    made(server, MAPS, owned(a_map("child"), owner, blockOwnerDeletion=True))

    ask(server, "DELETE", f"{MAPS}/owner", {"propagationPolicy": policy})

    until(lambda: maps(server) == left)
    if left:
        child = server.object("configmaps", "child", "default") or {}
        assert "ownerReferences" not in child["metadata"]


def test_a_dependent_of_an_owner_that_is_not_there_goes(server: SandboxKubernetes) -> None:
    owner = made(server, MAPS, a_map("owner"))
    ask(server, "DELETE", f"{MAPS}/owner")

    made(server, MAPS, owned(a_map("late"), owner))

    until(lambda: maps(server) == set())


def test_a_deleted_namespace_goes_with_all_that_is_in_it(server: SandboxKubernetes) -> None:
    made(server, "/api/v1/namespaces", {"metadata": {"name": "team"}})
    made(server, "/api/v1/namespaces/team/configmaps", a_map("a"))

    ask(server, "DELETE", "/api/v1/namespaces/team")

    until(lambda: server.object("namespaces", "team") is None)
    assert server.objects("configmaps", "team") == []


def test_pods_of_a_deleted_node_go(server: SandboxKubernetes) -> None:
    server.add_nodes(1)
    made(server, PODS, a_pod("p", nodeName="node-00000"))

    ask(server, "DELETE", f"{NODES}/node-00000")

    until(lambda: server.objects("pods") == [])


def test_an_eviction_is_refused_while_the_budget_forbids_it(server: SandboxKubernetes) -> None:
    server.add_nodes(1)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    made(server, PDBS, {"metadata": {"name": "web"}, "spec": spec})
    for name in ("a", "b"):
        made(server, PODS, a_pod(name, labels={"app": "web"}, nodeName="node-00000"))
        ready(server, name)

    def allowed() -> int:
        budget = server.object("poddisruptionbudgets.policy", "web", "default") or {}
        return int(budget.get("status", {}).get("disruptionsAllowed", 0))

    until(lambda: allowed() == 1)
    first, second = (
        ask(server, "POST", f"{PODS}/{name}/eviction", {"metadata": {"name": name}})
        for name in ("a", "b")
    )

    assert (first.status_code, second.status_code) == (201, 429)
    assert second.json()["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert "deletionTimestamp" in pod(server, "a")["metadata"]
    assert "deletionTimestamp" not in pod(server, "b")["metadata"]


def test_a_job_makes_its_pod_and_completes_with_it(server: SandboxKubernetes) -> None:
    server.add_nodes(1)
    made(server, JOBS, a_job("j"))

    [made_pod] = until(lambda: server.objects("pods"))
    end(server, made_pod["metadata"]["name"], "Succeeded")

    def conditions() -> set[str]:
        job = server.object("jobs.batch", "j", "default") or {}
        return {each["type"] for each in job["status"].get("conditions", ())}

    until(lambda: "Complete" in conditions())
    assert len(server.objects("pods")) == 1


def test_a_job_without_back_off_fails_with_its_first_pod(server: SandboxKubernetes) -> None:
    made(server, JOBS, a_job("j", backoffLimit=0))
    [made_pod] = until(lambda: server.objects("pods"))

    end(server, made_pod["metadata"]["name"], "Failed")

    def reasons() -> set[str]:
        job = server.object("jobs.batch", "j", "default") or {}
        return {e["reason"] for e in job["status"].get("conditions", ()) if e["type"] == "Failed"}

    until(lambda: reasons() == {"BackoffLimitExceeded"})
    assert len(server.objects("pods")) == 1


def test_a_pod_gets_a_node_that_fits(server: SandboxKubernetes) -> None:
    server.add_nodes(2)
    ask(server, "PATCH", f"{NODES}/node-00000", {"spec": {"unschedulable": True}}, kind=MERGE)

    made(server, PODS, a_pod("p"))

    until(lambda: pod(server, "p")["spec"].get("nodeName") == "node-00001")
    conditions = {e["type"]: e["status"] for e in pod(server, "p")["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


def test_a_pod_that_fits_nowhere_says_why_and_is_tried_again(server: SandboxKubernetes) -> None:
    server.add_nodes(1)
    made(server, PODS, a_pod("p", container={"resources": {"limits": {"nvidia.com/gpu": "1"}}}))

    def message() -> str:
        return " ".join(
            str(each.get("message")) for each in pod(server, "p")["status"].get("conditions", ())
        )

    until(lambda: "Insufficient nvidia.com/gpu" in message())
    body = {"status": {"allocatable": {"nvidia.com/gpu": "1"}}}
    ask(server, "PATCH", f"{NODES}/node-00000/status", body, kind=MERGE)

    until(lambda: pod(server, "p")["spec"].get("nodeName") == "node-00000")


def test_a_more_important_pod_pushes_out_a_lesser_one(server: SandboxKubernetes) -> None:
    server.add_nodes(1)
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    server.put({**head, "metadata": {"name": "high"}, "value": 100})
    whole = {"resources": {"limits": {"cpu": "8"}}}
    made(server, PODS, a_pod("low", container=whole))
    until(lambda: pod(server, "low")["spec"].get("nodeName"))
    made(server, PODS, a_pod("high", container=whole, priorityClassName="high"))

    until(lambda: "deletionTimestamp" in pod(server, "low")["metadata"])
    reasons = {each.get("reason") for each in pod(server, "low")["status"]["conditions"]}
    assert "PreemptionByScheduler" in reasons
    ask(server, "DELETE", f"{PODS}/low", {"gracePeriodSeconds": 0})

    until(lambda: pod(server, "high")["spec"].get("nodeName") == "node-00000")
