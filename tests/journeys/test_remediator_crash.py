"""The real remediator killed with -9 around each write of an operation and at random: one reboot a fault, all the same."""

import itertools
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.journeys.forking import Forker
from tests.journeys.remediator_crash import (
    BUDGET,
    RandomKills,
    Scene,
    a_scene,
    remediator_forker,
    wait_alive,
)
from tests.journeys.remediator_crash_record import reboots_wrong
from tests.journeys.remediator_world import PLAYBOOK, webhook
from tests.journeys.service import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

NODE = "n1"
KILLS = 100
STEPS = {
    "create nodeoperations",
    "update nodeoperations/status",
    "patch nodes",
    "create pods/eviction",
    "create jobs",
}
"""The kinds of write that an operation consists of."""
ALERT_ONLY = {key: PLAYBOOK[key] for key in PLAYBOOK if key != "conditions"}


@pytest.fixture(scope="module")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    made = remediator_forker(tmp_path_factory.mktemp("forker"))
    yield made
    made.stop()


class EachWrite:
    """One scene, and operations on its node, each killed at another write."""

    def __init__(self, scene: Scene, *, after: bool) -> None:
        self._scene = scene
        self._after = after
        self._victim = scene.victim()
        self._number = 0

    def kinds(self) -> set[str]:
        """The kinds of write of an operation that nothing disturbs."""
        self._victim.start()
        assert not self._over("create secrets", 0)
        return set(self._scene.writes())

    def kill_at(self, kind: str) -> int:
        """Kill at the first write of a kind, the second and so on, until an operation has no such write; how many."""
        for number in itertools.count():
            if not self._over(kind, number):
                return number
        raise AssertionError

    def _over(self, kind: str, number: int) -> bool:
        """Take an operation to its end, over a kill if it has such a write; whether it had."""
        scene, control = self._scene, self._scene.server.control
        self._victim.kill()
        scene.hold_write(number, kind, after=self._after)
        self._victim.start()
        self._number += 1
        scene.break_node(NODE, self._number)
        wait_alive(scene.told, self._victim, lambda: bool(control.held) or self._ended())
        killed = bool(control.held)
        if killed:
            self._victim.kill()
            wait_until("the end of the request", lambda: not control.held)
            self._victim.start()
            wait_alive(lambda: (kind, number, scene.told()), self._victim, self._ended)
        control.clear_faults()
        assert not reboots_wrong(scene.world.nodes.nodes, {NODE: self._number}), (kind, number)
        return killed

    def _ended(self) -> bool:
        return self._scene.ended(NODE, self._number)


def test_killed_around_each_write_an_operation_ends_well_with_one_reboot(
    tmp_path: Path, forker: Forker
) -> None:
    def one(after: bool) -> tuple[set[str], Counter[str], list[str]]:
        with a_scene(tmp_path / f"after-{after}", forker, [NODE]) as scene:
            each = EachWrite(scene, after=after)
            kinds = each.kinds()
            killed = Counter({kind: each.kill_at(kind) for kind in sorted(kinds)})
            return kinds, killed, scene.record.mistakes(BUDGET)

    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(one, (False, True)))
    for when, (kinds, killed, mistakes) in zip(("before", "after"), done, strict=True):
        sys.stdout.write(f"\nkilled {when} the effect of {killed.total()} writes: {killed}\n")
        assert not mistakes
        assert kinds == STEPS
        assert killed["patch nodes"] == 3  # isolation, probe request, release
        assert all(killed.values())
    sys.stdout.write(f"in {time.monotonic() - began:.0f} s\n")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_while_it_takes_an_alert_the_next_delivery_makes_no_second_operation(
    tmp_path: Path, forker: Forker, after: bool
) -> None:
    with a_scene(tmp_path / "scene", forker, [NODE]) as scene:
        victim = scene.victim(playbooks=[ALERT_ONLY])
        scene.hold_write(0, after=after)
        victim.start()
        with ThreadPoolExecutor(1) as pool:
            lost = pool.submit(victim.post, webhook(NODE))
            wait_until("the write", lambda: bool(scene.server.control.held))
            victim.kill()
            with pytest.raises(OSError):  # noqa: PT011 - whatever the cut connection is called
                lost.result(15)
        victim.start()
        status, answer = victim.post(webhook(NODE))

        assert (status, len(scene.world.operations(NODE))) == (200, 1)
        assert answer["alerts"][0]["result"] == ("known" if after else "created")
        wait_alive(scene.told, victim, lambda: scene.ended(NODE, 1))
        assert not reboots_wrong(scene.world.nodes.nodes, {NODE: 1})


def test_killed_at_random_each_fault_gets_exactly_one_reboot(
    tmp_path: Path, forker: Forker
) -> None:
    seed = secrets.randbelow(1 << 32)
    sys.stdout.write(f"\nseed {seed}\n")
    began = time.monotonic()
    with a_scene(tmp_path / "scene", forker, [f"n{number}" for number in range(4)]) as scene:
        kills = RandomKills(scene, seed)
        kills.run(KILLS, patience=300)
        told = f"seed {seed}: {kills} in {time.monotonic() - began:.0f} s"
        assert not kills.mistakes(), told
    sys.stdout.write(f"{told}\n")
