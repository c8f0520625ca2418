"""remediator killed with -9 at random during operations: were there as many reboots as faults, and who goes on how soon.

The verdict comes from the API server's history and from the simulated nodes, not from the service. N kills (1,000);
SEED repeats a run's dice. Beside it, the same run for a service that announces no repair before it begins: there the
verdict must be another one.
"""

import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench._alerts2gh import load_average, say
from tests.journeys.remediator_crash import (
    BUDGET,
    SHORT_PROOF,
    RandomKills,
    Scene,
    a_scene,
    remediator_forker,
)
from tests.journeys.remediator_crash_record import reboots_wrong
from tests.journeys.remediator_crash_trouble import WITHOUT_INTENT, RandomTrouble
from tests.journeys.remediator_world import Remediator
from tests.journeys.service import wait_until

KILLS = 1000
CONTROL_KILLS = 40
TROUBLES = 8
NODES = [f"n{number}" for number in range(4)]
TIMES = 5
PATIENCE = 60.0


def run() -> str:
    """The runs and the times as tables.

    Raises:
        AssertionError: A node was rebooted more or less often than it had faults, or something else went wrong; or
            nothing went wrong in the control.
    """
    seed = int(os.environ.get("SEED") or secrets.randbelow(10**6))
    kills = int(os.environ.get("N") or KILLS)
    before = load_average()
    say(f"SEED={seed}, {kills} kills")
    rows = [
        _killed(seed, kills),
        _unhealed(seed, kills // 10),
        _unhealed(seed, CONTROL_KILLS, announces=False),
        _troubled(seed),
    ]
    head = (
        "| run | kills | of them at a write | faults | reboots | wrong number of reboots | other mistakes | seconds |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    loads = f"SEED={seed}. Load average before {before}, after {load_average()}."
    return f"{head}{''.join(rows)}\n{_resuming()}\n{loads}\n"


@contextmanager
def _scene() -> Iterator[tuple[Scene, Path]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        forker = remediator_forker(folder)
        try:
            with a_scene(folder / "scene", forker, NODES) as scene:
                yield scene, folder
        finally:
            forker.stop()


def _killed(seed: int, kills: int) -> str:
    with _scene() as (scene, _):
        one, began = RandomKills(scene, seed), time.monotonic()
        one.run(kills, patience=4.0 * kills)
        return _row("killed at random", scene, one, began)


def _troubled(seed: int) -> str:
    with _scene() as (scene, _):
        one, began = RandomTrouble(scene, seed), time.monotonic()
        one.run(TROUBLES, patience=600)
        kinds = ", ".join(one.troubles)
        name = f"two replicas, {TROUBLES} times each: {kinds}; {one.conflicts} conflicts"
        return _row(name, scene, one, began)


def _unhealed(seed: int, kills: int, *, announces: bool = True) -> str:
    """A fault that stays: who forgets a reboot tries another. What was not announced may also never end."""
    with _scene() as (scene, folder):
        one = RandomKills(scene, seed, heals=False, playbooks=[SHORT_PROOF])
        began, name = time.monotonic(), "the same, and no reboot heals"
        if announces:
            one.run(kills, patience=10.0 * kills)
            return _row(name, scene, one, began)
        one.victim.change = folder / "change.py"
        one.victim.change.write_text(WITHOUT_INTENT)
        with suppress(AssertionError):
            one.run(kills, patience=10.0 * kills)
        return _row(f"control: {name}, nothing announced", scene, one, began, fails=True)


def _row(name: str, scene: Scene, one: RandomKills, began: float, *, fails: bool = False) -> str:
    sims = scene.world.nodes.nodes
    reboots = reboots_wrong(sims, one.faults)
    others = scene.record.mistakes(BUDGET)
    wrong = [*one.wrong, *reboots, *others]
    if bool(reboots) != fails or (others and not fails):
        raise AssertionError(f"{name}: {one}: {len(wrong)} mistakes: {wrong[:20]}")
    figures = (
        one.kills,
        one.at_writes,
        sum(one.faults.values()),
        sum(sim.history.reboots for sim in sims),
        len(reboots),
        len(others),
    )
    took = time.monotonic() - began
    row = f"| {name} | {' | '.join(f'{each:,}' for each in figures)} | {took:.0f} |\n"
    say(row.rstrip())
    return row


def _resuming() -> str:
    """How long after a kill the same identity leads again, started anew, and a standby with the default lease."""
    with _scene() as (scene, folder):
        two = [
            Remediator(folder, scene.world.kubeconfig, f"remediator-{number}", leader={})
            for number in range(2)
        ]
        try:
            two[0].start()
            wait_until("a leader", lambda: two[0].leads)
            same = [_until_leads(two[0], two[0]) for _ in range(TIMES)]
            two[1].start()
            standby = _until_leads(two[0], two[1], restart=False)
        finally:
            for each in two:
                each.kill()
    worst, rest = max(same), f"a standby after {standby:.1f} s, the lease being 15 s"
    return f"Killed, the same identity leads again after {worst:.1f} s at most of {TIMES} times (its start included); {rest}.\n"


def _until_leads(killed: Remediator, follower: Remediator, *, restart: bool = True) -> float:
    killed.kill()
    began = time.monotonic()
    if restart:
        killed.start()
    wait_until("who leads", lambda: follower.leads, PATIENCE)
    return time.monotonic() - began
