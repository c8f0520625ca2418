"""What keeps a repair from being done twice: a leader that wakes late, replicas and outages; and controls without it."""

import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chassis.kube_client import JOBS, PODS
from sandbox.simulated_nodes import Fault, FaultKind
from tests.journeys.forking import Forker
from tests.journeys.remediator_crash import (
    BUDGET,
    SHORT_PROOF,
    USER,
    Scene,
    Victim,
    a_scene,
    remediator_forker,
    wait_alive,
)
from tests.journeys.remediator_crash_record import reboots_wrong
from tests.journeys.remediator_crash_trouble import (
    LEASE,
    WITHOUT_GUARD,
    WITHOUT_INTENT,
    Meddler,
    RandomTrouble,
    exit_codes,
    leader_of,
)
from tests.journeys.remediator_world import SPACE
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

NODE = "n1"
OTHER_BOOT = 75
"""How a repair ends that finds another boot than the one it was announced in."""
TROUBLES = 3
GENEROUS = 20.0
"""Seconds for what takes a few on an idle machine."""


@pytest.fixture(scope="module")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    made = remediator_forker(tmp_path_factory.mktemp("forker"))
    yield made
    made.stop()


@pytest.fixture
def scene(tmp_path: Path, forker: Forker) -> Iterator[Scene]:
    with a_scene(tmp_path / "scene", forker, [NODE]) as one:
        yield one


@pytest.fixture
def victim(scene: Scene, tmp_path: Path) -> Callable[..., Victim]:
    """Makes a service, with a protection switched off if a change is given."""

    def one(name: str = "remediator-0", change: str = "", **changes: Any) -> Victim:
        made = scene.victim(name, **changes)
        if change:
            made.change = tmp_path / f"{name}-change.py"
            made.change.write_text(change)
        return made

    return one


def reboots(scene: Scene) -> list[str]:
    return reboots_wrong(scene.world.nodes.nodes, {NODE: 1})


def has_new_boot(scene: Scene, former: str) -> bool:
    return bool(scene.world.node(NODE)["status"]["nodeInfo"]["bootID"] != former)


@pytest.mark.parametrize("change", ["", WITHOUT_INTENT], ids=["as it is", "without the intent"])
def test_killed_after_the_job_was_made_one_attempt_is_one_reboot_unless_nothing_announced_it(
    scene: Scene, victim: Callable[..., Victim], change: str
) -> None:
    """The fault outlasts the first reboot, so that a service which forgot the first would try a second."""
    one = victim(change=change, playbooks=[SHORT_PROOF])
    scene.hold_write(0, "create jobs", after=True)
    one.start()
    boot = scene.world.sim(NODE).boot_id
    scene.world.sim(NODE).inject(Fault(FaultKind.GPU_RUNTIME_ERROR, times_needed=2))
    wait_alive(scene.told, one, lambda: bool(scene.server.control.held))
    one.kill()
    wait_until("the reboot", lambda: has_new_boot(scene, boot))

    one.start()
    operation = scene.world.wait_for(NODE, "Escalated", "Succeeded")

    assert len(operation["status"]["attempts"]) == 1
    if not change:
        assert operation["status"]["reason"] == "RungsExhausted"
        assert scene.world.taint(NODE) == operation["metadata"]["name"]
        assert not reboots(scene) + scene.record.mistakes(BUDGET)
        return
    assert scene.world.sim(NODE).history.reboots == 2
    assert reboots(scene)
    assert "was not announced" in str(scene.record.mistakes(BUDGET))


