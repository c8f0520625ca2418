"""What the benchmarks of the remediator share: a cluster of GPU nodes, the real service, when nodes are seen tainted."""

import json
import os
import random
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from bench._alerts2gh import on_cpu
from bench._kubernetes_child import RACKS, template
from chassis.errors import NodemendError
from chassis.kube_client import NODES, KubeClient, PatchKind
from sandbox import programs
from tests import kubernetes_api
from tests.journeys.remediator_world import PLAYBOOK, Remediator, client_of, prepare

ALERT = "GPURuntimeError"
OUR_TAINT = "nodemend.dev/operation"
_ROOT = Path(__file__).parents[1]
_WRITERS = 4
_HEARTBEAT_SECONDS = 300.0


def node_name(number: int) -> str:
    """As the embedded Kubernetes names them."""
    return f"node-{number:05d}"


@contextmanager
def embedded(folder: Path, nodes: int) -> Iterator[KubeClient]:
    """The embedded API in a process of its own, on the second CPU."""
    port, kubeconfig = programs.free_port(), folder / "kubeconfig"
    module = [sys.executable, "-m", "bench._kubernetes_child"]
    command = [*module, str(port), str(kubeconfig), str(nodes)]
    with on_cpu(1):
        api = programs.start("kubernetes", command, folder, _environment())
    with programs.running(api):
        api.wait_until_ready(f"http://127.0.0.1:{port}/readyz", 120)
        _wait("the kubeconfig", kubeconfig.exists)
        client = client_of(kubeconfig)
        prepare(client, embedded=True)
        yield client
        client.close()


@contextmanager
def real(folder: Path, nodes: int, **options: Any) -> Iterator[tuple[KubeClient, Path]]:
    """The real API server, on the second CPU, with the same nodes."""
    with on_cpu(1):
        servers = kubernetes_api.running_kubernetes_api(folder / "api", **options)
        api = servers.__enter__()
    try:
        client = client_of(api.kubeconfig)
        prepare(client)
        grow(client, nodes)
        yield client, api.kubeconfig
        client.close()
    finally:
        servers.__exit__(None, None, None)


def grow(client: KubeClient, nodes: int) -> None:
    """Create the nodes."""
    templates = [template(rack) for rack in range(RACKS)]

    def create(number: int) -> None:
        body = json.loads(json.dumps(templates[number % RACKS]))
        body["metadata"]["name"] = node_name(number)
        client.create(NODES, {"apiVersion": "v1", "kind": "Node", **body})

    with ThreadPoolExecutor(_WRITERS) as pool:
        for _ in pool.map(create, range(nodes)):
            pass


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_ROOT)}


def _wait(what: str, holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise programs.ProgramError(f"waited {seconds} s for {what}")
        time.sleep(0.01)


@contextmanager
def remediator(
    folder: Path, kubeconfig: Path, name: str = "remediator-0", **changes: Any
) -> Iterator[Remediator]:
    """The real service on the first CPU, leading; no limit holds anything, two budgets are counted."""
    one = Remediator(folder, kubeconfig, name, **(settings(kubeconfig) | changes))
    with on_cpu(0):
        one.start()
    try:
        yield one
    finally:
        one.kill()


def settings(kubeconfig: Path) -> dict[str, Any]:
    """The parts of the configuration that differ from the journeys'."""
    rung = {**PLAYBOOK["ladder"][0], "timeout": "30m", "return_within": "30m"}
    playbook = {key: value for key, value in PLAYBOOK.items() if key != "conditions"}
    return {
        "kubernetes": {"kubeconfig": str(kubeconfig), "qps": 0},
        "leader": {},
        "playbooks": [playbook | {"ladder": [rung]}],
        "rate_limit": {"isolations": 100_000, "per": "1h"},
        "max_active": 100_000,
        "budgets": [
            {"name": "fleet", "max_unavailable": "50%"},
            {"name": "rack", "topology_key": "rack", "max_unavailable": 1000},
        ],
    }


def wait_until_leading(one: Remediator, seconds: float = 120) -> None:
    """Wait until it says so."""
    _wait("a leader", lambda: one.leads, seconds)


def webhook(nodes: Iterable[int]) -> dict[str, Any]:
    """One group with an alert for each node."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    alerts = [
        {
            "status": "firing",
            "labels": {"alertname": ALERT, "node": node_name(number), "severity": "critical"},
            "annotations": {"summary": f"CUDA fails on {node_name(number)}"},
            "startsAt": now,
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "",
        }
        for number in nodes
    ]
    return {
        "version": "4",
        "groupKey": f"{ALERT}",
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "remediator",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "",
        "alerts": alerts,
    }


def post(one: Remediator, nodes: Iterable[int]) -> None:
    """Send a webhook; it must be taken."""
    request = urllib.request.Request(
        f"{one.url}/v1/webhook",
        data=json.dumps(webhook(nodes)).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        if answer.status != 200:
            raise programs.ProgramError(f"a webhook got {answer.status}")


class Tainted:
    """When nodes were first seen with a taint, by a watch of its own: seconds of `perf_counter`."""

    def __init__(self, client: KubeClient, key: str = OUR_TAINT) -> None:
        self.seen: dict[str, float] = {}
        self._key = key
        self._client = client
        self._stopping = False
        version = next(client.pages(NODES, limit=1)).resource_version
        self._thread = threading.Thread(target=self._run, args=(version,), daemon=True)
        self._thread.start()

    def _run(self, version: str) -> None:
        params: dict[str, str | int | bool | None] = {
            "resourceVersion": version,
            "timeoutSeconds": 1800,
        }
        try:
            with self._client.watch_lines(
                NODES, params=params, read_timeout=timedelta(minutes=30)
            ) as lines:
                for line in lines:
                    self._take(line)
        except NodemendError:
            if not self._stopping:
                raise

    def _take(self, line: bytes) -> None:
        if self._key.encode() not in line:
            return
        now, node = time.perf_counter(), orjson.loads(line)["object"]
        if any(taint["key"] == self._key for taint in node["spec"].get("taints") or ()):
            self.seen.setdefault(node["metadata"]["name"], now)

    def wait(self, nodes: Iterable[int], seconds: float) -> list[float]:
        """When each of them was; waits until all are."""
        names = [node_name(number) for number in nodes]
        _wait(
            f"{len(names)} tainted nodes", lambda: all(name in self.seen for name in names), seconds
        )
        return [self.seen[name] for name in names]

    def stop(self) -> None:
        """The API is about to end."""
        self._stopping = True


@contextmanager
def heartbeats(client: KubeClient, nodes: int) -> Iterator[None]:
    """Each node writes its status every five minutes, as kubelets do."""
    stop, chance = threading.Event(), random.Random(1)

    def work() -> None:
        while not stop.wait(_HEARTBEAT_SECONDS / nodes):
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
            client.patch(
                NODES,
                node_name(chance.randrange(nodes)),
                {"status": {"conditions": [ready]}},
                kind=PatchKind.STRATEGIC,
                subresource="status",
            )

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def memory_mb(one: Remediator, field: str = "VmHWM") -> float:
    """The most it had (VmHWM), or what it has (VmRSS)."""
    lines = _status(one, "status").splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) / 1024


def cpu_seconds(one: Remediator) -> float:
    """CPU time of its process so far."""
    fields = _status(one, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status(one: Remediator, name: str) -> str:
    if one.program is None:
        raise programs.ProgramError("it was not started")
    return Path(f"/proc/{one.program.process.pid}/{name}").read_text()
