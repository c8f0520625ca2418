"""The real remediator in processes that are killed at chosen moments, on an embedded cluster that keeps its own record.

One process that has imported everything forks the services, as each start would take seconds otherwise.
"""

import os
import random
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from chassis.kube_client import PatchKind
from remediator.kube_cluster import NODE_OPERATIONS
from remediator.operation import RELEASE_REQUESTED_BY
from sandbox.kubernetes_server import SandboxKubernetes
from sandbox.kubernetes_server.audit import AuditEntry
from sandbox.kubernetes_server.control import Asked
from sandbox.simulated_nodes import Fault, FaultKind
from sandbox.simulated_nodes.faults import Remedy
from tests.journeys.forking import Forker
from tests.journeys.remediator_crash_record import Record, reboots_wrong
from tests.journeys.remediator_world import (
    PLAYBOOK,
    Remediator,
    World,
    a_world,
    client_of,
    prepare,
)
from tests.journeys.service import wait_until

USER = "remediator"
MUTATING = ("create", "update", "patch", "delete", "deletecollection")
WRITTEN = ("nodeoperations", "nodes", "pods", "jobs", "configmaps")
"""What operations write to; the Lease of the leader is no step of theirs."""
WITH_PROBE: dict[str, Any] = {**PLAYBOOK, "proof": {**PLAYBOOK["proof"], "probe": True}}
SHORT_PROOF: dict[str, Any] = {**WITH_PROBE, "proof": {**WITH_PROBE["proof"], "deadline": "3s"}}
BUDGET = 2
"""How many of the nodes may be out of service at once."""
LEADER = {"lease_duration": "3s", "renew_deadline": "2s", "retry_period": "1s"}
SETTINGS: dict[str, Any] = {
    "playbooks": [WITH_PROBE],
    "leader": LEADER,
    "budgets": [{"name": "few", "max_unavailable": BUDGET}],
    "log_level": "warning",
}
_SERVING = """
import remediator.__main__ as program

def serve(config, log, identity, change):
    begin(config, log)
    os.setsid()
    os.environ["POD_NAME"] = identity
    if change:
        exec(compile(open(change).read(), change, "exec"), {"program": program})
    os._exit(program.main(["serve", "--config", config]))
"""


def remediator_forker(folder: Path) -> Forker:
    """Starts remediators; `change` is a Python file that is run in the child first, with `program` its __main__."""
    return Forker(folder, _SERVING)


class Victim(Remediator):
    """A remediator that a Forker starts; it is never asked to stop, only killed."""

    def __init__(
        self, forker: Forker, folder: Path, kubeconfig: Path, name: str, **changes: Any
    ) -> None:
        super().__init__(folder, kubeconfig, name, **{**SETTINGS, **changes})
        self._forker = forker
        self._handle = -1
        self.change: Path | str = ""

    def start(self, *, wait: bool = True) -> "Victim":
        log = self.folder / "remediator.log"
        pid = self._forker.fork(self.file, log, self.name, self.change)
        with suppress(ProcessLookupError):
            self._handle = os.pidfd_open(pid)
        if wait:
            wait_until(f"{self.name} to be ready", self._is_ready)
        return self

    def _is_ready(self) -> bool:
        assert self.runs, f"{self.name} ended by itself: {self.tail()}"
        with suppress(OSError):
            return bool(self.get("/readyz"))
        return False

    def tail(self) -> str:
        """The end of what it printed."""
        return (self.folder / "remediator.log").read_text("utf-8", errors="replace")[-1500:]

    @property
    def runs(self) -> bool:
        return self._handle >= 0 and not select.select([self._handle], [], [], 0)[0]

    def kill(self) -> None:
        if self._handle < 0:
            return
        self.signal(signal.SIGKILL)
        select.select([self._handle], [], [])
        os.close(self._handle)
        self._handle = -1

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)


class Scene:
    """One embedded cluster with simulated nodes, its record, and the services on it."""

    def __init__(
        self, server: SandboxKubernetes, world: World, record: Record, forker: Forker, folder: Path
    ) -> None:
        self.server = server
        self.world = world
        self.record = record
        self._forker = forker
        self._folder = folder
        self._kubeconfig = server.kubeconfig(folder / "service.kubeconfig", user=USER)
        self._victims: list[Victim] = []

    def victim(self, name: str = "remediator-0", **changes: Any) -> Victim:
        """A service that is not started yet; it is killed at the end."""
        made = Victim(self._forker, self._folder, self._kubeconfig, name, **changes)
        self._victims.append(made)
        return made

    def end(self) -> None:
        for each in self._victims:
            each.kill()

    # What happens to it.

    def break_node(self, node: str, number: int, *, heals: bool = True) -> None:
        """A fault that a reboot heals, if it `heals` at all, with a pod in the way."""
        self.world.ordinary_pod(f"training-{node}-{number}", node)
        remedies = None if heals else frozenset[Remedy]()
        self.world.sim(node).inject(Fault(FaultKind.GPU_RUNTIME_ERROR, healed_by=remedies))

    def mend(self, node: str) -> None:
        """What a person does to whom an operation was given."""
        self.world.sim(node).clear(FaultKind.GPU_RUNTIME_ERROR)
        name = self.world.operations(node)[-1]["metadata"]["name"]
        body = {"metadata": {"annotations": {RELEASE_REQUESTED_BY: "alice"}}}
        self.world.client.patch(NODE_OPERATIONS, name, body, kind=PatchKind.MERGE)

    def hold_write(self, number: int, kind: str = "", *, after: bool) -> None:
        """Hold up the service's next write (of a kind) but `number`, before or after its effect."""
        only: dict[str, Any] = {"verbs": MUTATING, "resources": WRITTEN}
        if kind:
            verb, _, resource = kind.partition(" ")
            name, _, part = resource.partition("/")
            only = {"verbs": [verb], "resources": [name], "subresource": part}
        self.server.control.hold(after=after, skip=number, user=f"^{USER}$", **only)

    def writes(self) -> list[str]:
        """The kinds of the services' writes so far, as the API server's log tells them."""
        return [
            kind_of(each)
            for each in self.server.log()
            if each.user == USER and each.verb in MUTATING and each.resource in WRITTEN
        ]

    def ended(self, node: str, episodes: int) -> bool:
        """Whether this many operations of a node are there and the last has succeeded."""
        found = self.world.operations(node)
        return len(found) == episodes and _phase(found[-1]) == "Succeeded"

    def told(self) -> Mapping[str, Sequence[str]]:
        """How far the operations of each node are, for a failure's text."""
        return {
            sim.name: [
                f"{_phase(each)}: {(each.get('status') or {}).get('message')}"
                for each in self.world.operations(sim.name)
            ]
            for sim in self.world.nodes.nodes
        }


