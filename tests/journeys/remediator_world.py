"""The real remediator as a child process on a Kubernetes with simulated nodes, for its journeys."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
import yaml

from chassis.contracts import OPERATION_TAINT
from chassis.kube_client import (
    CUSTOM_RESOURCE_DEFINITIONS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    AlreadyExists,
    KubeClient,
    KubeSettings,
    NotFound,
    PatchKind,
)
from remediator.kube_cluster import NODE_OPERATIONS
from sandbox import programs
from sandbox.kubernetes_rules.cel_rules import without_cel_rules
from sandbox.simulated_nodes import (
    MODELS,
    Behaviours,
    Executes,
    NodeSpec,
    Roles,
    Runs,
    SimulatedNode,
    SimulatedNodes,
    Timing,
)
from tests.journeys.service import wait_until

ROOT = Path(__file__).parents[2]
SPACE = "nodemend"
CRD = ROOT / "deploy" / "remediator" / "crd.yaml"
CONDITION = "GPURuntimeError"

PLAYBOOK: dict[str, Any] = {
    "name": "gpu-runtime-error",
    "match": ['alertname="GPURuntimeError"'],
    "conditions": {"any": [{"type": CONDITION, "for": "0s"}]},
    "dry_run": False,
    "ladder": [
        {
            "name": "reboot",
            "repair": {"reboot": {}},
            "timeout": "20s",
            "return_within": "20s",
            "cooldown": "0s",
            "drain": {"unmanaged": "delete", "deadline": "30s"},
        }
    ],
    "proof": {"soak": "0s", "deadline": "30s", "alerts": False, "conditions": [CONDITION]},
    "gates": {"cooldown": "0s"},
    "operations_limit": {"count": 100},
}


def now() -> datetime:
    return datetime.now(UTC)


def client_of(kubeconfig: Path) -> KubeClient:
    return KubeClient(KubeSettings(kubeconfig=kubeconfig, qps=0), structlog.get_logger())


def prepare(client: KubeClient, *, embedded: bool = False) -> None:
    """The definition, the namespace, and nothing else. The embedded API carries out no CEL rules."""
    definition = yaml.safe_load(CRD.read_text("utf-8"))
    if embedded:
        definition = without_cel_rules(definition)
    client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    with suppress(AlreadyExists):
        client.create(NAMESPACES, space)
    wait_until("the resource", lambda: _is_served(client))


def _is_served(client: KubeClient) -> bool:
    try:
        client.list(NODE_OPERATIONS)
    except NotFound:
        return False
    return True


class Remediator:
    """`remediator serve` with a configuration of its own; may be killed and started again."""

    def __init__(self, folder: Path, kubeconfig: Path, name: str, **changes: Any) -> None:
        self.folder = folder / name
        self.folder.mkdir(exist_ok=True)
        self.name = name
        self.port = programs.free_port()
        self.program: programs.Program | None = None
        self.config: dict[str, Any] = {
            "serving": {"listen": f"127.0.0.1:{self.port}", "drain": "2s"},
            "kubernetes": {"kubeconfig": str(kubeconfig), "timeout": "5s", "qps": 0},
            "leader": {"lease_duration": "3s", "renew_deadline": "2s", "retry_period": "1s"},
            "playbooks": [PLAYBOOK],
            "breaker": {"enabled": False},
            "rate_limit": {"isolations": 1000, "per": "1h"},
            "jobs": {"image": "repair:1", "priority_class": ""},
            **changes,
        }
        self.file = self.folder / "remediator.yaml"
        self.file.write_text(yaml.safe_dump(self.config))

    def start(self, *, wait: bool = True) -> "Remediator":
        command = [sys.executable, "-m", "remediator", "serve", "--config", str(self.file)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "POD_NAME": self.name}
        self.program = programs.start("remediator", command, self.folder, environment)
        if wait:
            self.program.wait_until_ready(f"{self.url}/readyz", 60)
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        if self.program is not None:
            self.program.process.send_signal(signal.SIGCONT)
            self.program.process.kill()
            self.program.process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self.program is not None
        return self.program.stop()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.program is not None
        self.program.process.send_signal(number)

    def log(self) -> list[dict[str, Any]]:
        """The log lines so far."""
        text = (self.folder / "remediator.log").read_text("utf-8", errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def post(self, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Send a webhook: status and JSON of the answer."""
        request = urllib.request.Request(
            f"{self.url}/v1/webhook",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=15) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another sub-command, with the same configuration."""
        command = [sys.executable, "-m", "remediator", *arguments, "--config", str(self.file)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60, env=environment
        )

    def get(self, path: str) -> str:
        """A page or the metrics."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=15) as answer:
            return str(answer.read(), "utf-8")

    @property
    def leads(self) -> bool:
        """Whether it says that it leads."""
        try:
            return "\nremediator_leader 1.0" in self.get("/metrics")
        except OSError:
            return False


