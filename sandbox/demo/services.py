"""Nodemend's own services in the demo, as child processes: the configurations an admin would write, with short times.

Decides nothing about nodes or issues.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from chassis.kube_client import KubeClient
from sandbox import programs
from sandbox.demo import admission
from sandbox.demo.story import ASSIGNEE, REPOSITORY
from sandbox.github_server import SandboxGitHub

ALERT = "GPURuntimeError"
SPACE = "nodemend"
REMEDIATOR = "remediator"
NODE_CONDITIONS = "node-conditions"
GPU_ADMISSION = "gpu-admission"
_READY_SECONDS = 60
_TOKEN = "demo-webhook-token"  # noqa: S105 -- opens only the demo


@dataclass(frozen=True, slots=True)
class Receivers:
    """Where alerts go. The remediator takes them from everybody on this machine, so that its pages open in a browser."""

    alerts2gh: str
    remediator: str
    token_file: Path
    """What alerts2gh asks for."""

    @property
    def issues_webhook(self) -> str:
        return f"{self.alerts2gh}/v1/webhook"

    @property
    def repairs_webhook(self) -> str:
        return f"{self.remediator}/v1/webhook"

    def operation_page(self, name: str) -> str:
        return f"{self.remediator}/operations/{name}"


class Services:
    """alerts2gh, remediator, gpu_admission and `exporters node-conditions`."""

    def __init__(self, folder: Path) -> None:
        """Nothing runs before it is asked for. `folder` is the demo's own."""
        self._folder = folder
        names = ("alerts2gh", REMEDIATOR, NODE_CONDITIONS, GPU_ADMISSION)
        self._ports = {name: programs.free_port() for name in names}
        self._admission_port = programs.free_port()
        self._started: list[programs.Program] = []
        token_file = folder / "webhook-token"
        token_file.write_text(_TOKEN)
        self.receivers = Receivers(self.url("alerts2gh"), self.url(REMEDIATOR), token_file)

    def port(self, service: str) -> int:
        return self._ports[service]

    def url(self, service: str) -> str:
        return f"http://127.0.0.1:{self.port(service)}"

    @property
    def metrics_url(self) -> str:
        """Where the Node Conditions are metrics."""
        return f"{self.url(NODE_CONDITIONS)}/metrics"

    def start_alerts2gh(self, github: SandboxGitHub) -> None:
        (self._folder / "github-token").write_text(github.token)
        file = self._configure("alerts2gh", _alerts2gh(github, self._folder))
        self._started.append(programs.start_alerts2gh(file, self._folder))

    def start_exporter(self, kubeconfig: Path, node_selector: str | None) -> None:
        config: dict[str, Any] = {"kubernetes": {"kubeconfig": str(kubeconfig)}}
        if node_selector:
            config["node_selector"] = node_selector
        file = self._configure(NODE_CONDITIONS, config)
        self._started.append(programs.start_exporter(NODE_CONDITIONS, file, self._folder))

    def start_remediator(self, kubeconfig: Path) -> None:
        file = self._configure(REMEDIATOR, _remediator(kubeconfig, self.receivers))
        self._started.append(programs.start_remediator(file, self._folder))

    def start_gpu_admission(self, kubeconfig: Path) -> None:
        """Start it; nobody calls it before it is registered."""
        config = admission.configuration(
            self._folder,
            kubeconfig,
            port=self._admission_port,
            monitoring_port=self.port(GPU_ADMISSION),
        )
        file = self._write(GPU_ADMISSION, config)
        self._started.append(programs.start_gpu_admission(file, self._folder))

    def register_gpu_admission(self, client: KubeClient) -> None:
        """Have the API server ask it about pods that ask for GPUs."""
        admission.register(client, self._folder, self._admission_port)

    @property
    def catalogue(self) -> Path:
        """What gpu_admission knows of the GPUs; it takes a change while it runs."""
        return self._folder / admission.CATALOGUE

    def wait(self, service: str) -> None:
        """Wait until it is ready.

        Raises:
            ProgramError: It ended, or is not in time.
        """
        program = next(each for each in self._started if each.name == service)
        program.wait_until_ready(f"{self.url(service)}/readyz", _READY_SECONDS)

    def stop(self) -> None:
        for program in reversed(self._started):
            program.stop()

    def _configure(self, service: str, config: dict[str, Any]) -> Path:
        listen = {"serving": {"listen": f"127.0.0.1:{self.port(service)}", "drain": "2s"}}
        return self._write(service, {**config, **listen})

    def _write(self, service: str, config: dict[str, Any]) -> Path:
        path = self._folder / f"{service}.yaml"
        path.write_text(yaml.safe_dump(config))
        return path


def _alerts2gh(github: SandboxGitHub, folder: Path) -> dict[str, Any]:
    return {
        "auth": {"bearer_token_file": str(folder / "webhook-token")},
        "database": {"sqlite_file": str(folder / "alerts2gh.db")},
        "credentials": {"sandbox": {"base_url": github.url, "token_file": "github-token"}},
        "allowed_repositories": [REPOSITORY],
        "limits": {"writes_per_second": 20},
        "policy": {"close_after": "1s", "reorder_window": "1s"},
        "route": {
            "repository": REPOSITORY,
            "issue_labels": ["severity/{{ labels.severity }}"],
            "assignees": [{"static": {"logins": [ASSIGNEE]}}],
        },
    }


def _remediator(kubeconfig: Path, receivers: Receivers) -> dict[str, Any]:
    return {
        "kubernetes": {"kubeconfig": str(kubeconfig), "qps": 0},
        "leader": {
            "namespace": SPACE,
            "lease_duration": "5s",
            "renew_deadline": "3s",
            "retry_period": "1s",
        },
        "playbooks": [playbook()],
        "budgets": [{"name": "one-at-a-time", "max_unavailable": 1}],
        "jobs": {"namespace": SPACE, "image": "repair:demo", "priority_class": ""},
        "alerts2gh": {
            "url": receivers.alerts2gh,
            "bearer_token_file": str(receivers.token_file),
        },
    }


def playbook() -> dict[str, Any]:
    """deploy/remediator/playbooks/gpu-runtime-error.yaml with the demo's times, and for real."""
    reboot = {
        "name": "reboot",
        "repair": {"reboot": {}},
        "timeout": "30s",
        "return_within": "30s",
        "drain": {"deadline": "30s"},
    }
    inspect = {
        "hand_over": {
            "text": "CUDA still fails after a reboot. Run the vendor's field diagnostics on the GPUs"
        }
    }
    return {
        "name": "gpu-runtime-error",
        "description": "CUDA fails on a GPU",
        "match": [f'alertname="{ALERT}"'],
        "dry_run": False,
        "ladder": [reboot, {"name": "inspect", "repair": inspect}],
        "proof": {
            "conditions": [ALERT, "GPUIsLost"],
            "alerts": False,  # an Alertmanager's word counts once it has run for a while
            "probe": True,
            "soak": "1s",
            "deadline": "30s",
        },
    }