@pytest.mark.parametrize("change", ["", WITHOUT_GUARD], ids=["as it is", "without the guard"])
def test_a_job_that_a_paused_leader_makes_after_the_end_does_nothing_unless_the_guard_is_off(
    scene: Scene, victim: Callable[..., Victim], change: str
) -> None:
    sleeper, other = victim(change=change), victim("remediator-1", change=change)
    sleeper.start()
    wait_until("a leader", lambda: sleeper.leads)
    scene.hold_write(0, "create jobs", after=False)
    scene.break_node(NODE, 1)
    wait_alive(scene.told, sleeper, lambda: bool(scene.server.control.held))
    sleeper.signal(signal.SIGSTOP)
    other.start()
    wait_alive(scene.told, other, lambda: scene.ended(NODE, 1))
    assert not reboots(scene)
    [job] = scene.world.jobs()
    name = job["metadata"]["name"]
    scene.world.client.delete(JOBS, name, SPACE, propagation="Background")
    wait_until("the end of the Job", lambda: not scene.world.jobs())
    wait_until("the end of its pod", lambda: not exit_codes(scene.world, name))

    scene.server.control.let_go()
    sleeper.signal(signal.SIGCONT)

    if change:
        wait_until("the second reboot", lambda: scene.world.sim(NODE).history.reboots == 2)
        assert reboots(scene)
        return
    wait_until("the late pod's end", lambda: exit_codes(scene.world, name) == [OTHER_BOOT])
    wait_until("the end of the sleeper's term", lambda: not sleeper.leads)
    assert not reboots(scene) + scene.record.mistakes(BUDGET)
    assert scene.ended(NODE, 1)


@pytest.mark.parametrize("change", ["", WITHOUT_GUARD], ids=["as it is", "without the guard"])
def test_a_job_that_starts_after_somebody_elses_reboot_does_nothing_unless_the_guard_is_off(
    scene: Scene, victim: Callable[..., Victim], change: str
) -> None:
    one, sim = victim(change=change), scene.world.sim(NODE)
    scene.hold_write(0, "create jobs", after=False)
    one.start()
    scene.break_node(NODE, 1)
    wait_alive(scene.told, one, lambda: bool(scene.server.control.held))
    sim.inject(FaultKind.KUBELET_SILENT)
    scene.hold_write(0, "update nodeoperations/status", after=False)
    scene.server.control.let_go()
    wait_until("the Job's pod", lambda: len(_repair_pods(scene)) == 1)
    one.kill()
    scene.server.control.clear_faults()
    assert not sim.history.reboots

    sim.power_cycle()
    wait_until("the pod's end", lambda: bool(_ended(scene)))
    one.start()
    scene.world.wait_for(NODE, "Succeeded", "Escalated")

    assert bool(reboots(scene)) == bool(change), sim.history.entries
    if not change:
        assert scene.ended(NODE, 1)
        assert not scene.record.mistakes(BUDGET)


def _repair_pods(scene: Scene) -> list[dict[str, Any]]:
    return scene.server.objects("pods", SPACE)


def _ended(scene: Scene) -> list[dict[str, Any]]:
    over = ("Succeeded", "Failed")
    return [pod for pod in _repair_pods(scene) if (pod.get("status") or {}).get("phase") in over]


def test_a_taint_that_a_paused_leader_puts_on_late_goes_again(
    scene: Scene, victim: Callable[..., Victim]
) -> None:
    """The standby isolates, heals and releases; the sleeper's write then meets another version."""
    sleeper, other = victim(), victim("remediator-1")
    sleeper.start()
    wait_until("a leader", lambda: sleeper.leads)
    scene.hold_write(0, "patch nodes", after=False)
    scene.break_node(NODE, 1)
    wait_alive(scene.told, sleeper, lambda: bool(scene.server.control.held))
    sleeper.signal(signal.SIGSTOP)
    other.start()
    wait_alive(scene.told, other, lambda: scene.ended(NODE, 1))
    before = len(scene.server.log())

    scene.server.control.let_go()
    wait_until("the late write's answer", lambda: bool(_late_patches(scene, before)))
    sleeper.signal(signal.SIGCONT)
    wait_until("the end of the sleeper's term", lambda: not sleeper.leads)

    assert [each.code for each in _late_patches(scene, before)] == [409]
    assert not reboots(scene) + scene.record.mistakes(BUDGET)
    assert scene.world.taint(NODE) is None


def _late_patches(scene: Scene, after: int) -> list[Any]:
    found = scene.server.log(after)
    return [
        each for each in found if (each.user, each.verb, each.resource) == (USER, "patch", "nodes")
    ]


