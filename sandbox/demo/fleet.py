"""The demo's cluster: an embedded Kubernetes with simulated nodes of mixed GPUs on it, and the people who use it.

The nodes' kubelets and agents are simulated. A repair's script runs for real, on the files of its simulated node.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

import structlog
import yaml
from structlog.typing import FilteringBoundLogger

from chassis.contracts import OPERATION_TAINT, PROBE_RESULT_ANNOTATION, ProbeResult
from chassis.kube_client import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    KubeClient,
    KubeSettings,
)
from sandbox import programs
from sandbox.demo.people import LABEL, People
from sandbox.demo.services import ALERT, SPACE
from sandbox.kubernetes_rules.cel_rules import without_cel_rules
from sandbox.kubernetes_server import SandboxKubernetes
from sandbox.kubernetes_server.running import utc_now
from sandbox.simulated_nodes import (
    MODELS,
    Behaviours,
    Executes,
    FaultKind,
    FleetPart,
    NodeSpec,
    Roles,
    Runs,
    SimulatedNode,
    SimulatedNodes,
    Timing,
    mixed_fleet,
)

CONDITION = ALERT
_OPERATIONS = "nodeoperations.nodemend.dev"
_HISTORY = 20_000
_READY_SECONDS = 60
_TIMING = Timing(heartbeat=1, agent_report=2, shutdown=0.5, reboot=3, probe=1)


class Fleet:
    """One node of each GPU model that the simulation knows, and one without GPUs."""

    def __init__(self, folder: Path) -> None:
        """Nothing runs before `start`. `folder` is the demo's own."""
        self._folder = folder
        self.kubernetes = SandboxKubernetes(history=_HISTORY)
        self.specs = _specs()
        # The cheapest GPUs with 40 GB: what the training asks for.
        self.node = next(each.name for each in self.specs if each.gpu is MODELS["NVIDIA-L40S"])
        self._nodes: SimulatedNodes | None = None
        self._stack = contextlib.ExitStack()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self._folder / "kubeconfig"

    @property
    def sick_node(self) -> SimulatedNode:
        """The node whose GPU breaks, once started."""
        if self._nodes is None:
            raise programs.ProgramError("the simulated nodes were not started")
        return self._nodes.node(self.node)

    def start(self) -> None:
        """Start the API, and nodes that report; `wait` tells when they have."""
        self._stack.enter_context(self.kubernetes)
        self.kubernetes.kubeconfig(self.kubeconfig)
        client = KubeClient(
            KubeSettings(kubeconfig=self.kubeconfig, qps=0), self._log(), user_agent="demo"
        )
        self._stack.callback(client.close)
        self.client = client
        self.people = People(self.kubernetes, client)
        self._prepare()
        self._nodes = self._stack.enter_context(self._simulated())

    def kubeconfig_for(self, user: str) -> Path:
        """A kubeconfig under a name that the audit log tells from others."""
        return self.kubernetes.kubeconfig(self._folder / f"{user}-kubeconfig", user=user)

    def let_agents_lie(self) -> None:
        """From now on they say healthy, whatever breaks."""
        if self._nodes is not None:
            for node in self._nodes.nodes:
                node.inject(FaultKind.CLAIMS_HEALTH)

    def wait(self) -> None:
        """Wait until every node has reported.

        Raises:
            ProgramError: One was not in time.
        """
        names = [spec.name for spec in self.specs if spec.gpu is not None]
        all_reported = lambda: all(  # noqa: E731
            self.condition(name).get("status") == "False" for name in names
        )
        _wait("the simulated nodes did not report", all_reported)

    def _prepare(self) -> None:
        """What an admin applies before the remediator comes: its resource and its namespace."""
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        self.client.create(NAMESPACES, space)
        text = resources.files("sandbox.demo").joinpath("nodeoperations.yaml").read_text("utf-8")
        self.client.create(CUSTOM_RESOURCE_DEFINITIONS, without_cel_rules(yaml.safe_load(text)))

    def _simulated(self) -> SimulatedNodes:
        return SimulatedNodes(
            self.client,
            self.specs,
            folder=self._folder / "nodes",
            log=self._log(),
            clock=utc_now,
            timing=_TIMING,
            behaviours=Behaviours({"endless": Runs()}, job=Executes()),
            roles=Roles(agent=True),
            workers=2,
        )

    def _log(self) -> FilteringBoundLogger:
        """To a file, as the terminal is for the story."""
        path = self._folder / "simulated-nodes.log"
        file = self._stack.enter_context(path.open("a", encoding="utf-8"))
        log: FilteringBoundLogger = structlog.wrap_logger(
            structlog.WriteLogger(file),
            processors=[structlog.processors.JSONRenderer()],
            wrapper_class=structlog.make_filtering_bound_logger("info"),
        )
        return log

    # What Kubernetes keeps.

    def condition(self, node: str) -> Mapping[str, str]:
        """The node's condition about CUDA; empty if there is none."""
        return condition_in(self.kubernetes.object("nodes", node) or {})

    def operations(self) -> list[Mapping[str, Any]]:
        """All NodeOperations that there are."""
        return [*self.kubernetes.objects(_OPERATIONS)]

    def operation(self) -> Mapping[str, Any]:
        """The one NodeOperation that there should be; empty if there is none."""
        found = self.operations()
        return found[-1] if found else {}

    @property
    def phase(self) -> str:
        """How far the operation is; empty while there is none."""
        return str((self.operation().get("status") or {}).get("phase", ""))

    @property
    def boot_id(self) -> str:
        """Of the sick node, as its kubelet tells it."""
        return boot_id_in(self._sick)

    def was_isolated_for(self, operation: str) -> bool:
        """Whether the sick node has carried the taint of this operation."""
        return any(operation_taint_in(node) == operation for node in self.past_nodes())

    @property
    def probe(self) -> ProbeResult | None:
        """The sick node's answer to the last request for a probe."""
        annotations = self._sick["metadata"].get("annotations") or {}
        return ProbeResult.parse(annotations.get(PROBE_RESULT_ANNOTATION, ""))

    @property
    def _sick(self) -> Mapping[str, Any]:
        return self.kubernetes.object("nodes", self.node) or {"metadata": {}, "spec": {}}

    def product(self, node: str) -> str:
        """The GPUs of a node by the label's value; empty if it has none or is not there."""
        labels = (self.kubernetes.object("nodes", node) or {}).get("metadata", {}).get("labels")
        return str((labels or {}).get(LABEL, ""))

    def past_nodes(self) -> list[Mapping[str, Any]]:
        """All that the sick node's Node has been, oldest first."""
        return [*self.kubernetes.versions("nodes", self.node)]

    def past_conditions(self) -> list[str]:
        """The statuses that the sick node's condition about CUDA has had, in turn."""
        return in_turn(condition_in(node).get("status", "") for node in self.past_nodes())

    def past_operations(self) -> list[Mapping[str, Any]]:
        """All that the operation has been, oldest first."""
        name = self.operation().get("metadata", {}).get("name", "")
        return [*self.kubernetes.versions(_OPERATIONS, name)]

    def stop(self) -> None:
        self._stack.close()


