"""The real gpu-admission as a child process, and reviews for it."""

import copy
import http.client
import json
import os
import signal
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from sandbox import programs
from tests.chassis.certificates import an_authority

ROOT = Path(__file__).parents[2]
DEADLINE = 60.0
CATALOGUE: dict[str, Any] = {
    "prefix": "preferred.jp",
    "models": [
        {
            "id": "t4",
            "variants": [{"vram_gb": 16, "node_label_values": ["Tesla-T4"], "cost_per_hour": 0.5}],
        },
        {
            "id": "a100",
            "variants": [
                {"vram_gb": 40, "node_label_values": ["A100-40"], "cost_per_hour": 1.9},
                {"vram_gb": 80, "node_label_values": ["A100-80"], "cost_per_hour": 2.7},
            ],
            "tolerations": [{"key": "gpu", "operator": "Equal", "value": "true"}],
        },
    ],
}


class Served:
    """gpu-admission on ports of its own."""

    def __init__(self, folder: Path, kubeconfig: Path, **changes: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = programs.free_port()
        self.monitoring_port = programs.free_port()
        self.config_file = folder / "gpu-admission.yaml"
        self.catalogue_file = folder / "catalogue.yaml"
        self.program: programs.Program | None = None
        self.authority = an_authority(folder)
        self.authority.issue("tls")
        self.catalogue(CATALOGUE)
        config: dict[str, Any] = {
            "catalogue_file": "catalogue.yaml",
            "serving": {
                "listen": f"127.0.0.1:{self.port}",
                "tls": {"cert_file": "tls.crt", "key_file": "tls.key"},
                "drain": "5s",
            },
            "monitoring": {"listen": f"127.0.0.1:{self.monitoring_port}"},
            "kubernetes": {"kubeconfig": str(kubeconfig)},
            "leader": {"lease_duration": "3s", "renew_deadline": "2s", "retry_period": "500ms"},
        }
        config.update(changes)
        self.config_file.write_text(yaml.safe_dump(config))

    def catalogue(self, content: Mapping[str, Any] | str) -> None:
        """Write another catalogue, in one step as a ConfigMap changes."""
        text = content if isinstance(content, str) else yaml.safe_dump(dict(content))
        fresh = self.catalogue_file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.catalogue_file)

    def start(self, *, ready: bool = True) -> None:
        command = [sys.executable, "-m", "gpu_admission", "serve", "-c", str(self.config_file)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.program = programs.start("gpu-admission", command, self.folder, environment)
        if ready:
            self.program.wait_until_ready(f"{self.monitoring}/readyz", DEADLINE)

    @property
    def monitoring(self) -> str:
        return f"http://127.0.0.1:{self.monitoring_port}"

    def hang_up(self) -> None:
        if self.program is None:
            raise AssertionError("it was not started")
        self.program.process.send_signal(signal.SIGHUP)

    def terminate(self) -> int:
        """SIGTERM; the exit status."""
        if self.program is None:
            raise AssertionError("it was not started")
        return self.program.stop()

    def kill(self) -> None:
        if self.program is not None:
            self.program.process.kill()
            self.program.process.wait()

    def log(self) -> list[dict[str, Any]]:
        text = (self.folder / "gpu-admission.log").read_text(encoding="utf-8", errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def connection(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.authority.file))
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=30)

    def send(
        self, path: str, body: bytes, method: str = "POST", **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """One request on a connection of its own: status and JSON."""
        connection = self.connection()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def review(self, path: str, review: Mapping[str, Any]) -> dict[str, Any]:
        """The `response` of an AdmissionReview."""
        status, answer = self.send(path, json.dumps(review).encode())
        assert status == 200, answer
        response: dict[str, Any] = answer["response"]
        return response

    def get(self, path: str) -> tuple[int, str]:
        """From the monitoring port."""
        try:
            with urllib.request.urlopen(f"{self.monitoring}{path}", timeout=10) as answer:
                return answer.status, str(answer.read(), "utf-8")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, str(error.read(), "utf-8")

    def metric(self, line: str) -> float | None:
        """The value of the sample that begins with `line`."""
        for each in self.get("/metrics")[1].splitlines():
            if each.startswith(line):
                return float(each.rpartition(" ")[2])
        return None


@contextmanager
def a_webhook(folder: Path, kubeconfig: Path, **changes: Any) -> Iterator[Served]:
    """A webhook that is killed at the end, if it still runs."""
    served = Served(folder, kubeconfig, **changes)
    try:
        yield served
    finally:
        served.kill()


def a_pod(**limits: str) -> dict[str, Any]:
    """A pod as the API server sends it: limits are copied to requests, and it has a priority."""
    keys = {name.replace("__", "/").replace("_", "-"): value for name, value in limits.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {
            "priority": 0,
            "containers": [
                {
                    "name": "train",
                    "image": "train",
                    "resources": {"limits": dict(keys), "requests": dict(keys)},
                }
            ],
        },
    }


def asking(key: str, amount: str = "1") -> dict[str, Any]:
    """A pod with one GPU spec, such as `any-40gb`."""
    pod = a_pod()
    resources = pod["spec"]["containers"][0]["resources"]
    for part in ("limits", "requests"):
        resources[part][f"preferred.jp/gpu-{key}"] = amount
    return pod


def a_review(body: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """An AdmissionReview that asks about a new object."""
    kind = body.get("kind", "Pod")
    request: dict[str, Any] = {
        "uid": "0f3c1d7a-0000-4000-8000-000000000001",
        "kind": {"group": "", "version": "v1", "kind": kind},
        "resource": {"group": "", "version": "v1", "resource": f"{str(kind).lower()}s"},
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "alice"},
        "object": copy.deepcopy(dict(body)),
        "oldObject": None,
        "dryRun": False,
    }
    request.update(changes)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
