"""The real remediator, from a fault on a simulated node to its proof, on the embedded and on the real Kubernetes."""

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chassis.kube_client import NODES as NODE_RESOURCE
from chassis.kube_client import PatchKind
from remediator.kube_cluster import NODE_OPERATIONS
from sandbox.kubernetes_server import SandboxKubernetes
from sandbox.simulated_nodes import Fault, FaultKind, Happening
from tests import kubernetes_api
from tests.journeys.remediator_world import (
    CONDITION,
    PLAYBOOK,
    Remediator,
    Start,
    World,
    a_world,
    client_of,
    prepare,
    webhook,
)
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
NODES = ("n1", "n2", "n3")
KILLS = 6  # each costs a start of Python; a hundred are in test_remediator_crash.py
ALERT_ONLY: dict[str, Any] = {key: PLAYBOOK[key] for key in PLAYBOOK if key != "conditions"}


@dataclass(frozen=True)
class Api:
    """A Kubernetes, and how to make it silent for a while."""

    kubeconfig: Path
    pause: Callable[[], None]
    resume: Callable[[], None]


@pytest.fixture(params=["embedded", "real"])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    if request.param == "embedded":
        with SandboxKubernetes(scheduler=False) as server:
            path = server.kubeconfig(tmp_path / "kubeconfig")
            prepare(client_of(path), embedded=True)
            yield Api(path, server.control.pause, server.control.resume)
        return
    if why_not := kubernetes_api.missing(*PROGRAMS):
        pytest.skip(why_not)
    with kubernetes_api.running_kubernetes_api(tmp_path / "api", controllers=True) as real:
        prepare(client_of(real.kubeconfig))
        yield Api(real.kubeconfig, real.pause, real.resume)


@pytest.fixture
def world(api: Api, tmp_path: Path) -> Iterator[World]:
    with a_world(api.kubeconfig, tmp_path, NODES) as one:
        yield one


@pytest.fixture
def start(world: World, tmp_path: Path) -> Iterator[Start]:
    """Starts remediators, and ends them at the end."""
    started: list[Remediator] = []

    def one(name: str = "remediator-0", **changes: object) -> Remediator:
        wait = bool(changes.pop("wait", True))
        started.append(Remediator(tmp_path, world.kubeconfig, name, **changes))
        return started[-1].start(wait=wait)

    yield one
    for each in started:
        each.kill()


def phases_of(operation: dict[str, Any]) -> list[str]:
    """The phases that an operation came through, each once."""
    return list(dict.fromkeys(entry["phase"] for entry in operation["status"]["history"]))


def test_a_faulty_node_is_isolated_drained_rebooted_once_probed_and_released(
    world: World, start: Start
) -> None:
    world.ordinary_pod("training", "n1")
    start(playbooks=[{**PLAYBOOK, "proof": {**PLAYBOOK["proof"], "probe": True}}])
    world.sim("n1").inject(FaultKind.GPU_RUNTIME_ERROR)

    operation = world.wait_for("n1", "Succeeded", "Escalated", "Cancelled")

    assert operation["status"]["phase"] == "Succeeded", operation["status"]
    assert phases_of(operation) == [
        "Gated",
        "Reserved",
        "Isolated",
        "Draining",
        "Executing",
        "AwaitingReturn",
        "Verifying",
        "Releasing",
        "Succeeded",
    ]
    assert not world.pod_exists("training")
    assert world.taint("n1") is None
    annotations = world.node("n1")["metadata"].get("annotations") or {}
    assert not [key for key in annotations if "scale-down" in key or "probe-request" in key]
    assert [world.sim(name).history.reboots for name in NODES] == [1, 0, 0]
    assert world.sim("n1").history.count(Happening.PROBE_ANSWERED) == 1


def test_a_node_that_is_not_healed_stays_isolated_until_a_person_has_it_proven(
    world: World, start: Start
) -> None:
    remediator = start(playbooks=[{**PLAYBOOK, "proof": {**PLAYBOOK["proof"], "deadline": "2s"}}])
    world.sim("n1").inject(Fault(FaultKind.GPU_RUNTIME_ERROR, healed_by=frozenset()))

    operation = world.wait_for("n1", "Escalated")
    assert world.taint("n1") == operation["metadata"]["name"]
    assert operation["status"]["reason"] == "RungsExhausted"

    refused = remediator.call("release", "n1")
    assert refused.returncode == 0, refused.stderr
    wait_until("the proof that fails", lambda: _history(world, "n1").count("Escalated") == 2)
    assert world.taint("n1") == operation["metadata"]["name"]

    world.sim("n1").clear()
    released = remediator.call("release", "n1")
    assert released.returncode == 0, released.stderr
    world.wait_for("n1", "Succeeded")
    assert world.taint("n1") is None
    assert world.sim("n1").history.reboots == 1