def kind_of(request: Asked | AuditEntry) -> str:
    """A write as in `create jobs` or `update nodeoperations/status`."""
    return f"{request.verb} {request.resource}" + f"/{request.subresource}".rstrip("/")


def _phase(operation: Mapping[str, Any]) -> str:
    return str((operation.get("status") or {}).get("phase", ""))


class RandomKills:
    """Breaks the nodes of a scene again and again, and kills its one service at random until it has been often enough.

    Half of the kills fall on a write, before or after its effect; the others at any time. Faults that nothing
    `heals` are given to a person after one reboot, mended, and released.
    """

    def __init__(self, scene: Scene, seed: int, *, heals: bool = True, **changes: Any) -> None:
        self._scene = scene
        self._heals = heals
        self._dice = random.Random(seed)
        self._nodes = [sim.name for sim in scene.world.nodes.nodes]
        self.victim = scene.victim(**changes)
        self.faults = dict.fromkeys(self._nodes, 0)
        self.kills = 0
        self.at_writes = 0
        self.wrong: list[str] = []

    def __str__(self) -> str:
        faults = sum(self.faults.values())
        return f"{self.kills} kills, {self.at_writes} of them at a write, {faults} faults"

    def run(self, kills: int, patience: float) -> None:
        """Kill so often, then wait until the last operations have ended."""
        deadline = time.monotonic() + patience
        self.victim.start()
        while self.kills < kills:
            assert time.monotonic() < deadline, (str(self), self._scene.told())
            self._break_what_is_whole()
            self._kill()
            self.victim.start()
        wait_alive(self._told, self.victim, lambda: all(map(self._is_whole, self._nodes)))

    def mistakes(self) -> list[str]:
        """What must not have happened and did."""
        sims = self._scene.world.nodes.nodes
        return self.wrong + reboots_wrong(sims, self.faults) + self._scene.record.mistakes(BUDGET)

    def _told(self) -> object:
        return str(self), self._scene.told()

    def _is_whole(self, node: str) -> bool:
        if not self._heals and self._scene.world.phase(node) == "Escalated":
            self._scene.mend(node)
        return not self.faults[node] or self._scene.ended(node, self.faults[node])

    def _break_what_is_whole(self) -> None:
        for node in filter(self._is_whole, self._nodes):
            self.wrong += reboots_wrong([self._scene.world.sim(node)], self.faults)
            self.faults[node] += 1
            self._scene.break_node(node, self.faults[node], heals=self._heals)

    def _kill(self) -> None:
        control = self._scene.server.control
        if self._dice.random() < 0.5:
            self._scene.hold_write(self._dice.randrange(8), after=self._dice.random() < 0.5)
            limit = time.monotonic() + 1.0
            while not control.held and time.monotonic() < limit:
                time.sleep(0.01)
            self.at_writes += bool(control.held)
        else:
            time.sleep(self._dice.uniform(0.0, 0.5))
        self.victim.kill()
        control.clear_faults()
        self.kills += 1


@contextmanager
def a_scene(folder: Path, forker: Forker, nodes: Sequence[str]) -> Iterator[Scene]:
    """A cluster of its own in `folder`."""
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        server = stack.enter_context(SandboxKubernetes(scheduler=False))
        path = server.kubeconfig(folder / "kubeconfig")
        admin = client_of(path)
        stack.callback(admin.close)
        prepare(admin, embedded=True)
        record = Record(server)
        world = stack.enter_context(a_world(path, folder, nodes))
        scene = Scene(server, world, record, forker, folder)
        stack.callback(scene.end)
        yield scene


def wait_alive(
    what: Callable[[], object], victim: Victim, holds: Callable[[], bool], seconds: float = 60
) -> None:
    """Wait for a condition while a service runs; `what` is told when it does not come."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert victim.runs, f"{victim.name} ended by itself: {victim.tail()}"
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)
