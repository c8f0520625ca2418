"""How fast the GPU webhook answers: TLS, keep-alive, 7 kB reviews, one CPU; beside HAMi's webhook and bare Flask.

HAMi's is its own program (HAMI_BINARY, with HAMI_DEVICE_CONFIG as its --device-config-file), in the same run. The Flask
handler stands on the same server and reads its body only: what is left above it is ours. Load comes from the other CPU.
"""

import json
import os
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench._alerts2gh import load_average, on_cpu, percentile, say
from bench._certificates import write_pair
from bench._review_load import paced
from sandbox import programs
from sandbox.kubernetes_server import SandboxKubernetes

RUNS = 3
SATURATE_SECONDS = 5
RATE = 500
PACED_SECONDS = 5
MODELS = 100
BODY_BYTES = 7_000
HEAD = (
    "| webhook | answers/s | p50 at 500/s, ms | p99, ms | start to first answer, s | memory, MB |\n"
    "|---|---:|---:|---:|---:|---:|\n"
)


@dataclass(frozen=True)
class Webhook:
    """One that runs: where it answers, how large it is."""

    name: str
    port: int
    path: str
    program: programs.Program
    body: Path
    started: float
    """Seconds from its start to its first answer."""

    def memory(self) -> float:
        """Resident memory in MB."""
        status = Path(f"/proc/{self.program.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1000


Candidate = AbstractContextManager[Webhook]


@dataclass(frozen=True)
class Row:
    """Medians of the runs."""

    name: str
    rate: float
    p50: float
    p99: float
    started: float
    memory: float

    def __str__(self) -> str:
        return (
            f"| {self.name} | {self.rate:,.0f} | {self.p50:.2f} | {self.p99:.2f}"
            f" | {self.started:.1f} | {self.memory:,.0f} |"
        )


def run() -> str:
    """The table, and whether the targets were met."""
    if shutil.which("wrk") is None:
        return "needs `wrk` (Debian: apt-get install wrk)"
    notes = [f"load average before {load_average()}"]
    rows = []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        cluster = stack.enter_context(SandboxKubernetes(controllers=False, scheduler=False))
        cluster.kubeconfig(folder / "kubeconfig")
        write_pair(folder)
        for start in (_ours, _hami, _flask):
            found = start(folder)
            if isinstance(found, str):
                notes.append(found)
                continue
            with found as webhook, on_cpu(1):
                rows.append(_measured(webhook, folder))
    return HEAD + "\n".join(map(str, rows)) + f"\n\n{_judged(rows)}; {'; '.join(notes)}.\n"


def _judged(rows: list[Row]) -> str:
    ours = next(row for row in rows if row.name.startswith("gpu-admission"))
    parts = [
        f"p99 < 5 ms at {RATE}/s: {'met' if ours.p99 < 5 else 'missed'}",
        f">= 3,000/s: {'met' if ours.rate >= 3000 else 'missed'}",
    ]
    parts += [
        f"ours/{peer.name}: {ours.rate / peer.rate:.2f} of its rate, {ours.p99 / peer.p99:.2f} of its p99"
        for peer in rows
        if peer is not ours
    ]
    return "; ".join(parts)


def _measured(webhook: Webhook, folder: Path) -> Row:
    rates, halves, tails = [], [], []
    for number in range(RUNS):
        say(f"{webhook.name}: run {number + 1} of {RUNS}")
        rates.append(_saturated(webhook, folder))
        seconds = paced(webhook.port, webhook.path, webhook.body, RATE, PACED_SECONDS)
        halves.append(percentile(seconds, 50) * 1000)
        tails.append(percentile(seconds, 99) * 1000)
    return Row(
        webhook.name,
        statistics.median(rates),
        statistics.median(halves),
        statistics.median(tails),
        webhook.started,
        webhook.memory(),
    )


def _saturated(webhook: Webhook, folder: Path) -> float:
    script = folder / "post.lua"
    script.write_text(
        f'local file = io.open("{webhook.body}", "rb")\nwrk.method = "POST"\n'
        'wrk.body = file:read("*a")\nwrk.headers["Content-Type"] = "application/json"\n'
    )
    url = f"https://127.0.0.1:{webhook.port}{webhook.path}"
    command = ["wrk", "-t1", "-c16", f"-d{SATURATE_SECONDS}s", "-s", str(script), url]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in told or "Socket errors" in told:
        raise RuntimeError(f"{webhook.name} failed under load: {told}")
    line = next(line for line in told.splitlines() if line.startswith("Requests/sec"))
    return float(line.split()[-1])


# The candidates.


def _catalogue() -> dict[str, Any]:
    """A hundred models: every review looks at all of them for `any`."""
    return {
        "models": [
            {
                "id": f"gpu{number}",
                "variants": [
                    {
                        "vram_gb": 8 + number,
                        "node_label_values": [f"GPU-{number}"],
                        "cost_per_hour": 0.1 * number,
                        "max_per_node": 8,
                    }
                ],
            }
            for number in range(MODELS)
        ]
    }


def _review(key: str) -> bytes:
    """A review of a pod of about 7 kB, as the API server sends it."""
    limits = {"cpu": "8", "memory": "64Gi", key: "1"}
    containers: list[dict[str, Any]] = [
        {
            "name": f"container-{number}",
            "image": f"registry.example.org/team/train@sha256:{number:064x}",
            "command": ["python", "-m", "train"],
            "env": [{"name": f"SETTING_{n}", "value": f"value-{n:032x}"} for n in range(20)],
            "resources": {"limits": dict(limits), "requests": dict(limits)} if not number else {},
            "volumeMounts": [{"name": "data", "mountPath": f"/data/{n}"} for n in range(4)],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }
        for number in range(3)
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "default", "annotations": {}},
        "spec": {
            "containers": containers,
            "volumes": [{"name": "data", "emptyDir": {}}],
            "priority": 0,
            "schedulerName": "default-scheduler",
            "restartPolicy": "Never",
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
                for key in ("not-ready", "unreachable")
            ],
        },
        "status": {},
    }
    request = {
        "uid": "0f3c1d7a-0000-4000-8000-000000000001",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "train",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    body = json.dumps(review).encode()
    pod["metadata"]["annotations"] = {"note": "x" * max(0, BODY_BYTES - len(body) - 10)}  # type: ignore[index]
    return json.dumps(review).encode()


def _ours(folder: Path) -> Candidate:
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(_catalogue()))
    port, monitoring = programs.free_port(), programs.free_port()
    config = {
        "catalogue_file": "catalogue.yaml",
        "serving": {
            "listen": f"127.0.0.1:{port}",
            "tls": {"cert_file": "tls.crt", "key_file": "tls.key"},
        },
        "monitoring": {"listen": f"127.0.0.1:{monitoring}"},
        "kubernetes": {"kubeconfig": str(folder / "kubeconfig")},
        "log_level": "warning",
    }
    (folder / "gpu-admission.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "gpu_admission", "serve"]
    command += ["--config", str(folder / "gpu-admission.yaml")]
    name = f"gpu-admission, {MODELS} models"
    body = _review("preferred.jp/gpu-any-24gb")
    return _running(name, command, folder, (port, "/mutate-pods", body))


def _hami(folder: Path) -> Candidate | str:
    binary, devices = os.environ.get("HAMI_BINARY"), os.environ.get("HAMI_DEVICE_CONFIG")
    if not binary or not devices:
        return "HAMi's webhook not measured: set HAMI_BINARY and HAMI_DEVICE_CONFIG"
    port, metrics = programs.free_port(), programs.free_port()
    command = [
        binary,
        f"--http_bind=127.0.0.1:{port}",
        f"--metrics-bind-address=127.0.0.1:{metrics}",
        f"--cert_file={folder / 'tls.crt'}",
        f"--key_file={folder / 'tls.key'}",
        f"--device-config-file={devices}",
        "--scheduler-name=hami-scheduler",
    ]
    body = _review("nvidia.com/gpu")
    return _running("HAMi (Go)", command, folder, (port, "/webhook", body))


def _flask(folder: Path) -> Candidate:
    port = programs.free_port()
    command = [sys.executable, "-m", "bench._serving_child", "ours", str(port)]
    command += [str(folder / "tls.crt"), str(folder / "tls.key")]
    body = _review("preferred.jp/gpu-any-24gb")
    return _running("Flask, reads the body only", command, folder, (port, "/v1/review", body))


@contextmanager
def _running(
    name: str, command: list[str], folder: Path, where: tuple[int, str, bytes]
) -> Iterator[Webhook]:
    port, path, body = where
    file = folder / f"{port}.json"
    file.write_bytes(body)
    environment = {
        **os.environ,
        "KUBECONFIG": str(folder / "kubeconfig"),
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "GOMAXPROCS": "1",
    }
    began = time.monotonic()
    with on_cpu(0):
        program = programs.start(f"webhook-{port}", command, folder, environment)
    try:
        _first_answer(port, path, body, program)
        yield Webhook(name, port, path, program, file, time.monotonic() - began)
    finally:
        program.stop()


def _first_answer(port: int, path: str, body: bytes, program: programs.Program) -> None:
    context = ssl._create_unverified_context()  # noqa: SLF001 (the load is not about trust)
    url = f"https://127.0.0.1:{port}{path}"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        request = urllib.request.Request(
            url, data=body, headers={"Content-Type": "application/json"}
        )
        with suppress(OSError), urllib.request.urlopen(request, context=context, timeout=5) as got:
            got.read()
            return
        if program.process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"no answer at {url}; its log is in the benchmark's folder")
