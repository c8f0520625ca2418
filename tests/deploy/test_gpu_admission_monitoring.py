"""The real gpu_admission, scraped by a real Prometheus with the shipped rules: each panel of the dashboard shows something."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis.kube_client import NAMESPACES, NODES, PODS
from sandbox import programs
from sandbox.kubernetes_server import SandboxKubernetes
from tests.deploy.exporters_cluster import ROOT
from tests.deploy.test_remediator_monitoring import Prometheus, rules_with_errors, shows_something
from tests.gpu_admission.served import CATALOGUE, Served, a_review, a_webhook, asking
from tests.journeys.remediator_world import client_of
from tests.journeys.service import wait_until

DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "gpu-admission.json").read_text("utf-8"))
RULES = ROOT / "deploy" / "prometheus" / "gpu-admission-rules.yaml"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with SandboxKubernetes(controllers=False, scheduler=False) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        with a_webhook(tmp_path / "served", kubeconfig) as one:
            prepare(server.kubeconfig(tmp_path / "admin"))
            one.catalogue({**CATALOGUE, "cpu_policy": {"capacity": [{"cpus": 2}]}})
            one.start()
            yield one


def prepare(kubeconfig: Path) -> None:
    """Two nodes, and the namespace of the Lease."""
    client = client_of(kubeconfig)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nodemend"}}
    client.create(NAMESPACES, space)
    for name in ("n1", "n2"):
        amounts = {"cpu": "8", "pods": "110"}
        status = {"capacity": amounts, "allocatable": dict(amounts)}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
        client.create(NODES, body)
    for number, node in enumerate(("n1", "")):
        pod = asking("any-40gb", "2")
        pod["metadata"]["name"] = f"train-{number}"
        client.create(
            PODS, {**pod, "spec": {**pod["spec"], **({"nodeName": node} if node else {})}}
        )
    client.close()


@pytest.fixture
def prometheus(served: Served, tmp_path: Path) -> Iterator[Prometheus]:
    if programs.find("prometheus") is None:
        pytest.skip(f"prometheus is not installed. {programs.HOW_TO_GET['prometheus']}")
    targets = [{"targets": [f"127.0.0.1:{served.monitoring_port}"]}]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "gpu-admission", "static_configs": targets}],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = programs.free_port()
    program = programs.start_prometheus(tmp_path / "prometheus.yml", tmp_path, port)
    with programs.running(program):
        program.wait_until_ready(f"http://127.0.0.1:{port}/-/ready", 60)
        yield Prometheus(port)


def a_day(served: Served) -> None:
    """Good and bad specs, of both classes, and something that is no review."""
    for key, priority in (("any-40gb", 0), ("t4", 1000), ("a100", 0), ("a1000", 0)):
        pod: dict[str, Any] = copy.deepcopy(asking(key))
        pod["spec"]["priority"] = priority
        served.review("/mutate-pods", a_review(pod))
    served.review("/validate-pods", a_review(asking("t4")))
    assert served.send("/mutate-pods", b"{")[0] == 400


def test_panels_show_and_rules_tell_what_happens(served: Served, prometheus: Prometheus) -> None:
    a_day(served)
    wait_until("a scrape", lambda: bool(prometheus.found("gpu_admission_asks_total")), 60)
    a_day(served)  # increase() sees what comes after the first scrape

    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            shows_something(prometheus, panel["title"], target["expr"])
    wait_until(
        "two nodes",
        lambda: value(prometheus, 'sum(gpu_admission_capacity_nodes{state="right"})') == 2,
        60,
    )
    assert value(prometheus, "sum(min without (part) (gpu_admission_ready))") == 1
    asked = (
        'sum(gpu_admission_asked_gpus_total{name="any",minimum_vram_gb="40",outcome="admitted"})'
    )
    wait_until("both days' pods", lambda: value(prometheus, asked) == 2, 30)
    wanted = 'gpu_admission_demand_gpus{name="any", minimum_vram_gb="40", class="low", state="%s"}'
    assert value(prometheus, wanted % "running") == 2
    assert value(prometheus, wanted % "pending") == 2
    expected = {"GPUAdmissionFailing", "GPUAdmissionPodsSlipThrough"}
    wait_until("the alerts", lambda: set(prometheus.firing()) == expected, 60)
    assert rules_with_errors(prometheus) == []


def value(prometheus: Prometheus, expression: str) -> float | None:
    found = prometheus.found(expression)
    return float(found[0]["value"][1]) if found else None
