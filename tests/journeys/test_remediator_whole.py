"""From a fault to a proven node and a closed issue, on real programs: Kubernetes, Prometheus, two Alertmanagers, replicas."""

import re
from collections.abc import Iterator

import pytest

from chassis.kube_client import DEPLOYMENTS, NODES, PDBS, PODS
from sandbox.simulated_nodes import FaultKind, Happening
from tests.journeys import remediator_whole
from tests.journeys.remediator_whole import SECONDS, Whole, whole
from tests.journeys.remediator_world import CONDITION
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

WAY = (
    "Gated",
    "Reserved",
    "Isolated",
    "Draining",
    "Executing",
    "AwaitingReturn",
    "Verifying",
    "Releasing",
    "Succeeded",
)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    if reason := remediator_whole.why_not():
        pytest.skip(reason)
    with whole(tmp_path_factory.mktemp("whole")) as running:
        yield running


def train_on(everything: Whole, node: str) -> None:
    """Two pods of a Deployment that like this node best, of which one must always run."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    preference = {"weight": 100, "preference": {"matchExpressions": [here]}}
    labels = {"app": "training"}
    container = {
        "name": "main",
        "image": "train",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    pod = {
        "terminationGracePeriodSeconds": 1,
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
        },
        "containers": [container],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "training", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "training", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    }
    client = everything.world.client
    client.create(PDBS, budget, "default")
    client.create(DEPLOYMENTS, deployment, "default")
    wait_until("two pods on the node", lambda: trains_on(everything) == [node, node], SECONDS)


def trains_on(everything: Whole) -> list[str]:
    """The nodes of the running pods."""
    pods = everything.world.client.list(PODS, "default", label_selector="app=training").items
    return sorted(
        pod["spec"]["nodeName"]
        for pod in pods
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    )


def test_a_fault_is_repaired_once_and_told_in_one_issue_whoever_posts_it_how_often(
    everything: Whole,
) -> None:
    """Two Alertmanagers post the same alert, each to another replica and both to alerts2gh."""
    world, title = everything.world, f"{CONDITION}: node=n1"
    train_on(everything, "n1")

    world.sim("n1").inject(FaultKind.GPU_RUNTIME_ERROR)

    issue = everything.wait_for_issue(title, "open")
    operation = world.wait_for("n1", "Succeeded", "Escalated", "Cancelled", seconds=SECONDS)
    status = operation["status"]
    assert list(dict.fromkeys(each["phase"] for each in status["history"])) == list(WAY), status
    assert [cause["kind"] for cause in operation["spec"]["causes"]] == ["alert"]

    assert everything.wait_for_issue(title, "closed").number == issue.number
    told = re.findall(r"\*\*(\w+)\*\*.* · `(no-\w+)` on `n1`", everything.comments(title))
    assert told == [(phase, operation["metadata"]["name"]) for phase in WAY]

    assert len(world.operations("n1")) == 1
    wait_until("each replica to be told", lambda: all(taken(everything)), SECONDS)
    assert sum(everything.counted("remediator_faults_total", result="created")) == 1
    assert_in_service(everything, "n1", reboots=1)
    assert "n1" not in trains_on(everything)


def taken(everything: Whole) -> list[float]:
    """How many alerts became or met an operation, by replica."""
    results = ("created", "known", "joined")
    counts = [
        everything.counted("remediator_faults_total", trigger="alert", result=each)
        for each in results
    ]
    return [sum(each) for each in zip(*counts, strict=True)]


def assert_in_service(everything: Whole, node: str, *, reboots: int) -> None:
    """As the node's own history and the API tell it."""
    history = everything.world.sim(node).history
    assert history.reboots == reboots
    assert history.count(Happening.PROBE_ANSWERED) >= 1
    found = everything.world.client.get(NODES, node)
    assert not found["spec"].get("taints")
    assert not found["spec"].get("unschedulable")
    assert found["status"]["nodeInfo"]["bootID"] == everything.world.sim(node).boot_id


def test_an_operation_that_no_alert_began_reaches_an_issue_when_it_needs_a_person(
    everything: Whole,
) -> None:
    """By the shipped rule. What only the probe finds makes no alert of its own."""
    world, title = everything.world, "NodeOperationEscalated: node=n2"
    remediator = everything.replicas[0]
    world.sim("n2").inject(FaultKind.PROBE_FAILS)

    begun = remediator.call("run", "gpu-runtime-error", "n2", "--reason", "it computes slowly")

    assert begun.returncode == 0, begun.stderr
    operation = world.wait_for("n2", "Escalated", "Succeeded", seconds=SECONDS)
    assert operation["status"]["phase"] == "Escalated"
    name = operation["metadata"]["name"]
    assert world.taint("n2") == name
    issue = everything.wait_for_issue(title, "open")
    assert "remediator release n2" in issue.body
    assert name in issue.body

    world.sim("n2").clear()
    released = remediator.call("release", "n2")
    assert released.returncode == 0, released.stderr
    world.wait_for("n2", "Succeeded", seconds=SECONDS)
    everything.wait_for_issue(title, "closed")

    assert len(world.operations("n2")) == 1
    assert everything.issue(f"{CONDITION}: node=n2") is None
    assert_in_service(everything, "n2", reboots=1)
