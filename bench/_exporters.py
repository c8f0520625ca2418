"""What the benchmarks of exporters share: thousands of nodes in a real API, a steady stream of changes, scrapes."""

import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chassis.kube_client import NODES, KubeClient, KubeSettings, PatchKind
from chassis.telemetry import get_logger
from sandbox import programs

CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
WRITERS = 4
_IMAGES = 20  # a kubelet lists up to 50
_BUFFER = 1 << 20


def condition_types(count: int) -> tuple[str, ...]:
    """The kubelet's conditions and as many others as it takes."""
    return (*CONDITIONS, *(f"GPUCondition{n:02d}" for n in range(count - len(CONDITIONS))))


def node_name(number: int) -> str:
    return f"gpu-node-{number:05d}.example.org"


def a_node(number: int, types: tuple[str, ...]) -> dict[str, Any]:
    """A GPU node as large as a real one."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    images = [
        {
            "names": [f"registry.example.org/team/application-{n}@sha256:{n:064x}"],
            "sizeBytes": 123456789 + n,
        }
        for n in range(_IMAGES)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node_name(number),
            "labels": {
                "kubernetes.io/hostname": node_name(number),
                "topology.kubernetes.io/zone": f"zone-{number % 3}",
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                "nvidia.com/cuda.driver-version.full": "580.65.06",
            },
        },
        "status": {
            "allocatable": {"cpu": "128", "memory": "2Ti", "nvidia.com/gpu": "8"},
            "capacity": {"cpu": "128", "memory": "2Ti", "nvidia.com/gpu": "8"},
            "nodeInfo": {"kernelVersion": "6.8.0-85-generic"},
            "images": images,
            "conditions": [a_condition(kind, "False", now) for kind in types],
        },
    }


def a_condition(kind: str, status: str, now: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": "Healthy",
        "message": "nothing was found in the last check",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


class Cluster:
    """The nodes of an API server."""

    def __init__(self, kubeconfig: Path, conditions: int) -> None:
        settings = KubeSettings(kubeconfig=kubeconfig, qps=0)
        self.client = KubeClient(settings, get_logger("bench"))
        self.types = condition_types(conditions)
        self.size = 0

    def grow_to(self, size: int) -> None:
        """Create the nodes that are missing."""
        with ThreadPoolExecutor(WRITERS) as pool:
            for _ in pool.map(self._create, range(self.size, size)):
                pass
        self.size = size

    def _create(self, number: int) -> None:
        self.client.create(NODES, a_node(number, self.types))

    def write(self, number: int, status: str = "False") -> None:
        """Write one condition of a node, as an agent does."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"status": {"conditions": [a_condition(self.types[-1], status, now)]}}
        self.client.patch(
            NODES, node_name(number), body, kind=PatchKind.STRATEGIC, subresource="status"
        )

    @contextmanager
    def changing(self, rate: float) -> Iterator["Pace"]:
        """Write `rate` nodes a second, one after the other, while the block runs."""
        pace = Pace(rate)
        numbers = itertools.count()

        def work() -> None:
            while pace.wait_for_turn():
                self.write(next(numbers) % self.size)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(WRITERS)]
        for thread in threads:
            thread.start()
        try:
            yield pace
        finally:
            pace.stop()
            for thread in threads:
                thread.join()


class Pace:
    """Gives turns at an even rate to whoever asks; what could not keep up is seen in `given`."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._start = time.monotonic()
        self.given = 0

    def wait_for_turn(self) -> bool:
        """Wait for the next turn; False when there are no more."""
        with self._lock:
            self.given += 1
            due = self._start + self.given / self._rate
        return not self._stop.wait(max(0.0, due - time.monotonic()))

    def stop(self) -> None:
        self._stop.set()


@dataclass(frozen=True)
class Exporter:
    """A running exporter, ours or another."""

    port: int
    program: programs.Program

    def scrape(self, *, gzip: bool) -> tuple[float, bytes]:
        """Milliseconds from the request to the last byte, and the whole answer, its head included."""
        accept = "gzip" if gzip else "identity"
        request = (
            f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: {accept}\r\n"
            "Connection: close\r\n\r\n"
        )
        pieces = []
        start = time.perf_counter()
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request.encode())
            while piece := connection.recv(_BUFFER):
                pieces.append(piece)
        took = (time.perf_counter() - start) * 1000
        return took, b"".join(pieces)

    def cpu_seconds(self) -> float:
        """CPU time of its process so far."""
        stat = Path(f"/proc/{self.program.process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self, field: str) -> float:
        """VmRSS, what it has now, or VmHWM, the most it had."""
        lines = Path(f"/proc/{self.program.process.pid}/status").read_text().splitlines()
        found = next(line for line in lines if line.startswith(f"{field}:"))
        return int(found.split()[1]) / 1024
