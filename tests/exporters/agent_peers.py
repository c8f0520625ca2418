"""A host for the real agent: a simulated machine's files, the fake driver, a kubelet's socket, and the agent as a process."""

import json
import os
import signal
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from chassis.contracts import ConditionType
from chassis.kube_client import NODES, KubeClient, KubeSettings, PatchKind
from chassis.telemetry import get_logger
from sandbox import programs
from sandbox.fake_driver import FakeDriver
from sandbox.simulated_nodes import MODELS, Machine, NodeSpec
from tests.exporters.kubelet_peer import Kubelet
from tests.journeys.service import ROOT

NODE_NAME = "gpu-1"
GPU_TYPES = {
    ConditionType.GPU_IS_LOST,
    ConditionType.GPU_PENDING_PAGE,
    ConditionType.PCIE_LINK_DEGRADED,
    ConditionType.GPU_XID_ERROR,
    ConditionType.GPU_RUNTIME_ERROR,
}
HOST_TYPES = {ConditionType.D_STATE_PROCESS, ConditionType.NFS_MOUNT_STUCK}


class Host:
    """One machine. `driver` sets the scenario of the fake driver for the next calls of its children."""

    def __init__(self, folder: Path, driver: FakeDriver, *, gpus: int = 2) -> None:
        self.folder = folder
        self._fake = driver
        self._scenario = folder / "scenario"
        model = next(iter(MODELS.values()))
        spec = NodeSpec(NODE_NAME, model if gpus else None, gpus)
        self.machine = Machine(spec, folder / "root", lambda: datetime.now(UTC))
        self.root = self.machine.root
        (self.root / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)
        self._gpus = gpus
        self._tell_boot_time()
        self.set_driver()
        self.kubelet = Kubelet(folder / "kubelet.sock")
        self.kubelet.__enter__()

    def set_driver(self, **scenario: object) -> None:
        """A scenario's keys; `@` in a key is written as `_at_`."""
        buses = {
            f"bus_id@{gpu.index}": f"00000000:{gpu.pci_bus_id[5:]}" for gpu in self.machine.gpus
        }
        told = {key.replace("_at_", "@"): value for key, value in scenario.items()}
        whole = {"gpus": self._gpus, **buses, **told}
        unfinished = self._scenario.with_suffix(".new")
        self._environment = self._fake.environment(whole, unfinished)
        self._environment["NODEMEND_FAKE_DRIVER"] = str(self._scenario)
        unfinished.replace(self._scenario)

    @property
    def environment(self) -> Mapping[str, str]:
        if not self._gpus:
            return {}
        return self._environment

    def reboot(self) -> None:
        self.machine.switch_off()
        self.machine.boot()
        self._tell_boot_time()

    def say(self, text: str) -> None:
        """A line of the kernel."""
        self.machine._tree.log(text, 4)

    def close(self) -> None:
        self.kubelet.__exit__()

    def _tell_boot_time(self) -> None:
        seconds = int(datetime.now(UTC).timestamp())
        (self.root / "proc/stat").write_text(f"cpu  0 0 0 0\nbtime {seconds}\n")


@contextmanager
def a_host(folder: Path, driver: FakeDriver, *, gpus: int = 2) -> Iterator[Host]:
    host = Host(folder, driver, gpus=gpus)
    try:
        yield host
    finally:
        host.close()


