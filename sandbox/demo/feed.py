"""Where the demo's alerts come from: a real Prometheus and Alertmanager watching a metric, or recorded webhooks."""

import http.server
import json
import threading
import time
import urllib.request
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import yaml

from sandbox import programs

NODE = "gpu-n1"
_READY_SECONDS = 60


class Feed(Protocol):
    """Makes the alert fire and resolve. Each method returns when the cause has changed, not when news has arrived."""

    description: str

    def start(self) -> None: ...

    def break_gpu(self) -> None: ...

    def heal_gpu(self) -> None: ...

    def stop(self) -> None: ...


class RecordedFeed:
    """Posts webhooks that a real Alertmanager once sent; each later firing starts a minute after the one before."""

    description = "recorded webhooks (Prometheus and Alertmanager are not installed)"

    def __init__(self, webhook_url: str, token: str) -> None:
        self._url = webhook_url
        self._token = token
        self._times = 0

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""

    def break_gpu(self) -> None:
        self._times += 1
        self._post("firing.json")

    def heal_gpu(self) -> None:
        self._post("resolved.json")

    def _post(self, name: str) -> None:
        body = resources.files("sandbox").joinpath("recorded", name).read_text(encoding="utf-8")
        webhook = json.loads(body)
        for alert in webhook["alerts"]:
            for key in ("startsAt", "endsAt"):
                alert[key] = _later(alert[key], minutes=self._times - 1)
        request = urllib.request.Request(  # noqa: S310 -- loopback
            self._url,
            data=json.dumps(webhook).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"},
        )
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310
            pass


def _later(instant: str, minutes: int) -> str:
    if instant.startswith("0001"):
        return instant
    hours, rest = instant[11:13], instant[14:16]
    total = int(hours) * 60 + int(rest) + minutes
    return f"{instant[:11]}{total // 60:02d}:{total % 60:02d}{instant[16:]}"


class RealFeed:
    """A metric of a pretended exporter, scraped by a real Prometheus, alerted on by a real Alertmanager."""

    description = "a real Prometheus and Alertmanager"

    def __init__(self, webhook_url: str, token_file: Path, folder: Path) -> None:
        self._metric = _Metric()
        self._folder = folder
        self._prometheus_port = programs.free_port()
        self._alertmanager_port = programs.free_port()
        self._webhook_url = webhook_url
        self._token_file = token_file
        self._started: list[programs.Program] = []

    @property
    def alertmanager_url(self) -> str:
        return f"http://127.0.0.1:{self._alertmanager_port}"

    def start(self) -> None:
        self._metric.start()
        configs = self._write_configs()
        alertmanager = programs.start_alertmanager(
            configs / "alertmanager.yml", self._folder, self._alertmanager_port
        )
        self._started.append(alertmanager)
        prometheus = programs.start_prometheus(
            configs / "prometheus.yml", self._folder, self._prometheus_port
        )
        self._started.append(prometheus)
        alertmanager.wait_until_ready(f"{self.alertmanager_url}/-/ready")
        prometheus.wait_until_ready(f"http://127.0.0.1:{self._prometheus_port}/-/ready")
        self._wait_for_first_scrape()

    def _write_configs(self) -> Path:
        (self._folder / "rules.yml").write_text(yaml.safe_dump(_rules()))
        prometheus = _prometheus_config(self._metric.port, self._alertmanager_port)
        (self._folder / "prometheus.yml").write_text(yaml.safe_dump(prometheus))
        alertmanager = _alertmanager_config(self._webhook_url, self._token_file)
        (self._folder / "alertmanager.yml").write_text(yaml.safe_dump(alertmanager))
        return self._folder

    def _wait_for_first_scrape(self) -> None:
        """An alert of the very first evaluation is sent only after the resend delay, a minute later."""
        url = f"http://127.0.0.1:{self._prometheus_port}/api/v1/query?query=nodemend_node_condition"
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if json.load(answer)["data"]["result"]:
                    return
            time.sleep(0.2)
        raise programs.ProgramError("Prometheus did not scrape the demo's metric in a minute")

    def break_gpu(self) -> None:
        self._metric.problem = True

    def heal_gpu(self) -> None:
        self._metric.problem = False

    def stop(self) -> None:
        for program in reversed(self._started):
            program.stop()
        self._metric.stop()


class _Metric:
    """An exporter with one Node Condition."""

    def __init__(self) -> None:
        self.problem = False
        metric = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = metric.render()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Scrapes are no news."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def render(self) -> bytes:
        states = {"true": self.problem, "false": not self.problem, "unknown": False}
        lines = [
            f'nodemend_node_condition{{node="{NODE}",condition="GPURuntimeError",status="{status}"}}'
            f" {int(held)}"
            for status, held in states.items()
        ]
        return ("\n".join(lines) + "\n").encode()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _rules() -> dict[str, Any]:
    rule = {
        "alert": "GPURuntimeError",
        "expr": 'nodemend_node_condition{condition="GPURuntimeError",status="true"} == 1',
        "labels": {"severity": "critical"},
        "annotations": {
            "summary": "CUDA does not work on {{ $labels.node }}",
            "description": "The GPU probe on {{ $labels.node }} could not allocate GPU memory.",
            "runbook_url": "https://runbooks.example/gpu-runtime-error",
        },
    }
    return {"groups": [{"name": "gpu", "rules": [rule]}]}


def _prometheus_config(metric_port: int, alertmanager_port: int) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager_port}"]}]}]
        },
        "scrape_configs": [
            {
                "job_name": "node-conditions",
                "static_configs": [{"targets": [f"127.0.0.1:{metric_port}"]}],
            }
        ],
    }


def _alertmanager_config(webhook_url: str, token_file: Path) -> dict[str, Any]:
    return {
        "route": {
            "receiver": "alerts2gh",
            "group_by": ["alertname", "node"],
            "group_wait": "1s",
            "group_interval": "1s",
            "repeat_interval": "1h",
        },
        "receivers": [
            {
                "name": "alerts2gh",
                "webhook_configs": [
                    {
                        "url": webhook_url,
                        "send_resolved": True,
                        "http_config": {
                            "authorization": {"credentials_file": str(token_file)},
                        },
                    }
                ],
            }
        ],
    }