def _history(world: World, node: str) -> list[str]:
    found = world.operations(node)[-1]["status"]["history"]
    phases = [entry["phase"] for entry in found]
    return [one for one, before in zip(phases, ["", *phases], strict=False) if one != before]


def test_what_two_alertmanagers_repeat_to_two_replicas_is_one_operation(
    world: World, start: Start
) -> None:
    replicas = [start(f"remediator-{number}", playbooks=[ALERT_ONLY]) for number in range(2)]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: replicas[n % 2].post(webhook("n2")), range(16)))

    assert {status for status, _ in answers} == {200}
    operations = {answer["alerts"][0]["operation"] for _, answer in answers}
    assert len(operations) == 1
    results = [answer["alerts"][0]["result"] for _, answer in answers]
    assert results.count("created") == 1
    assert len(world.operations("n2")) == 1
    world.wait_for("n2", "Succeeded")
    assert replicas[0].post(webhook("n2"))[1]["alerts"][0]["result"] == "known"
    assert len(world.operations("n2")) == 1
    assert world.sim("n2").history.reboots == 1


def test_another_alert_about_the_node_joins_its_operation(world: World, start: Start) -> None:
    both = {**ALERT_ONLY, "match": ['alertname=~"GPURuntimeError|GPUIsLost"']}
    remediator = start(playbooks=[{**both, "gates": {"approval": True}}])
    remediator.post(webhook("n1"))
    joined = remediator.post(webhook("n1", alertname="GPUIsLost"))[1]["alerts"][0]

    assert joined["result"] == "joined"
    causes = world.operations("n1")[0]["spec"]["causes"]
    assert [cause["name"] for cause in causes] == [CONDITION, "GPUIsLost"]
    world.wait_for("n1", "Gated")
    name = world.operations("n1")[0]["metadata"]["name"]
    approved = remediator.call("approve", name)
    assert approved.returncode == 0, approved.stderr
    world.wait_for("n1", "Succeeded")


def test_webhooks_that_begin_nothing_say_why(world: World, start: Start) -> None:
    remediator = start(playbooks=[ALERT_ONLY])
    told = {
        "unknown_node": webhook("no-such-node"),
        "resolved": webhook("n1", status="resolved"),
        "no_playbook": webhook("n1", alertname="SomethingElse"),
        "no_node_label": webhook(""),
    }

    for reason, body in told.items():
        status, answer = remediator.post(body)
        assert (status, answer["alerts"][0]["result"]) == (200, reason)
        assert answer["alerts"][0]["text"]
    assert not world.client.list(NODE_OPERATIONS).items


def test_a_webhook_waits_outside_while_the_cluster_is_away(
    api: Api, world: World, start: Start
) -> None:
    remediator = start(playbooks=[ALERT_ONLY])
    api.pause()
    try:
        status, answer = remediator.post(webhook("n1"))
    finally:
        api.resume()

    assert (status, answer["reason"]) == (503, "temporary_error")
    assert remediator.post(webhook("n1"))[0] == 200
    world.wait_for("n1", "Succeeded")


def test_a_person_who_takes_the_taint_off_ends_the_operation(world: World, start: Start) -> None:
    world.ordinary_pod("stubborn", "n1", terminationGracePeriodSeconds=600)
    world.sim("n1").inject(Fault(FaultKind.IGNORES_SIGTERM, match="stubborn"))
    start()
    world.sim("n1").inject(FaultKind.GPU_RUNTIME_ERROR)
    world.wait_for("n1", "Draining")

    world.client.patch(NODE_RESOURCE, "n1", {"spec": {"taints": None}}, kind=PatchKind.MERGE)

    operation = world.wait_for("n1", "Cancelled")
    assert operation["status"]["reason"] == "TaintRemoved"
    assert world.sim("n1").history.reboots == 0


def test_a_pause_holds_a_new_operation_and_its_end_lets_it_go(world: World, start: Start) -> None:
    remediator = start()
    assert remediator.call("pause", "--reason", "moving racks").returncode == 0
    world.sim("n3").inject(FaultKind.GPU_RUNTIME_ERROR)

    wait_until("the gate's name", lambda: "pause" in _gates(world, "n3"))
    assert world.taint("n3") is None
    status = remediator.call("status")
    assert "moving racks" in status.stdout
    assert "remediator_paused 1.0" in remediator.get("/metrics")

    assert remediator.call("resume").returncode == 0
    world.wait_for("n3", "Succeeded")


def _gates(world: World, node: str) -> list[str]:
    found = world.operations(node)
    return [each["name"] for each in found[-1].get("status", {}).get("gates", ())] if found else []


def test_a_dry_run_touches_nothing_and_says_what_it_would_do(world: World, start: Start) -> None:
    world.ordinary_pod("training", "n1")
    start(dry_run=True)
    world.sim("n1").inject(FaultKind.GPU_RUNTIME_ERROR)

    operation = world.wait_for("n1", "Cancelled")

    assert operation["status"]["reason"] == "DryRunDone"
    assert "default/training" in operation["status"]["message"]
    assert world.taint("n1") is None
    assert world.pod_exists("training")
    assert not world.jobs()


