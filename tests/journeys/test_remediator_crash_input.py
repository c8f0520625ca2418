"""What people and clocks do to an operation under way: edits by hand, a node that goes, a clock that jumps."""

import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from chassis.kube_client import NODES as NODE_RESOURCE
from chassis.kube_client import PODS, AlreadyExists, Conflict, Invalid, NotFound, PatchKind
from remediator.kube_cluster import NODE_OPERATIONS
from remediator.operation import OPERATION_UID_LABEL, RELEASE_REQUESTED_BY
from sandbox.kubernetes_server import SandboxKubernetes
from sandbox.simulated_nodes import Fault, FaultKind
from tests import kubernetes_api
from tests.journeys.forking import Forker
from tests.journeys.remediator_crash import (
    BUDGET,
    Scene,
    Victim,
    a_scene,
    remediator_forker,
    wait_alive,
)
from tests.journeys.remediator_crash_record import reboots_wrong
from tests.journeys.remediator_world import PLAYBOOK, World, a_world, client_of, prepare
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

Change = Callable[[dict[str, Any]], None]
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
NODE = "n1"
JUMPS = {"an hour on": 3600.0, "an hour back": -3600.0}
JUMPING_CLOCK = """
from datetime import timedelta
from pathlib import Path
real, jump = program.utc_now, Path({file!r})
program.utc_now = lambda: real() + timedelta(seconds=float(jump.read_text()))
"""