def in_turn(values: Iterable[str]) -> list[str]:
    """The values without repeats in a row and without empty ones."""
    return [each for each, _ in groupby(filter(None, values))]


def condition_in(node: Mapping[str, Any]) -> Mapping[str, str]:
    """A Node's condition about CUDA; empty if it has none."""
    found = (node.get("status") or {}).get("conditions") or []
    return next((each for each in found if each["type"] == CONDITION), {})


def boot_id_in(node: Mapping[str, Any]) -> str:
    """A Node's boot id; empty before its kubelet has told it."""
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("bootID", ""))


def operation_taint_in(node: Mapping[str, Any]) -> str:
    """The operation that isolates a Node; empty for none."""
    taints = node["spec"].get("taints") or ()
    return next((each.get("value", "") for each in taints if each["key"] == OPERATION_TAINT), "")


def _specs() -> tuple[NodeSpec, ...]:
    parts = [*(FleetPart(model, 8) for model in MODELS.values()), FleetPart(None, 0)]
    return mixed_fleet(len(parts), prefix="gpu", parts=parts)


def _wait(otherwise: str, shown: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not shown():
        if time.monotonic() > deadline:
            raise programs.ProgramError(f"{otherwise} in {_READY_SECONDS} s")
        time.sleep(0.05)