class Agent:
    """`exporters node-agent` as a child process; may be killed and started again."""

    def __init__(self, host: Host, kubeconfig: Path, /, **settings: Any) -> None:
        self.host = host
        self.port = programs.free_port()
        self.config = host.folder / "node-agent.yaml"
        self.settings: dict[str, Any] = {
            "serving": {"listen": f"127.0.0.1:{self.port}", "drain": "1s"},
            "kubernetes": {"kubeconfig": str(kubeconfig), "timeout": "5s"},
            "state_file": str(host.folder / "state/agent.json"),
            "heartbeat": "2s",
            "host": {"root": str(host.root), "mounts_below": str(host.root)},
            "intervals": {"driver": "1s", "kernel_log": "1s", "processes": "1s", "mounts": "1s"},
            "gpus": {"driver_deadline": "5s"},
            "probe": {
                "period": "2s",
                "deadline": "5s",
                "memory_mib": 1,
                "confirm_after": "1s",
                "retry_request": "1s",
                "measure_link": False,
                "pod_resources_socket": str(host.kubelet.socket),
            },
        }
        self.write(**settings)
        self.program: programs.Program | None = None

    def write(self, **changes: Any) -> None:
        """Change sections of the configuration."""
        for key, value in changes.items():
            old = self.settings.get(key)
            merged = isinstance(value, Mapping) and isinstance(old, dict)
            self.settings[key] = {**old, **value} if merged and old else value
        self.config.write_text(yaml.safe_dump(self.settings))

    def start(self) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_")}
        environment = {
            **inherited,
            **self.host.environment,
            "NODE_NAME": NODE_NAME,
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "exporters", "node-agent", "-c", str(self.config)]
        self.program = programs.start("node-agent", command, self.host.folder, environment)

    @property
    def pid(self) -> int:
        assert self.program is not None
        return self.program.process.pid

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        if self.program is not None:
            self.program.process.kill()
            self.program.process.wait()

    def terminate(self) -> int:
        assert self.program is not None
        return self.program.stop()

    def hang_up(self) -> None:
        os.kill(self.pid, signal.SIGHUP)

    def scrape(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def value(self, name: str, **labels: str) -> float | None:
        """The sum of the samples of this name with these labels; None without any, or before it serves."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        try:
            lines = self.scrape().splitlines()
        except OSError:
            return None
        found = [
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith(f"nodemend_{name}{{") and all(each in line for each in wanted)
        ]
        return sum(found) if found else None

    def log(self) -> list[dict[str, Any]]:
        text = (self.host.folder / "node-agent.log").read_text("utf-8", "replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.log() if line["event"] == event]


@contextmanager
def an_agent(host: Host, kubeconfig: Path, /, **settings: Any) -> Iterator[Agent]:
    """A running agent, killed at the end if it still runs."""
    agent = Agent(host, kubeconfig, **settings)
    agent.start()
    try:
        yield agent
    finally:
        agent.kill()


class OwnNode:
    """The agent's Node in the API."""

    def __init__(self, kubeconfig: Path) -> None:
        self.client = KubeClient(KubeSettings(kubeconfig=kubeconfig), get_logger("test"))

    def create(self, *conditions: Mapping[str, str], **annotations: str) -> None:
        metadata = {"name": NODE_NAME, "annotations": {f"nodemend.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}}  # fmt: skip
        self.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        self.set(*conditions)

    def set(self, *conditions: Mapping[str, str]) -> None:
        body = {"status": {"conditions": list(conditions)}}
        self.client.patch(NODES, NODE_NAME, body, subresource="status")

    def annotate(self, **annotations: str | None) -> None:
        told = {
            f"nodemend.dev/{key.replace('_', '-')}": value for key, value in annotations.items()
        }
        self.client.patch(
            NODES, NODE_NAME, {"metadata": {"annotations": told}}, kind=PatchKind.MERGE
        )

    def annotation(self, key: str) -> str | None:
        found = self.client.get(NODES, NODE_NAME)["metadata"].get("annotations") or {}
        return found.get(f"nodemend.dev/{key.replace('_', '-')}")

    def conditions(self) -> dict[str, dict[str, str]]:
        status = self.client.get(NODES, NODE_NAME).get("status") or {}
        return {each["type"]: each for each in status.get("conditions") or ()}

    def told(self, kind: str) -> tuple[str, str] | None:
        """Status and reason of a condition."""
        found = self.conditions().get(kind)
        return None if found is None else (found["status"], found["reason"])

    def remove(self) -> None:
        self.client.delete(NODES, NODE_NAME)

    def close(self) -> None:
        self.client.close()
