"""More than kills: replicas that wake late, an API that is away, somebody who writes as well; and protections switched off."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from chassis.errors import NodemendError
from chassis.kube_client import NODES, PODS, PatchKind
from remediator.kube_cluster import NODE_OPERATIONS
from tests.journeys.remediator_crash import USER, RandomKills, Scene, Victim, wait_alive
from tests.journeys.remediator_world import SPACE, World, client_of

LEASE = 3.0
WITHOUT_INTENT = """
# Announces nothing: a repair is written down only when it is over, and its Job has a new name each time.
import secrets
from dataclasses import replace
from remediator.kube_cluster.writing import Pen
from remediator.lifecycle import emptying
from remediator.operation import Phase

record, job_name = Pen.record, emptying.job_name

def record_later(self, operation, status):
    if status.phase is not Phase.EXECUTING:
        return record(self, operation, status)
    after = replace(operation, status=status)
    self._shelf._put(replace(self._shelf.get(operation.name), operation=after))
    return after

Pen.record = record_later
emptying.job_name = lambda *given: f"{job_name(*given)}-{secrets.token_hex(4)}"
"""
WITHOUT_GUARD = """
# The repair does not ask in which boot it was announced.
from remediator.repair_jobs import own_pods

script, guard = own_pods.script, '[ "$boot_id" = "$NODEMEND_BOOT_ID" ] ||'
assert guard in script("reboot")
own_pods.script = lambda name: script(name).replace(guard, "true ||")
"""
_FOREIGN = {"key": "example.org/watched", "value": "", "effect": "PreferNoSchedule"}


class Meddler:
    """Annotates operations and puts a taint of its own on nodes and takes it off, all the time."""

    def __init__(self, scene: Scene, pause: float = 0.2) -> None:
        self._client = client_of(scene.world.kubeconfig)
        self._nodes = [sim.name for sim in scene.world.nodes.nodes]
        self._pause = pause
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        turn = 0
        while not self._stopping.wait(self._pause):
            turn += 1
            for write in (self._annotate, self._taint):
                try:
                    write(turn)
                except NodemendError:
                    continue  # others write, too, and the API may be away

    def _annotate(self, turn: int) -> None:
        body = {"metadata": {"annotations": {"example.org/turn": str(turn)}}}
        for each in self._client.list(NODE_OPERATIONS).items:
            if (each.get("status") or {}).get("phase") != "Succeeded":
                name = each["metadata"]["name"]
                self._client.patch(NODE_OPERATIONS, name, body, kind=PatchKind.MERGE)

    def _taint(self, turn: int) -> None:
        node = self._client.get(NODES, self._nodes[turn % len(self._nodes)])
        taints = node["spec"].get("taints") or []
        others = [each for each in taints if each["key"] != _FOREIGN["key"]]
        wanted = others if len(others) < len(taints) else [*others, _FOREIGN]
        version = node["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": {"taints": wanted}}
        self._client.patch(NODES, node["metadata"]["name"], body, kind=PatchKind.MERGE)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Meddle inside the block."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._thread.join()
            self._client.close()


class RandomTrouble(RandomKills):
    """Two replicas; each trouble falls on one of them, or on the API."""

    def __init__(self, scene: Scene, seed: int, **changes: Any) -> None:
        super().__init__(scene, seed, **changes)
        self._second = scene.victim("remediator-1", **changes)
        self.troubles: dict[str, int] = {}
        self._kinds: dict[str, Callable[[], None]] = {
            "killed": self._one_killed,
            "slept through its lease": self._one_sleeps,
            "the API away": self._api_away,
            "503": self._refused,
            "connections cut": self._cut_off,
            "watches forgotten": self._watches_forgotten,
        }

    def __str__(self) -> str:
        return f"{self.troubles}, {sum(self.faults.values())} faults, {self.conflicts} conflicts"

    @property
    def conflicts(self) -> int:
        """How many writes of the replicas met somebody else's."""
        return sum(each.user == USER and each.code == 409 for each in self._scene.server.log())

    def run(self, kills: int, patience: float) -> None:
        """So many troubles of each kind, in any order; then wait until the last operations have ended."""
        deadline = time.monotonic() + patience
        order = [kind for kind in self._kinds for _ in range(kills)]
        self._dice.shuffle(order)
        for each in (self.victim, self._second):
            each.start()
        for kind in order:
            assert time.monotonic() < deadline, (str(self), self._scene.told())
            self._break_what_is_whole()
            time.sleep(self._dice.uniform(0.0, 0.5))
            self._kinds[kind]()
            self.troubles[kind] = self.troubles.get(kind, 0) + 1
        self._scene.server.control.clear_faults()
        wait_alive(self._told, self.victim, lambda: all(map(self._is_whole, self._nodes)), 90)

    def _one(self) -> Victim:
        """Rather the leader than the other."""
        leaders = [each for each in (self.victim, self._second) if each.leads]
        return self._dice.choice([*leaders, *leaders, self.victim, self._second])

    def _one_killed(self) -> None:
        one = self._one()
        one.kill()
        self.kills += 1
        one.start()

    def _one_sleeps(self) -> None:
        one = self._one()
        one.signal(signal.SIGSTOP)
        time.sleep(LEASE + self._dice.uniform(0.0, 2.0))
        one.signal(signal.SIGCONT)

    def _api_away(self) -> None:
        control = self._scene.server.control
        control.pause()
        time.sleep(self._dice.uniform(0.2, LEASE))
        control.resume()

    def _refused(self) -> None:
        self._scene.server.control.fail(self._dice.randrange(5, 30), 503, user=f"^{USER}$")

    def _cut_off(self) -> None:
        for after in (False, True):
            count = self._dice.randrange(1, 5)
            self._scene.server.control.reset(count, after=after, user=f"^{USER}$")

    def _watches_forgotten(self) -> None:
        self._scene.server.control.expire_watches()


def leader_of(*victims: Victim) -> Victim:
    """The one that says that it leads."""
    return next(each for each in victims if each.leads)


def exit_codes(world: World, job: str) -> list[int]:
    """How the containers of a Job's pods ended."""
    selector = f"batch.kubernetes.io/job-name={job}"
    found = world.client.list(PODS, SPACE, label_selector=selector).items
    statuses = [each for pod in found for each in pod["status"].get("containerStatuses") or ()]
    ended = [each["state"].get("terminated") for each in statuses]
    return [each["exitCode"] for each in ended if each]
