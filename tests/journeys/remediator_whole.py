"""Everything around a real Kubernetes, for the journeys of faults: Prometheus and two Alertmanagers, all services.

Their configurations are the shipped ones with other addresses and short times.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from chassis.monitoring import Access, PrometheusClient
from sandbox import programs
from sandbox.github_server import SandboxGitHub
from tests import kubernetes_api
from tests.journeys.remediator_world import (
    CONDITION,
    ROOT,
    Remediator,
    World,
    a_world,
    client_of,
    prepare,
)
from tests.journeys.service import FALLBACK, HOME, Service, a_service, issues, wait_until

NODES = ("n1", "n2", "n3", "n4")
KUBERNETES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
MONITORING = ("prometheus", "prometheus-alertmanager")
EXAMPLE = ROOT / "deploy/alertmanager/remediator.example.yml"
PLAYBOOK = ROOT / "deploy/remediator/playbooks/gpu-runtime-error.yaml"
RULES = [ROOT / f"deploy/prometheus/{name}-rules.yaml" for name in ("exporters", "remediator")]
SECONDS = 120.0


def why_not() -> str | None:
    """Which program is absent and how to get it; None when all are there."""
    for name in MONITORING:
        if programs.find(name) is None:
            return f"{name} is not installed. {programs.HOW_TO_GET[name]}"
    return kubernetes_api.missing(*KUBERNETES)


@dataclass(frozen=True)
class Ports:
    """Where all of them listen, chosen before any is configured."""

    exporter: int
    prometheus: int
    alertmanagers: tuple[int, int]

    @classmethod
    def free(cls) -> "Ports":
        first, second, third, fourth = (programs.free_port() for _ in range(4))
        return cls(first, second, (third, fourth))


@dataclass(frozen=True)
class Whole:
    """All that runs."""

    world: World
    github: SandboxGitHub
    service: Service
    replicas: Sequence[Remediator]
    prometheus: PrometheusClient

    def issue(self, title: str) -> Any:
        """The one issue whose title begins so; None before there is one."""
        found = [each for each in issues(self.github) if each.title.startswith(title)]
        assert len(found) < 2, [each.title for each in found]
        return found[0] if found else None

    def wait_for_issue(self, title: str, state: str) -> Any:
        def reached() -> bool:
            issue = self.issue(title)
            return issue is not None and issue.state == state

        wait_until(f"the issue {title} to be {state}", reached, SECONDS)
        return self.issue(title)

    def comments(self, title: str) -> str:
        """All that was written below an issue, oldest first."""
        issue = self.issue(title)
        found = self.github.state.comments.in_group(f"{issue.repository}/{issue.number}")
        return "\n".join(each.body for each in sorted(found, key=lambda each: each.id))

    def counted(self, name: str, **labels: str) -> list[float]:
        """The sum of a metric's samples with these labels, for each replica."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return [
            sum(
                float(line.rpartition(" ")[2])
                for line in replica.get("/metrics").splitlines()
                if line.startswith(f"{name}{{") and all(each in line for each in wanted)
            )
            for replica in self.replicas
        ]


@contextmanager
def whole(folder: Path) -> Iterator[Whole]:
    """Start everything and wait until an alert would find its way; stop it at the end."""
    with ExitStack() as stack:
        running = kubernetes_api.running_kubernetes_api
        api = stack.enter_context(running(folder / "api", controllers=True, scheduler=True))
        client = client_of(api.kubeconfig)
        stack.callback(client.close)
        prepare(client)
        world = stack.enter_context(a_world(api.kubeconfig, folder, NODES))
        github = stack.enter_context(SandboxGitHub(repositories=(HOME, FALLBACK)))
        service = stack.enter_context(a_service(folder, github))
        service.start(wait=False)
        ports = Ports.free()
        replicas = [
            _remediator(folder, api.kubeconfig, number, service, ports) for number in (0, 1)
        ]
        for replica in replicas:
            stack.callback(replica.kill)
            replica.start(wait=False)
        for program in _monitoring(folder, api.kubeconfig, service, replicas, ports):
            stack.enter_context(programs.running(program))
        prometheus = PrometheusClient(Access(f"http://127.0.0.1:{ports.prometheus}"))
        everything = Whole(world, github, service, replicas, prometheus)
        _wait(everything, ports)
        yield everything


