"""The demo's cluster: an embedded Kubernetes, a few simulated nodes on it, and `exporters node-conditions` watching them.

The nodes' agents are simulated; the exporter is the real one, as a child process.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog
import yaml
from structlog.typing import FilteringBoundLogger

from chassis.contracts import ConditionType
from chassis.kube_client import KubeClient, KubeSettings
from sandbox import programs
from sandbox.kubernetes_server import AuditEntry, SandboxKubernetes
from sandbox.kubernetes_server.running import utc_now
from sandbox.simulated_nodes import (
    MODELS,
    FaultKind,
    FleetPart,
    NodeSpec,
    Roles,
    SimulatedNodes,
    mixed_fleet,
)

CONDITION = ConditionType.GPU_RUNTIME_ERROR.value
_EXPORTER = "node-conditions"
_READY_SECONDS = 60
_NOWHERE = "nodemend.dev/rack=nowhere"


class Fleet:
    """One node of each GPU model that the simulation knows, and one without GPUs."""

    def __init__(self, folder: Path, *, agents_lie: bool, exporter_sees_none: bool) -> None:
        """Nothing runs before `start`.

        Args:
            folder: The demo's own.
            agents_lie: The agents say healthy, whatever breaks.
            exporter_sees_none: The exporter selects nodes that do not exist.
        """
        self._folder = folder
        self._agents_lie = agents_lie
        self._sees_none = exporter_sees_none
        self._kubernetes = SandboxKubernetes(controllers=False, scheduler=False)
        self._specs = _specs()
        self._nodes: SimulatedNodes | None = None
        self._exporter: programs.Program | None = None
        self._port = programs.free_port()
        self._stack = contextlib.ExitStack()

    @property
    def specs(self) -> tuple[NodeSpec, ...]:
        return self._specs

    @property
    def exporter_port(self) -> int:
        return self._port

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/metrics"

    @property
    def kubeconfig(self) -> Path:
        return self._folder / "kubeconfig"

    def start(self) -> None:
        """Start all; `wait` tells when it is of use."""
        self._stack.enter_context(self._kubernetes)
        self._kubernetes.kubeconfig(self.kubeconfig)
        self._exporter = self._stack.enter_context(programs.running(self._start_exporter()))
        self._nodes = self._stack.enter_context(self._simulated())
        if self._agents_lie:
            for node in self._nodes.nodes:
                node.inject(FaultKind.CLAIMS_HEALTH)

    def wait(self) -> None:
        """Wait until every node has reported and the exporter is ready.

        Raises:
            ProgramError: One was not in time.
        """
        _wait("the simulated nodes did not report", self._all_reported)
        if self._exporter is not None:
            self._exporter.wait_until_ready(f"http://127.0.0.1:{self._port}/readyz", _READY_SECONDS)

    def _start_exporter(self) -> programs.Program:
        config: dict[str, Any] = {
            "serving": {"listen": f"127.0.0.1:{self._port}"},
            "kubernetes": {"kubeconfig": str(self._folder / "exporter-kubeconfig")},
        }
        if self._sees_none:
            config["node_selector"] = _NOWHERE
        self._kubernetes.kubeconfig(self._folder / "exporter-kubeconfig", user=_EXPORTER)
        file = self._folder / f"{_EXPORTER}.yaml"
        file.write_text(yaml.safe_dump(config))
        return programs.start_exporter(_EXPORTER, file, self._folder)

    def _simulated(self) -> SimulatedNodes:
        log = self._log()
        settings = KubeSettings(kubeconfig=self.kubeconfig, qps=0)
        client = KubeClient(settings, log, user_agent="simulated-nodes")
        self._stack.callback(client.close)
        return SimulatedNodes(
            client,
            self._specs,
            folder=self._folder / "nodes",
            log=log,
            clock=utc_now,
            roles=Roles(agent=True),
            workers=2,
        )

    def _log(self) -> FilteringBoundLogger:
        """To a file, as the terminal is for the story."""
        path = self._folder / "simulated-nodes.log"
        file = self._stack.enter_context(path.open("w", encoding="utf-8"))
        log: FilteringBoundLogger = structlog.wrap_logger(
            structlog.WriteLogger(file),
            processors=[structlog.processors.JSONRenderer()],
            wrapper_class=structlog.make_filtering_bound_logger("info"),
        )
        return log

    def _all_reported(self) -> bool:
        return all(self._reported(spec.name) for spec in self._specs if spec.gpu is not None)

    def _reported(self, name: str) -> bool:
        return self.condition(name).get("status") == "False"

    def break_gpu(self, node: str) -> None:
        if self._nodes is not None:
            self._nodes.node(node).inject(FaultKind.GPU_RUNTIME_ERROR)

    def heal_gpu(self, node: str) -> None:
        if self._nodes is not None:
            self._nodes.node(node).clear(FaultKind.GPU_RUNTIME_ERROR)

    def condition(self, node: str) -> Mapping[str, str]:
        """The node's condition about CUDA as Kubernetes keeps it; empty if there is none."""
        body = self._kubernetes.object("nodes", node) or {}
        found = (body.get("status") or {}).get("conditions") or []
        return next((each for each in found if each["type"] == CONDITION), {})

    def asked_by_exporter(self) -> set[str]:
        """What the exporter asked of Kubernetes, as in "watch nodes", by Kubernetes' own audit log."""
        entries = self._kubernetes.log(keep=_is_exporters)
        return {f"{entry.verb} {entry.resource or entry.path}" for entry in entries}

    def stop(self) -> None:
        self._stack.close()


def _specs() -> tuple[NodeSpec, ...]:
    parts = [*(FleetPart(model, 8) for model in MODELS.values()), FleetPart(None, 0)]
    return mixed_fleet(len(parts), prefix="gpu", parts=parts)


def _is_exporters(entry: AuditEntry) -> bool:
    return entry.user == _EXPORTER


def _wait(otherwise: str, shown: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not shown():
        if time.monotonic() > deadline:
            raise programs.ProgramError(f"{otherwise} in {_READY_SECONDS} s")
        time.sleep(0.05)