def test_an_operation_by_hand_names_who_asked_for_it(world: World, start: Start) -> None:
    remediator = start()

    begun = remediator.call("run", PLAYBOOK["name"], "n2", "--reason", "new firmware")

    assert begun.returncode == 0, begun.stderr
    operation = world.wait_for("n2", "Succeeded")
    assert operation["spec"]["trigger"] == "Manual"
    assert operation["spec"]["requestedBy"]
    assert world.sim("n2").history.reboots == 1


def test_a_deleted_operation_leaves_its_node_in_order(world: World, start: Start) -> None:
    world.ordinary_pod("stubborn", "n1", terminationGracePeriodSeconds=600)
    world.sim("n1").inject(Fault(FaultKind.IGNORES_SIGTERM, match="stubborn"))
    start()
    world.sim("n1").inject(FaultKind.GPU_RUNTIME_ERROR)
    operation = world.wait_for("n1", "Draining")

    world.client.delete(NODE_OPERATIONS, operation["metadata"]["name"])

    wait_until("the object's end", lambda: not _has(world, operation["metadata"]["uid"]))
    assert world.taint("n1") != operation["metadata"]["name"]


def _has(world: World, uid: str) -> bool:
    return any(each["metadata"]["uid"] == uid for each in world.operations("n1"))


def test_the_second_replica_goes_on_when_the_leader_is_killed(world: World, start: Start) -> None:
    world.ordinary_pod("slow", "n1", terminationGracePeriodSeconds=300)
    world.sim("n1").inject(Fault(FaultKind.IGNORES_SIGTERM, match="slow"))
    replicas = [start(f"remediator-{number}") for number in range(2)]
    wait_until("a leader", lambda: any(each.leads for each in replicas))
    leader = next(each for each in replicas if each.leads)
    world.sim("n1").inject(FaultKind.GPU_RUNTIME_ERROR)
    world.wait_for("n1", "Draining")

    leader.kill()

    world.wait_for("n1", "Succeeded")
    assert world.sim("n1").history.reboots == 1


def test_a_leader_that_is_told_to_end_hands_over_at_once(world: World, start: Start) -> None:
    replicas = [start(f"remediator-{number}") for number in range(2)]
    wait_until("a leader", lambda: any(each.leads for each in replicas))
    first = next(each for each in replicas if each.leads)
    second = next(each for each in replicas if each is not first)

    assert first.stop() == 0

    wait_until("the other leads", lambda: second.leads, 10)


def test_a_leader_that_sleeps_through_its_term_does_nothing_when_it_wakes(
    world: World, start: Start
) -> None:
    replicas = [start(f"remediator-{number}") for number in range(2)]
    wait_until("a leader", lambda: any(each.leads for each in replicas))
    sleeper = next(each for each in replicas if each.leads)
    other = next(each for each in replicas if each is not sleeper)
    world.sim("n1").inject(FaultKind.GPU_RUNTIME_ERROR)
    wait_until("a step", lambda: world.phase("n1") != "")
    sleeper.signal(signal.SIGSTOP)
    wait_until("the other leads", lambda: other.leads)
    sleeper.signal(signal.SIGCONT)

    world.wait_for("n1", "Succeeded")
    assert world.sim("n1").history.reboots == 1
    assert world.taint("n1") is None


def test_killed_at_random_it_reboots_each_faulty_node_exactly_once_a_fault(
    world: World, start: Start, record_property: Callable[[str, object], None]
) -> None:
    """The same identity leads again at once, so each kill falls somewhere into its operations."""
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    remediator = start()
    kills, rounds = 0, 0
    deadline = time.monotonic() + 200
    while kills < KILLS:
        rounds += 1
        for name in NODES:
            world.sim(name).inject(FaultKind.GPU_RUNTIME_ERROR)
        while not all(_healed(world, name, rounds) for name in NODES):
            told = (seed, kills, rounds, [world.phase(name) for name in NODES])
            assert time.monotonic() < deadline, told
            time.sleep(chance.uniform(0.0, 0.7))
            if kills < KILLS:
                remediator.kill()
                kills += 1
                remediator.start()
    record_property("seed", seed)
    record_property("kills", kills)
    reboots = [world.sim(name).history.reboots for name in NODES]
    assert reboots == [rounds] * len(NODES), (seed, kills, rounds)
    assert [world.taint(name) for name in NODES] == [None, None, None]
    sys.stderr.write(f"seed {seed}: {kills} kills in {rounds} rounds, reboots {reboots}\n")


def _healed(world: World, node: str, rounds: int) -> bool:
    found = world.operations(node)
    return len(found) == rounds and found[-1].get("status", {}).get("phase") == "Succeeded"
