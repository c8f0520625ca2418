"""The demo's Prometheus and Alertmanager: real programs, with the configuration an admin would write and short times.

Decides nothing about nodes or issues. `Alerts` is what the story needs of them, or of what stands in for them.
"""

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml

from chassis.errors import NodemendError, TemporaryError
from chassis.monitoring import Access, PrometheusClient, Sample
from sandbox import programs
from sandbox.demo.services import ALERT, NODE_CONDITIONS, Receivers

PROGRAMS = ("prometheus", "prometheus-alertmanager")
_READY_SECONDS = 60


class Alerts(Protocol):
    """Reads the exporter's metrics and sends alerts to the receivers."""

    @property
    def description(self) -> str:
        """What it is, for people."""

    @property
    def reads(self) -> str:
        """Who reads the metric."""

    def start(self) -> None:
        """Start what it needs and return at once."""

    def wait(self) -> None:
        """Wait until it has seen the metrics. Raises ProgramError: it does not."""

    def changes(self, node: str) -> int:
        """How often the metric has changed so far."""

    def alerted(self) -> set[str]:
        """The nodes for which the alert has fired so far."""

    def stop(self) -> None: ...


class Monitoring:
    """A Prometheus that scrapes one exporter, and an Alertmanager that sends to both receivers."""

    reads = "Prometheus"

    def __init__(self, folder: Path, exporter_port: int, receivers: Receivers) -> None:
        self._folder = folder
        self._prometheus_port = programs.free_port()
        self._alertmanager_port = programs.free_port()
        self._client = PrometheusClient(Access(self.prometheus_url))
        self._configs: dict[str, dict[str, Any]] = {
            "rules.yml": rules(),
            "prometheus.yml": prometheus_config(exporter_port, [self._alertmanager_port]),
            "alertmanager.yml": alertmanager_config(receivers),
        }
        self._started: list[programs.Program] = []

    @property
    def description(self) -> str:
        return (
            "Alerts come from a real Prometheus and Alertmanager, which sends each to both services:\n"
            f"   {self.prometheus_url}/\n"
            f"   {self.alertmanager_url}/"
        )

    @property
    def prometheus_url(self) -> str:
        return f"http://127.0.0.1:{self._prometheus_port}"

    @property
    def alertmanager_url(self) -> str:
        return f"http://127.0.0.1:{self._alertmanager_port}"

    def start(self) -> None:
        """Start both; `wait` tells when they are of use."""
        for name, content in self._configs.items():
            (self._folder / name).write_text(yaml.safe_dump(content))
        alertmanager = programs.start_alertmanager(
            self._folder / "alertmanager.yml", self._folder, self._alertmanager_port
        )
        self._started.append(alertmanager)
        prometheus = programs.start_prometheus(
            self._folder / "prometheus.yml", self._folder, self._prometheus_port
        )
        self._started.append(prometheus)

    def wait(self) -> None:
        """Wait for both, and for a scrape: an alert of the very first evaluation is sent a minute late.

        Raises:
            ProgramError: One ended, or nothing was scraped in time.
        """
        alertmanager, prometheus = self._started
        alertmanager.wait_until_ready(f"{self.alertmanager_url}/-/ready", _READY_SECONDS)
        prometheus.wait_until_ready(f"{self.prometheus_url}/-/ready", _READY_SECONDS)
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(TemporaryError):
                if self._client.query(f'up{{job="{NODE_CONDITIONS}"}} == 1'):
                    return
            time.sleep(0.1)
        raise programs.ProgramError(
            f"Prometheus did not scrape the exporter in {_READY_SECONDS} s:\n{prometheus.tail()}"
        )

    def changes(self, node: str) -> int:
        """How often the metric has changed within the last hour."""
        return int(sum(each.value for each in self.query(f"changes({_series(node)}[1h])")))

    def alerted(self) -> set[str]:
        """The nodes for which the alert has fired within the last hour."""
        fired = f'last_over_time(ALERTS{{alertname="{ALERT}",alertstate="firing"}}[1h])'
        return {each.labels.get("node", "") for each in self.query(fired)}

    def query(self, promql: str) -> tuple[Sample, ...]:
        """The instant vector that Prometheus gives now.

        Raises:
            ProgramError: It gives none.
        """
        try:
            return self._client.query(promql)
        except NodemendError as error:
            raise programs.ProgramError(f"Prometheus did not answer: {error}") from error

    def stop(self) -> None:
        for program in reversed(self._started):
            program.stop()


def rules() -> dict[str, Any]:
    """The alert as deploy/prometheus/exporters-rules.yaml has it, which an installed package does not carry."""
    true = f'nodemend_node_condition{{condition="{ALERT}", status="true"}} == 1'
    stale = f'min_over_time(nodemend_node_condition_stale{{condition="{ALERT}"}}[30m])'
    rule = {
        "alert": ALERT,
        "expr": f"max without (instance, pod, status) ({true})"
        f" unless min without (instance, pod) ({stale}) == 1",
        "labels": {"severity": "critical"},
        "annotations": {
            "summary": "CUDA does not work on {{ $labels.node }}",
            "description": "The GPU probe on {{ $labels.node }} could not allocate GPU memory.",
            "runbook_url": "https://runbooks.example/gpu-runtime-error",
        },
    }
    return {"groups": [{"name": "gpu", "rules": [rule]}]}


def prometheus_config(exporter_port: int, alertmanager_ports: Sequence[int]) -> dict[str, Any]:
    """A scrape and an evaluation every second, with the rules beside it in `rules.yml`."""
    alertmanagers = [f"127.0.0.1:{port}" for port in alertmanager_ports]
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": alertmanagers}]}]},
        "scrape_configs": [
            {
                "job_name": NODE_CONDITIONS,
                "honor_labels": True,
                "static_configs": [{"targets": [f"127.0.0.1:{exporter_port}"]}],
            }
        ],
    }


def alertmanager_config(receivers: Receivers) -> dict[str, Any]:
    """Everything goes to alerts2gh and to the remediator, one group for each alert and node."""
    authorization = {"authorization": {"credentials_file": str(receivers.token_file)}}
    issues = {
        "url": receivers.issues_webhook,
        "send_resolved": True,
        "http_config": authorization,
    }
    repairs = {"url": receivers.repairs_webhook, "send_resolved": False}
    return {
        "route": {
            "receiver": "alerts2gh",
            "group_by": ["alertname", "node"],
            "group_wait": "1s",
            "group_interval": "1s",
            "repeat_interval": "1h",
            "routes": [
                {
                    "receiver": "remediator",
                    "matchers": [f'alertname="{ALERT}"'],
                    "continue": True,
                    "group_wait": "0s",
                },
                {"receiver": "alerts2gh", "matchers": ['alertname=~".+"']},
            ],
        },
        "receivers": [
            {"name": "alerts2gh", "webhook_configs": [issues]},
            {"name": "remediator", "webhook_configs": [repairs]},
        ],
    }


def _series(node: str) -> str:
    return f'nodemend_node_condition{{node="{node}",condition="{ALERT}",status="true"}}'
