"""The embedded scheduler: which node takes a pod, and who has to go for it."""

from typing import Any

import pytest

from sandbox.kubernetes_rules.placement import place, requests_of, why_not
from sandbox.kubernetes_rules.quantities import parse_quantity

GPU = "nvidia.com/gpu"


def a_node(
    name: str = "n", *, labels: dict[str, str] | None = None, cpu: str = "4", **spec: Any
) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "8Gi", GPU: "2", "pods": "3"}
    meta = {"name": name, "labels": labels or {}}
    return {"metadata": meta, "spec": spec, "status": {"allocatable": allocatable}}


def a_pod(name: str = "p", gpus: int = 0, **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", GPU: str(gpus)}}
    containers = [{"name": "c", "resources": resources}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def required(*expressions: dict[str, Any], fields: bool = False) -> dict[str, Any]:
    terms = [{"matchFields" if fields else "matchExpressions": list(expressions)}]
    needed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": needed}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


TAINT = {"key": "t", "value": "v", "effect": "NoSchedule"}
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINTED = "node(s) had untolerated taint(s)"
BIG = {"vram": "80"}


@pytest.mark.parametrize(
    ("pod", "node", "expected"),
    [
        pytest.param(a_pod(), a_node(), (), id="it fits"),
        pytest.param(a_pod(gpus=3), a_node(), (f"Insufficient {GPU}",), id="too few GPUs"),
        pytest.param(a_pod(nodeSelector={"a": "b"}), a_node(), (AFFINITY,), id="no such label"),
        pytest.param(
            a_pod(affinity=required(expression("vram", "Gt", "79"))),
            a_node(labels=BIG),
            (),
            id="Gt",
        ),
        pytest.param(
            a_pod(affinity=required(expression("vram", "Lt", "80"))),
            a_node(labels=BIG),
            (AFFINITY,),
            id="Lt",
        ),
        pytest.param(
            a_pod(affinity=required(expression("vram", "Gt", "10"))),
            a_node(labels={"vram": "large"}),
            (AFFINITY,),
            id="Gt of a word",
        ),
        pytest.param(
            a_pod(affinity=required(expression("x", "NotIn", "y"))),
            a_node(),
            (),
            id="NotIn, absent",
        ),
        pytest.param(
            a_pod(affinity=required(expression("metadata.name", "In", "n"), fields=True)),
            a_node(),
            (),
            id="by name",
        ),
        pytest.param(a_pod(affinity=required()), a_node(), (AFFINITY,), id="an empty term"),
        pytest.param(a_pod(), a_node(taints=[TAINT]), (TAINTED,), id="a taint"),
        pytest.param(
            a_pod(tolerations=[{"key": "t", "operator": "Exists"}]),
            a_node(taints=[TAINT]),
            (),
            id="a tolerated taint",
        ),
        pytest.param(
            a_pod(tolerations=[{"key": "t", "value": "w"}]),
            a_node(taints=[TAINT]),
            (TAINTED,),
            id="another value",
        ),
        pytest.param(
            a_pod(), a_node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), (), id="a soft taint"
        ),
        pytest.param(
            a_pod(), a_node(unschedulable=True), ("node(s) were unschedulable",), id="cordoned"
        ),
        pytest.param(
            a_pod(tolerations=[{"operator": "Exists"}]),
            a_node(unschedulable=True, taints=[TAINT]),
            (),
            id="all tolerated",
        ),
    ],
)
def test_a_pod_fits_a_node_or_the_reason_is_said(
    pod: dict[str, Any], node: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert why_not(pod, node, []) == expected


def test_what_other_pods_hold_is_not_free() -> None:
    running = [a_pod(f"r{i}", gpus=1, nodeName="n") for i in range(2)]
    ended = [{**a_pod("e", gpus=2, nodeName="n"), "status": {"phase": "Succeeded"}}]

    assert why_not(a_pod(gpus=1), a_node(), [*running, *ended]) == (f"Insufficient {GPU}",)
    assert why_not(a_pod(), a_node(), [*running, a_pod(nodeName="n")]) == ("Too many pods",)


def test_a_large_init_container_counts_beside_the_sidecars_before_it() -> None:
    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("500m")],
        "initContainers": [container("1", restartPolicy="Always"), container("3")],
    }

    assert requests_of({"metadata": {}, "spec": spec})["cpu"] == parse_quantity("4")


def test_the_preferred_node_wins_then_the_emptiest() -> None:
    liked = [{"weight": 5, "preference": {"matchExpressions": [expression("a", "Exists")]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": liked}}
    nodes = [a_node("n1"), a_node("n2"), a_node("n3", labels={"a": ""})]
    taken = [a_pod("x", nodeName="n1")]

    assert place(a_pod(affinity=affinity), nodes, taken).node == "n3"
    assert place(a_pod(), nodes[:2], taken).node == "n2"


def test_nowhere_is_told_with_each_reason_counted() -> None:
    nodes = [a_node("n1", taints=[TAINT]), a_node("n2", taints=[TAINT]), a_node("n3", cpu="0")]

    placed = place(a_pod(), nodes, [])

    assert placed.node is None
    assert placed.message == (f"0/3 nodes are available: 1 Insufficient cpu, 2 {TAINTED}.")


def ranked(name: str, priority: int, gpus: int, node: str) -> dict[str, Any]:
    return a_pod(name, gpus, priority=priority, nodeName=node)


def test_the_least_important_pods_go_and_no_more_than_needed() -> None:
    pods = [ranked("a", 5, 1, "n1"), ranked("b", 1, 1, "n1"), ranked("c", 6, 2, "n2")]

    placed = place(a_pod(gpus=1, priority=10), [a_node("n1"), a_node("n2")], pods)

    names = [each["metadata"]["name"] for each in placed.victims]
    assert (placed.node, names) == ("n1", ["b"])


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"priority": 10, "preemptionPolicy": "Never"}, id="it never preempts"),
        pytest.param({"priority": 5}, id="the others are as important"),
    ],
)
def test_nobody_goes_for_a_pod_that_may_not_preempt(spec: dict[str, Any]) -> None:
    placed = place(a_pod(gpus=2, **spec), [a_node("n1")], [ranked("a", 5, 1, "n1")])

    assert (placed.node, placed.victims) == (None, ())


def test_a_gated_pod_waits() -> None:
    placed = place(a_pod(schedulingGates=[{"name": "g"}]), [a_node()], [])

    assert (placed.node, "scheduling gates" in placed.message) == (None, True)