def _wait(everything: Whole, ports: Ports) -> None:
    everything.service.wait_until_ready()
    for replica in everything.replicas:
        assert replica.program is not None
        replica.program.wait_until_ready(f"{replica.url}/readyz", SECONDS)
    for port in ports.alertmanagers:
        wait_until("an Alertmanager", lambda port=port: _answers(port), SECONDS)  # type: ignore[misc]  # a default binds the loop's port
    # An alert of the very first evaluation is sent a minute late.
    healthy = f'count(nodemend_node_condition{{condition="{CONDITION}",status="false"}} == 1) == 4'
    wait_until("Prometheus", lambda: _answers(ports.prometheus), SECONDS)
    wait_until("all scrapes", lambda: bool(everything.prometheus.query("sum(up) == 4")), SECONDS)
    wait_until("all nodes' verdicts", lambda: bool(everything.prometheus.query(healthy)), SECONDS)
    wait_until("a leader", lambda: any(each.leads for each in everything.replicas), SECONDS)


def _answers(port: int) -> bool:
    return programs.answers(f"http://127.0.0.1:{port}/-/ready")


def _remediator(
    folder: Path, kubeconfig: Path, number: int, service: Service, ports: Ports
) -> Remediator:
    token = {"bearer_token_file": str(service.folder / "webhook-token")}
    return Remediator(
        folder,
        kubeconfig,
        f"remediator-{number}",
        playbooks=[_playbook()],
        auth=token,
        alertmanagers=[{"url": f"http://127.0.0.1:{port}"} for port in ports.alertmanagers],
        prometheus={"url": f"http://127.0.0.1:{ports.prometheus}"},
        alerts2gh={"url": service.url, **token},
        budgets=[{"name": "gpu-nodes", "max_unavailable": 1}],
    )


def _playbook() -> dict[str, Any]:
    """The shipped one, for real, with short times and a query on top."""
    playbook: dict[str, Any]
    (playbook,) = yaml.safe_load(PLAYBOOK.read_text("utf-8"))["playbooks"]
    state = (
        f'nodemend_node_condition{{node="{{{{ node }}}}",condition="{CONDITION}",status="false"}}'
    )
    playbook["ladder"][0] |= {"timeout": "60s", "return_within": "60s"}
    playbook["proof"] |= {
        "soak": "1s",
        "deadline": "60s",
        "alerts": False,  # a fresh Alertmanager's word does not count yet
        "queries": [{"name": "metric-clear", "expr": state}],
    }
    return {**playbook, "dry_run": False, "gates": {"cooldown": "0s"}}


def _monitoring(
    folder: Path, kubeconfig: Path, service: Service, replicas: Sequence[Remediator], ports: Ports
) -> Iterator[programs.Program]:
    """The exporter, Prometheus, and two Alertmanagers that do not know each other: each tells everything."""
    yield _exporter(folder, kubeconfig, ports.exporter)
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(_prometheus_config(service, replicas, ports)))
    yield programs.start_prometheus(config, folder, ports.prometheus)
    for number, replica in enumerate(replicas):
        config = folder / f"alertmanager{number}.yml"
        config.write_text(yaml.safe_dump(_alertmanager_config(service, replica)))
        name = f"alertmanager{number}"
        yield programs.start_alertmanager(config, folder, ports.alertmanagers[number], name=name)


def _exporter(folder: Path, kubeconfig: Path, port: int) -> programs.Program:
    config = {
        "serving": {"listen": f"127.0.0.1:{port}"},
        "kubernetes": {"kubeconfig": str(kubeconfig)},
    }
    file = folder / "node-conditions.yaml"
    file.write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "exporters", "node-conditions", "--config", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return programs.start("node-conditions", command, folder, environment)


def _prometheus_config(
    service: Service, replicas: Sequence[Remediator], ports: Ports
) -> dict[str, Any]:
    jobs = {
        "node-conditions": [ports.exporter],
        "remediator": [replica.port for replica in replicas],
        "alerts2gh": [service.port],
    }
    alertmanagers = [f"127.0.0.1:{port}" for port in ports.alertmanagers]
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in RULES],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": alertmanagers}]}]},
        "scrape_configs": [
            {
                "job_name": name,
                "honor_labels": True,
                "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in targets]}],
            }
            for name, targets in jobs.items()
        ],
    }


def _alertmanager_config(service: Service, replica: Remediator) -> dict[str, Any]:
    """The shipped example, with the addresses of here and short times."""
    config: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    config["route"] |= {"group_wait": "1s", "group_interval": "2s"}
    credentials = {"credentials_file": str(service.folder / "webhook-token")}
    by_name = {each["name"]: each["webhook_configs"] for each in config["receivers"]}
    for name, url in (("alerts2gh", service.url), ("remediator", replica.url)):
        (hook,) = by_name[name]
        hook["url"] = f"{url}/v1/webhook"
        hook["http_config"]["authorization"] = credentials
    return config