def webhook(node: str, *, status: str = "firing", alertname: str = CONDITION) -> dict[str, Any]:
    """A webhook of one alert about a node."""
    alert = {
        "status": status,
        "labels": {"alertname": alertname, "node": node},
        "annotations": {"summary": f"{alertname} on {node}"},
        "startsAt": "2026-11-30T12:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z" if status == "firing" else "2026-11-30T12:05:00Z",
        "generatorURL": "",
    }
    return {
        "version": "4",
        "groupKey": f"{alertname}/{node}",
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "remediator",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "",
        "alerts": [alert],
    }


class World:
    """Simulated nodes on an API."""

    def __init__(self, client: KubeClient, nodes: SimulatedNodes, kubeconfig: Path) -> None:
        self.client = client
        self.nodes = nodes
        self.kubeconfig = kubeconfig

    def sim(self, name: str) -> SimulatedNode:
        return self.nodes.node(name)

    def node(self, name: str) -> dict[str, Any]:
        return self.client.get(NODES, name)

    def taint(self, name: str) -> str | None:
        """The value of our taint."""
        for taint in self.node(name)["spec"].get("taints") or ():
            if taint["key"] == OPERATION_TAINT:
                return str(taint.get("value"))
        return None

    def operations(self, node: str) -> list[dict[str, Any]]:
        """The operations of a node, oldest first."""
        found = self.client.list(NODE_OPERATIONS).items
        mine = [each for each in found if each["spec"]["nodeName"] == node]
        return sorted(mine, key=lambda each: int(each["spec"].get("episode", 1)))

    def phase(self, node: str) -> str:
        """The phase of a node's last operation, empty if there is none."""
        found = self.operations(node)
        return str((found[-1].get("status") or {}).get("phase", "")) if found else ""

    def wait_for(self, node: str, *phases: str, seconds: float = 60) -> dict[str, Any]:
        """Wait for one of these phases; the operation."""
        wait_until(f"{node} in {phases}", lambda: self.phase(node) in phases, seconds)
        return self.operations(node)[-1]

    def ordinary_pod(self, name: str, node: str, **spec: Any) -> None:
        """A pod on a node that must leave before a repair."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "train"}],
                **spec,
            },
        }
        self.client.create(PODS, body)

    def pod_exists(self, name: str) -> bool:
        try:
            self.client.get(PODS, name, "default")
        except NotFound:
            return False
        return True

    def jobs(self) -> list[dict[str, Any]]:
        return self.client.list(JOBS, SPACE).items

    def annotate(self, node: str, values: Mapping[str, str | None]) -> None:
        body = {"metadata": {"annotations": dict(values)}}
        self.client.patch(NODES, node, body, kind=PatchKind.MERGE)


@contextmanager
def a_world(
    kubeconfig: Path,
    folder: Path,
    names: Sequence[str],
    speed: float = 100,
    *,
    agent: bool = True,
) -> Iterator[World]:
    """Simulated nodes with GPUs that run repairs for real, started and registered; with `agent`, also their agents."""
    client = client_of(kubeconfig)
    specs = [NodeSpec(name, MODELS["NVIDIA-A30"], 2) for name in names]
    nodes = SimulatedNodes(
        client,
        specs,
        folder=folder / "nodes",
        log=structlog.get_logger(),
        clock=now,
        timing=Timing(heartbeat=1, reboot=30, agent_report=50),
        speed=speed,
        behaviours=Behaviours({"train": Runs()}, job=Executes()),
        roles=Roles(agent=agent),
    )
    with nodes:
        for name in names:
            wait_until(f"node {name}", lambda name=name: nodes.node(name).is_registered)  # type: ignore[misc]  # fmt: skip  # a default binds the loop's name
        yield World(client, nodes, kubeconfig)
    client.close()


Start = Callable[..., Remediator]
