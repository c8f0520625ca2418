"""A world with one simulated node on a Kubernetes API, embedded or real, for the contract tests of simulated nodes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from chassis.kube_client import JOBS, NODES, PODS, AlreadyExists, KubeClient, NotFound
from sandbox.simulated_nodes import (
    MODELS,
    NodeSpec,
    Roles,
    SimulatedNode,
    SimulatedNodes,
    Timing,
)

SPEED = 50
LOG = structlog.get_logger()


def now() -> datetime:
    return datetime.now(UTC)


def until(check: Callable[[], Any], seconds: float = 20) -> Any:
    """What `check` gives once that is something."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "this never came"
        time.sleep(0.02)
    return found


class World:
    """A node `n1` with four GPUs on an API, and a namespace of its own."""

    def __init__(self, client: KubeClient, nodes: SimulatedNodes, name: str) -> None:
        self.client = client
        self.nodes = nodes
        self.name = name

    @property
    def node(self) -> SimulatedNode:
        return self.nodes.node(self.name)

    def seen(self) -> dict[str, Any]:
        return self.client.get(NODES, self.name)

    def condition(self, type_: str) -> tuple[str, str]:
        found = {each["type"]: each for each in self.seen()["status"]["conditions"]}
        return (found[type_]["status"], found[type_]["reason"]) if type_ in found else ("", "")

    def create(self, name: str, *, image: str = "app", of_job: bool = False, **spec: Any) -> None:
        container = {"name": "main", "image": image}
        for key in ("command", "resources", "env", "terminationMessagePath"):
            if key in spec:
                container[key] = spec.pop(key)
        metadata: dict[str, Any] = {"name": name, "namespace": "default"}
        if of_job:
            reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "owner"}
            metadata["ownerReferences"] = [{**reference, "uid": self._job_uid()}]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"nodeName": self.name, "containers": [container], **spec},
        }
        self.client.create(PODS, body)

    def create_job(self, name: str, *command: str) -> None:
        """A Job pinned to the node, whose one pod is not tried again."""
        container = {"name": "main", "image": "repair", "command": list(command)}
        pod = {"restartPolicy": "Never", "nodeName": self.name, "containers": [container]}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"backoffLimit": 0, "template": {"spec": pod}},
        }
        self.client.create(JOBS, body)

    def job_ended(self, name: str) -> str:
        """`Complete` or `Failed`, or nothing yet."""
        status = self.client.get(JOBS, name, "default").get("status") or {}
        true = {e["type"] for e in status.get("conditions") or () if e["status"] == "True"}
        return next(iter(true & {"Complete", "Failed"}), "")

    def _job_uid(self) -> str:
        """A Job that makes no pods itself; an owner that does not exist would have its pods collected."""
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app"}]}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "owner", "namespace": "default"},
            "spec": {"suspend": True, "template": {"spec": pod}},
        }
        try:
            return str(self.client.create(JOBS, body)["metadata"]["uid"])
        except AlreadyExists:
            return str(self.client.get(JOBS, "owner", "default")["metadata"]["uid"])

    def gpus(self, count: int) -> dict[str, Any]:
        return {"limits": {"nvidia.com/gpu": str(count)}}

    def pod(self, name: str) -> dict[str, Any] | None:
        try:
            return self.client.get(PODS, name, "default")
        except NotFound:
            return None

    def phase(self, name: str) -> str:
        pod = self.pod(name)
        return pod["status"].get("phase", "") if pod else "gone"

    def until_phase(self, name: str, phase: str) -> dict[str, Any]:
        until(lambda: self.phase(name) == phase)
        return self.pod(name) or {}

    def state(self, name: str, *, which: str = "containerStatuses") -> dict[str, Any]:
        pod = self.pod(name) or {}
        statuses = pod.get("status", {}).get(which) or [{}]
        return statuses[0].get("state") or {}


class Worlds:
    """Makes worlds on one API and takes them down."""

    def __init__(self, client: KubeClient, folder: Path) -> None:
        self.client = client
        self._folder = folder

    @contextmanager
    def world(self, **options: Any) -> Iterator[World]:
        name = "n1"
        spec = NodeSpec(name, MODELS["NVIDIA-A30"], 4)
        settings = {
            "roles": Roles(agent=True),
            "timing": Timing(heartbeat=0.2, reboot=30),
            "speed": SPEED,
        }
        nodes = SimulatedNodes(
            self.client,
            [spec],
            folder=self._folder,
            log=LOG,
            clock=now,
            **{**settings, **options},
        )
        try:
            with nodes:
                until(lambda: nodes.node(name).is_registered)
                yield World(self.client, nodes, name)
        finally:
            for pod in self.client.list(PODS).items:
                self.client.delete(PODS, pod["metadata"]["name"], "default", grace_seconds=0)
            for job in self.client.list(JOBS, "default").items:
                job_name = job["metadata"]["name"]
                self.client.delete(JOBS, job_name, "default", propagation="Background")
            self.client.delete(NODES, name)
