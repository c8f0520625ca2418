"""Many simulated nodes in one process: one watch of pods, one of nodes, a few threads.

Works with any API server that the client reaches. It acts only on pods that are bound to its own nodes.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from structlog.typing import FilteringBoundLogger

from chassis.contracts import (
    PROBE_REQUEST_ANNOTATION,
    PROBE_RESULT_ANNOTATION,
    ProbeResult,
    probe_request,
)
from chassis.kube_client import NODES, PODS, KubeClient
from chassis.kube_watch import Change, KubeCache
from sandbox.simulated_nodes.behaviours import Behaviours
from sandbox.simulated_nodes.children import Children
from sandbox.simulated_nodes.hardware import NodeSpec
from sandbox.simulated_nodes.host_commands import HostCommand, write_programs
from sandbox.simulated_nodes.node import SimulatedNode
from sandbox.simulated_nodes.shared import KeepLog, Roles, Shared
from sandbox.simulated_nodes.timetable import Timetable
from sandbox.simulated_nodes.timing import Timing

_LOGS_KEPT = 2000
_Asked = tuple[str, str]
"""The operation that asks for a probe, and the boot id that its answer must have."""


class SimulatedNodes:
    """A test kubelet for many nodes.

    Start it and the nodes register, run the pods bound to them and report as kubelets do; stop it and they fall
    silent, with their Nodes left in the API.
    """

    def __init__(  # noqa: PLR0913  (composition, all by name)
        self,
        client: KubeClient,
        specs: Iterable[NodeSpec],
        *,
        folder: Path,
        log: FilteringBoundLogger,
        clock: Callable[[], datetime],
        heartbeat: timedelta = timedelta(seconds=10),
        speed: float = 1,
        timing: Timing | None = None,
        behaviours: Behaviours | None = None,
        roles: Roles = Roles(),  # noqa: B008  (frozen)
        host_commands: Mapping[str, HostCommand] | None = None,
        keep_log: KeepLog | None = None,
        workers: int = 8,
    ) -> None:
        """Nothing is sent before `start`.

        Args:
            client: Reaches the API; without a limit of requests, or the nodes slow each other down.
            specs: The nodes; names must differ.
            folder: Theirs alone: the nodes' root folders and their containers' working folders.
            log: For what goes wrong.
            clock: The time that they tell, aware.
            heartbeat: How often a node renews its Lease.
            speed: How much faster than `timing` all else is, grace periods included.
            timing: In place of an ordinary server's.
            behaviours: What containers do.
            roles: What the nodes play beside the kubelet.
            host_commands: More commands, by name, that the machines answer to scripts; `Executes` only.
            keep_log: Also told the log of each container that ended.
            workers: Threads.

        Raises:
            ValueError: Two nodes have one name.
        """
        self._logs: dict[tuple[str, str], str] = {}
        self._also_keep = keep_log
        self._shared = Shared(
            client=client,
            timetable=Timetable(log, workers=workers),
            children=Children(folder / "programs"),
            behaviours=behaviours or Behaviours(),
            timing=(timing or Timing(heartbeat=heartbeat.total_seconds())).faster(speed),
            roles=roles,
            folder=folder,
            clock=clock,
            log=log,
            keep_log=self._keep_log,
            host_commands=host_commands or {},
        )
        self._by_node: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._nodes = self._made(specs)
        self._pods: KubeCache[dict[str, Any]] = KubeCache(
            client, PODS, log=log, clock=clock, on_change=self._pod_changed
        )
        self._requests: KubeCache[_Asked | None] = KubeCache(
            client, NODES, log=log, clock=clock, keep=_open_request, on_change=self._node_changed
        )

    def _made(self, specs: Iterable[NodeSpec]) -> dict[str, SimulatedNode]:
        nodes: dict[str, SimulatedNode] = {}
        for spec in specs:
            if spec.name in nodes:
                raise ValueError(f"two nodes have the name {spec.name}")
            nodes[spec.name] = SimulatedNode(spec, self._shared, self._pods_of)
        return nodes

    def node(self, name: str) -> SimulatedNode:
        """The node of this name; KeyError if there is none."""
        return self._nodes[name]

    @property
    def nodes(self) -> tuple[SimulatedNode, ...]:
        return tuple(self._nodes.values())

    def log_of(self, pod: str, container: str) -> str:
        """What a container that has ended wrote, by `namespace/name`; empty if it is not known any more."""
        return self._logs.get((pod, container), "")

    def start(self) -> None:
        """Start the nodes. They register one after the other; `is_registered` of each tells."""
        write_programs(self._shared.folder / "programs")
        self._shared.timetable.start()
        self._shared.children.start()
        self._pods.start()
        if self._shared.roles.agent:
            self._requests.start()
        for node in self._nodes.values():
            part = random.Random(node.name).random()  # spread, and the same each time
            node.start(part * self._shared.timing.heartbeat)

    def stop(self) -> None:
        """Stop all, and end what runs in the containers."""
        self._pods.stop()
        if self._shared.roles.agent:
            self._requests.stop()
        self._shared.timetable.stop()
        self._shared.children.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _pods_of(self, name: str) -> list[Mapping[str, Any]]:
        return list(self._by_node.get(name, {}).copy().values())

    def _pod_changed(self, change: Change[dict[str, Any]]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or old["metadata"]["uid"] != new["metadata"]["uid"]):
            self._lose(old)
        name = new["spec"].get("nodeName") if new is not None else None
        if new is not None and name in self._nodes:
            self._by_node.setdefault(name, {})[new["metadata"]["uid"]] = new
            self._nodes[name].see_pod(new)

    def _lose(self, pod: Mapping[str, Any]) -> None:
        name, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
        if name in self._nodes:
            self._by_node.get(name, {}).pop(uid, None)
            self._nodes[name].see_pod_gone(uid)

    def _node_changed(self, change: Change[_Asked | None]) -> None:
        if change.new and change.new != change.old and change.key in self._nodes:
            self._nodes[change.key].see_probe_request(change.new[0])

    def _keep_log(self, pod: str, container: str, text: str) -> None:
        self._logs[pod, container] = text
        while len(self._logs) > _LOGS_KEPT:
            self._logs.pop(next(iter(self._logs)), None)
        if self._also_keep is not None:
            self._also_keep(pod, container, text)


def _open_request(node: dict[str, Any]) -> _Asked | None:
    """The probe that is asked for; whoever takes an answer away asks again, and an answer holds for one boot."""
    annotations = node["metadata"].get("annotations") or {}
    operation = probe_request(annotations.get(PROBE_REQUEST_ANNOTATION))
    if not operation:
        return None
    boot_id = str(((node.get("status") or {}).get("nodeInfo") or {}).get("bootID", ""))
    found = ProbeResult.parse(annotations.get(PROBE_RESULT_ANNOTATION, ""))
    answered = found is not None and (found.operation, found.boot_id) == (operation, boot_id)
    return None if answered else (operation, boot_id)