def test_a_reservation_that_a_paused_leader_writes_late_takes_no_second_place(
    tmp_path: Path, forker: Forker
) -> None:
    with a_scene(tmp_path / "scene", forker, ["n1", "n2"]) as scene:
        one: dict[str, Any] = {"budgets": [{"name": "one", "max_unavailable": 1}]}
        sleeper, other = scene.victim(**one), scene.victim("remediator-1", **one)
        sleeper.start()
        wait_until("a leader", lambda: sleeper.leads)
        scene.hold_write(0, "update nodeoperations/status", after=False)
        scene.world.sim("n1").inject(FaultKind.GPU_RUNTIME_ERROR)
        wait_alive(scene.told, sleeper, lambda: bool(scene.server.control.held))
        sleeper.signal(signal.SIGSTOP)
        scene.world.sim("n1").clear()
        other.start()
        scene.world.wait_for("n1", "Cancelled")
        scene.world.ordinary_pod("slow", "n2", terminationGracePeriodSeconds=3000)
        scene.world.sim("n2").inject(Fault(FaultKind.IGNORES_SIGTERM, match="slow"))
        scene.world.sim("n2").inject(FaultKind.GPU_RUNTIME_ERROR)
        scene.world.wait_for("n2", "Draining")
        before = len(scene.server.log())

        scene.server.control.let_go()
        sleeper.signal(signal.SIGCONT)
        name = scene.world.operations("n1")[0]["metadata"]["name"]
        wait_until("the late write's answer", lambda: 409 in _codes(scene, name, before))
        wait_until("the end of the sleeper's term", lambda: not sleeper.leads)

        scene.world.sim("n2").clear(FaultKind.IGNORES_SIGTERM)
        scene.world.client.delete(PODS, "slow", "default", grace_seconds=0)
        wait_alive(scene.told, other, lambda: scene.ended("n2", 1))
        assert not reboots_wrong(scene.world.nodes.nodes, {"n1": 0, "n2": 1})
        assert not scene.record.mistakes(1)
        assert scene.world.phase("n1") == "Cancelled"


def _codes(scene: Scene, operation: str, after: int) -> list[int]:
    """How the writes of an operation's status were answered."""
    found = scene.server.log(after)
    return [each.code for each in found if (each.name, each.subresource) == (operation, "status")]


def test_who_goes_on_after_a_kill_and_how_soon(scene: Scene, victim: Callable[..., Victim]) -> None:
    scene.world.ordinary_pod("slow", NODE, terminationGracePeriodSeconds=3000)
    scene.world.sim(NODE).inject(Fault(FaultKind.IGNORES_SIGTERM, match="slow"))
    one, other = victim(), victim("remediator-1")
    one.start()
    wait_until("a leader", lambda: one.leads)
    scene.world.sim(NODE).inject(FaultKind.GPU_RUNTIME_ERROR)
    scene.world.wait_for(NODE, "Draining")

    one.kill()
    began = time.monotonic()
    one.start()
    wait_until("the same identity", lambda: one.leads, GENEROUS)
    same = time.monotonic() - began
    other.start()
    assert leader_of(one, other) is one
    one.kill()
    began = time.monotonic()
    wait_until("the standby", lambda: other.leads, GENEROUS + LEASE)
    standby = time.monotonic() - began
    sys.stdout.write(
        f"\nthe same identity leads after {same:.1f} s, a standby after {standby:.1f} s\n"
    )

    scene.world.sim(NODE).clear(FaultKind.IGNORES_SIGTERM)
    scene.world.client.delete(PODS, "slow", "default", grace_seconds=0)
    wait_alive(scene.told, other, lambda: scene.ended(NODE, 1))
    assert not reboots(scene) + scene.record.mistakes(BUDGET)


def test_outages_conflicts_kills_and_late_sleepers_change_nothing_of_that(
    tmp_path: Path, forker: Forker
) -> None:
    seed = secrets.randbelow(1 << 32)
    sys.stdout.write(f"\nseed {seed}\n")
    began = time.monotonic()
    with a_scene(tmp_path / "scene", forker, [f"n{number}" for number in range(4)]) as scene:
        trouble = RandomTrouble(scene, seed)
        with Meddler(scene).at_work():
            trouble.run(TROUBLES, patience=300)
        told = f"seed {seed}: {trouble} in {time.monotonic() - began:.0f} s"
        assert not trouble.mistakes(), told
        assert trouble.conflicts, told
    sys.stdout.write(f"{told}\n")
