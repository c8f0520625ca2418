"""The real remediator, scraped by a real Prometheus with the shipped rules: each panel of the dashboard shows something."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox import programs
from sandbox.kubernetes_server import SandboxKubernetes
from sandbox.simulated_nodes import Fault, FaultKind
from tests.deploy.exporters_cluster import ROOT
from tests.journeys.remediator_world import (
    CONDITION,
    PLAYBOOK,
    Remediator,
    World,
    a_world,
    client_of,
    prepare,
    webhook,
)
from tests.journeys.service import wait_until

DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "remediator.json").read_text("utf-8"))
RULES = ROOT / "deploy" / "prometheus" / "remediator-rules.yaml"
NOTHING_IS_GOOD = {"Overdue", "Looks that failed"}
"""Panels that show something only when something is wrong."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


class Prometheus:
    """One that scrapes a target each second."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=15) as answer:
            return json.load(answer)["data"]

    def found(self, expression: str) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return result

    def firing(self) -> dict[str, dict[str, str]]:
        """The labels of the alerts that fire, by name."""
        alerts = self.get("alerts")["alerts"]
        return {
            each["labels"]["alertname"]: each["labels"]
            for each in alerts
            if each["state"] == "firing"
        }


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with SandboxKubernetes(scheduler=False) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        client = client_of(kubeconfig)
        prepare(client, embedded=True)
        client.close()
        with a_world(kubeconfig, tmp_path, ("n1", "n2", "n3")) as one:
            yield one


@pytest.fixture
def remediator(world: World, tmp_path: Path) -> Iterator[Remediator]:
    """With a budget, and an alerts2gh that does not answer."""
    alerts2gh = {"url": f"http://127.0.0.1:{programs.free_port()}"}
    quick = {**PLAYBOOK, "proof": {**PLAYBOOK["proof"], "deadline": "2s"}}
    one = Remediator(
        tmp_path,
        world.kubeconfig,
        "remediator-0",
        playbooks=[quick],
        budgets=[{"name": "all", "max_unavailable": 3}],
        alerts2gh=alerts2gh,
    )
    yield one.start()
    one.kill()


@pytest.fixture
def prometheus(remediator: Remediator, tmp_path: Path) -> Iterator[Prometheus]:
    if programs.find("prometheus") is None:
        pytest.skip(f"prometheus is not installed. {programs.HOW_TO_GET['prometheus']}")
    targets = [{"targets": [f"127.0.0.1:{remediator.port}"]}]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "remediator", "static_configs": targets}],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = programs.free_port()
    program = programs.start_prometheus(tmp_path / "prometheus.yml", tmp_path, port)
    with programs.running(program):
        program.wait_until_ready(f"http://127.0.0.1:{port}/-/ready", 60)
        yield Prometheus(port)


def test_panels_show_and_rules_tell_what_happens(
    world: World, remediator: Remediator, prometheus: Prometheus
) -> None:
    """One node is healed, one is not, one waits for a pause to end."""
    wait_until("a scrape", lambda: bool(prometheus.found("remediator_build_info")))
    world.sim("n1").inject(FaultKind.GPU_RUNTIME_ERROR)
    world.wait_for("n1", "Succeeded")
    world.sim("n2").inject(Fault(FaultKind.GPU_RUNTIME_ERROR, healed_by=frozenset()))
    escalated = world.wait_for("n2", "Escalated")["metadata"]["name"]
    assert remediator.call("pause").returncode == 0
    assert remediator.post(webhook("n3"))[0] == 200
    world.wait_for("n3", "Gated")

    wait_until("the alert", lambda: "NodeOperationEscalated" in prometheus.firing(), 60)
    alert = prometheus.firing()["NodeOperationEscalated"]
    assert alert == {
        "alertname": "NodeOperationEscalated",
        "severity": "critical",
        "node": "n2",
        "playbook": PLAYBOOK["name"],
        "operation": escalated,
        "job": "remediator",
    }
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            shows_something(prometheus, panel["title"], target["expr"])
    assert set(prometheus.firing()) == {"NodeOperationEscalated"}
    assert rules_with_errors(prometheus) == []


def shows_something(prometheus: Prometheus, title: str, query: str) -> None:
    expression = query.replace("$__rate_interval", "30s")
    if title in NOTHING_IS_GOOD:
        prometheus.found(expression)
        return
    wait_until(f"{title}: {expression}", lambda: bool(prometheus.found(expression)), 60)


def rules_with_errors(prometheus: Prometheus) -> list[str]:
    groups = prometheus.get("rules")["groups"]
    return [rule["name"] for group in groups for rule in group["rules"] if rule["health"] == "err"]


def test_an_operation_whose_alert_is_told_needs_no_issue_of_its_own(
    world: World, remediator: Remediator, prometheus: Prometheus
) -> None:
    """The condition begins it and its alert joins: alerts2gh, which is configured, tells the story there."""
    world.sim("n2").inject(Fault(FaultKind.GPU_RUNTIME_ERROR, healed_by=frozenset()))
    world.wait_for("n2", "Escalated")
    named = 'remediator_operation_escalated{node="n2", in_issue="%s"}'
    wait_until("its metric", lambda: bool(prometheus.found(named % "false")))
    wait_until("the alert", lambda: "NodeOperationEscalated" in prometheus.firing(), 60)

    assert remediator.post(webhook("n2", alertname=CONDITION))[1]["alerts"][0]["result"] == "joined"

    wait_until("another", lambda: bool(prometheus.found(named % "true")))
    wait_until("its end", lambda: "NodeOperationEscalated" not in prometheus.firing(), 60)
    assert world.phase("n2") == "Escalated"