@pytest.fixture(scope="module", params=["embedded", "real"])
def kubeconfig(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("api")
    if request.param == "embedded":
        with SandboxKubernetes(scheduler=False) as server:
            path = server.kubeconfig(folder / "kubeconfig")
            prepare(client_of(path), embedded=True)
            yield path
        return
    if why_not := kubernetes_api.missing(*PROGRAMS):
        pytest.skip(why_not)
    with kubernetes_api.running_kubernetes_api(folder, controllers=True) as real:
        prepare(client_of(real.kubeconfig))
        yield real.kubeconfig


@pytest.fixture(scope="module")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    made = remediator_forker(tmp_path_factory.mktemp("forker"))
    yield made
    made.stop()


@pytest.fixture
def node() -> str:
    """A name of its own for each test: they share an API."""
    return f"n{secrets.token_hex(4)}"


@pytest.fixture
def world(kubeconfig: Path, tmp_path: Path, node: str) -> Iterator[World]:
    """A cluster in which the node's drain lasts until the test lets the pod go."""
    with a_world(kubeconfig, tmp_path, [node]) as one:
        one.ordinary_pod(f"stubborn-{node}", node, terminationGracePeriodSeconds=3000)
        one.sim(node).inject(Fault(FaultKind.IGNORES_SIGTERM, match="stubborn*"))
        yield one
        with suppress(NotFound):
            one.client.delete(NODE_RESOURCE, node)


@pytest.fixture
def remediator(world: World, node: str, tmp_path: Path, forker: Forker) -> Iterator[Victim]:
    one = Victim(forker, tmp_path, world.kubeconfig, "remediator-0", budgets=[])
    one.start()
    world.sim(node).inject(FaultKind.GPU_RUNTIME_ERROR)
    world.wait_for(node, "Draining")
    yield one
    one.kill()


def edit(world: World, node: str, change: Change, part: str | None = None) -> None:
    """As `kubectl edit` does: over whatever was written meanwhile."""
    for _ in range(50):
        body = deepcopy(world.operations(node)[-1])
        change(body)
        try:
            world.client.replace(NODE_OPERATIONS, body, subresource=part)
        except Conflict:
            continue
        return
    raise AssertionError("the operation changed each time")


def status(**values: Any) -> Change:
    """A change of the status; None takes a field away."""

    def change(body: dict[str, Any]) -> None:
        body["status"].update(values)
        body["status"] = {key: each for key, each in body["status"].items() if each is not None}

    return change


def lost(body: dict[str, Any]) -> None:
    """As after a restore from a backup, which brings no status."""
    body["status"] = {}


@pytest.mark.parametrize(
    "change",
    [
        status(phase="Nonsense"),
        status(reason="BecauseISaySo"),
        status(rung="second"),
        status(since="yesterday"),
        status(history=[{"phase": "Draining"}] * 65),
    ],
    ids=["phase", "reason", "rung", "time", "history"],
)
def test_a_status_that_is_no_status_is_refused_and_the_operation_goes_on(
    world: World, remediator: Victim, node: str, change: Change
) -> None:
    with pytest.raises(Invalid):
        edit(world, node, change, "status")

    world.sim(node).clear(FaultKind.IGNORES_SIGTERM)
    world.client.delete(PODS, f"stubborn-{node}", "default", grace_seconds=0)
    world.wait_for(node, "Succeeded")
    assert world.sim(node).history.reboots == 1


@pytest.mark.parametrize(
    ("change", "phase", "reason", "says"),
    [
        (status(phase="Executing", intent=None), "Escalated", "InvalidOperation", "intent"),
        (status(nodeUID=None), "Escalated", "InvalidOperation", "nodeUID"),
        (status(isolated=False), "Escalated", "InvalidOperation", "isolated"),
        (status(rung=7), "Escalated", "PlaybookGone", "rung"),
        (status(phase="Succeeded"), "Escalated", "InvalidOperation", "isolated"),
        (status(phase="Cancelled"), "Escalated", "InvalidOperation", "isolated"),
        (lost, "Escalated", "InvalidOperation", "taint"),
        (status(nodeUID="another"), "Superseded", "NodeReplaced", "another"),
    ],
    ids=[
        "a repair that nothing announced",
        "no node",
        "not isolated",
        "no such rung",
        "done by decree",
        "cancelled by decree",
        "status lost",
        "another node",
    ],
)
def test_a_status_edited_by_hand_repairs_and_releases_nothing_and_is_said(
    world: World,
    remediator: Victim,
    node: str,
    change: Change,
    phase: str,
    reason: str,
    says: str,
) -> None:
    edit(world, node, change, "status")

    operation = world.wait_for(node, phase)

    assert operation["status"]["reason"] == reason
    assert says in " ".join(each["text"] for each in operation["status"]["history"])
    assert world.taint(node) == operation["metadata"]["name"]
    assert world.sim(node).history.reboots == 0
    assert remediator.post({"alerts": []})[0] == 400  # it lives and answers


def test_another_playbook_written_into_an_operation_under_way_is_refused_or_said(
    world: World, remediator: Victim, node: str, request: pytest.FixtureRequest
) -> None:
    """Where no rule of the definition refuses it, the remediator notices."""

    def change(body: dict[str, Any]) -> None:
        body["spec"]["playbook"] = "another"

    try:
        edit(world, node, change)
    except Invalid as error:
        why = str(error)
    else:
        why = ""
    if why:
        assert "cannot be changed" in why
        assert world.phase(node) == "Draining"
        return
    assert request.node.callspec.params["kubeconfig"] == "embedded"
    operation = world.wait_for(node, "Escalated")
    assert operation["status"]["reason"] == "PlaybookGone"
    assert world.taint(node) == operation["metadata"]["name"]


def test_a_node_deleted_under_way_ends_its_operation(
    world: World, remediator: Victim, node: str
) -> None:
    world.client.delete(NODE_RESOURCE, node)

    operation = world.wait_for(node, "NodeGone")

    assert operation["status"]["reason"] == "NodeDeleted"
    assert not operation["status"].get("isolated")
    uid = operation["metadata"]["uid"]
    assert uid not in {job["metadata"]["labels"].get(OPERATION_UID_LABEL) for job in world.jobs()}


def test_a_node_replaced_under_its_name_is_left_alone(
    world: World, remediator: Victim, node: str
) -> None:
    old = world.node(node)
    remediator.kill()
    world.client.delete(NODE_RESOURCE, node)
    labels = old["metadata"]["labels"]
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}}
    with suppress(AlreadyExists):  # its kubelet may have been faster
        world.client.create(NODE_RESOURCE, body)
    remediator.start()

    operation = world.wait_for(node, "Superseded")

    assert operation["status"]["reason"] == "NodeReplaced"
    assert operation["status"]["nodeUID"] == old["metadata"]["uid"]
    assert world.taint(node) is None
    assert world.sim(node).history.reboots == 0


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
@pytest.mark.parametrize("moment", ["drained", "down"])
def test_a_clock_that_jumps_repeats_nothing_and_a_person_is_told_or_it_ends_well(
    tmp_path: Path, forker: Forker, jump: float, moment: str
) -> None:
    clock = tmp_path / "jump"
    clock.write_text("0")
    with a_scene(tmp_path / "scene", forker, [NODE]) as scene:
        proof = {**PLAYBOOK["proof"], "deadline": "10s"}
        victim = scene.victim(playbooks=[{**PLAYBOOK, "proof": {**proof, "probe": True}}])
        victim.change = tmp_path / "change.py"
        victim.change.write_text(JUMPING_CLOCK.format(file=str(clock)))
        victim.start()
        sim = scene.world.sim(NODE)
        sim.inject(Fault(FaultKind.REBOOT_SLOW, seconds=200))
        if moment == "drained":
            sim.inject(Fault(FaultKind.IGNORES_SIGTERM, match="training*"))
        scene.break_node(NODE, 1)
        phase = {"drained": "Draining", "down": "Executing"}[moment]
        scene.world.wait_for(NODE, phase, "AwaitingReturn")
        if moment == "down":
            wait_until("the reboot", lambda: not sim.is_on)

        clock.write_text(str(jump))
        sim.clear(FaultKind.IGNORES_SIGTERM)
        operation = scene.world.wait_for(NODE, "Escalated", "Succeeded")

        assert sim.history.reboots <= 1
        assert not reboots_wrong([sim], {NODE: sim.history.reboots})
        if operation["status"]["phase"] == "Escalated":
            assert operation["status"]["reason"] in {"DrainDeadline", "NoReturn", "RungsExhausted"}
            assert scene.world.taint(NODE) == operation["metadata"]["name"]
            clock.write_text("0")
            _ask_for_release(scene, victim)
        assert not [each for each in scene.record.mistakes(BUDGET) if "released" in each]
        sys.stdout.write(f"\n{phases_of(operation)} {operation['status']['message']}\n")


def _ask_for_release(scene: Scene, victim: Victim) -> None:
    """It is proven now, if the repair was done; else the fault is still there."""
    operation = scene.world.operations(NODE)[-1]
    body = {"metadata": {"annotations": {RELEASE_REQUESTED_BY: "alice"}}}
    name = operation["metadata"]["name"]
    scene.world.client.patch(NODE_OPERATIONS, name, body, kind=PatchKind.MERGE)
    if scene.world.sim(NODE).history.reboots:
        wait_alive(scene.told, victim, lambda: scene.ended(NODE, 1))
    assert bool(scene.world.taint(NODE)) != bool(scene.world.sim(NODE).history.reboots)


def phases_of(operation: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(each["phase"] for each in operation["status"]["history"]))
