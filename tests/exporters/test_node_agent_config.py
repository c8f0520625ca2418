"""What the configuration of node-agent may say, and that its documentation is complete."""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from chassis.config import load_settings
from chassis.contracts import ConditionType
from chassis.errors import ConfigError
from exporters.__main__ import main
from exporters.config.node_agent import HostSettings, NodeAgentSettings
from exporters.custom_checks import load_monitors
from exporters.node_agent.choices import catalogue, condition_of_checks, policies
from exporters.node_agent.gpu_metrics import GpuCollector
from exporters.node_agent.metrics import AgentMetrics
from exporters.xids import XidAction
from tests.exporters.test_node_agent_metrics import facts
from tests.project.test_docs import named, paths, rows

BAD = Path(__file__).parents[1] / "bad_configs" / "exporters"
DOCS = Path(__file__).parents[2] / "docs"
CODE = re.compile(r"`([^`]+)`")
PREFIX = "node_agent_"
AS_ELSEWHERE = ("serving.", "kubernetes.")

MISTAKES = {
    "check": "disabled_checks[1]: must be 'gpu_lost', 'recovery_action', 'gpu_pages', 'pcie_width', 'pcie_speed', 'xid', 'd_state' or 'nfs'",
    "expected": "gpus.expected: must be greater than or equal to 0",
    "heartbeat": "heartbeat: must be at least 1s",
    "interval": "intervals.driver: must be at least 1s",
    "interval_number": "intervals.processes: the number 60 has no unit; write a number and a unit, like 30s or 1h30m",
    "memory": "probe.memory_mib: must be greater than or equal to 1",
    "mode": "probe_mode: must be 'in_place', 'scheduled' or 'off'",
    "samples": "d_state.samples: must be greater than or equal to 2",
    "unknown_key": 'heartbeats: unknown key; did you mean "heartbeat"?',
    "xid_action": "xid.actions.79: must be 'ignore', 'informational', 'no_action', 'restart_app', 'workflow_xid_45', 'workflow_nvlink', 'check_uvm', 'update_software', 'workflow_xid_48', 'reset_gpu', 'restart_vm', 'restart_node', 'check_mechanicals' or 'contact_support'",
    "xid_code": "xid.actions.70000: must be less than or equal to 65535",
}  # fmt: skip
WHOLE = {"monitor": f"{BAD}/no-such-monitor.json: cannot be read: No such file or directory"}
"""Mistakes in another file than the configuration."""


@pytest.mark.parametrize("name", [*MISTAKES, *WHOLE])
def test_a_mistake_is_told_with_its_place_and_what_to_do(name: str) -> None:
    file = BAD / f"{PREFIX}{name}.yaml"

    with pytest.raises(ConfigError) as caught:
        load_settings(file, NodeAgentSettings)

    assert caught.value.mistakes == (WHOLE.get(name) or f"{file}: {MISTAKES.get(name)}",)


def test_each_bad_file_has_its_mistake() -> None:
    there = {path.stem.removeprefix(PREFIX) for path in BAD.glob(f"{PREFIX}*")}
    assert there == MISTAKES.keys() | WHOLE.keys()


def test_an_empty_file_checks_everything() -> None:
    found = policies(NodeAgentSettings(), ())

    assert found.keys() == set(ConditionType)
    assert condition_of_checks(found)["recovery_action"] == "GPUIsLost"


@pytest.mark.parametrize(
    ("settings", "gone"),
    [
        ({"disabled_checks": ["nfs"]}, {"NFSMountStuck"}),
        ({"disabled_checks": ["pcie_speed"]}, set()),
        ({"disabled_checks": ["pcie_speed", "pcie_width"]}, {"PCIeLinkDegraded"}),
        ({"probe_mode": "off"}, {"GPURuntimeError"}),
        ({"probe_mode": "scheduled"}, {"GPURuntimeError"}),
    ],
)
def test_a_condition_without_a_check_does_not_exist(
    settings: dict[str, object], gone: set[str]
) -> None:
    found = policies(NodeAgentSettings.model_validate(settings), ())

    assert set(ConditionType) - found.keys() == gone


def test_rules_of_the_users_own_have_conditions_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "ntp.sh").write_text("#!/bin/sh\n")
    (tmp_path / "ntp.json").write_text(
        '{"plugin": "custom", "source": "ntp", "conditions": [{"type": "NTPProblem", "reason": "NTPIsUp"}],'
        ' "rules": [{"type": "permanent", "condition": "NTPProblem", "reason": "NTPIsDown", "path": "ntp.sh"}]}'
    )
    (tmp_path / "agent.yaml").write_text("custom: {monitors: [ntp.json], base: .}\n")

    settings = load_settings(tmp_path / "agent.yaml", NodeAgentSettings)
    monitors = load_monitors(settings.custom.monitors, settings.custom.base)

    assert policies(settings, monitors)["NTPProblem"].checks.keys() == {"custom/ntp/NTPIsDown"}


def test_off_without_quotes_is_off(tmp_path: Path) -> None:
    """YAML reads it as false."""
    (tmp_path / "agent.yaml").write_text("probe_mode: off\n")

    assert load_settings(tmp_path / "agent.yaml", NodeAgentSettings).probe_mode == "off"


def test_what_an_xid_asks_for_can_be_changed() -> None:
    settings = NodeAgentSettings.model_validate({"xid": {"actions": {94: "reset_gpu"}}})

    assert catalogue(settings).action(94) is XidAction.RESET_GPU
    assert catalogue(NodeAgentSettings()).action(94) is XidAction.RESTART_APP


@pytest.mark.parametrize(
    ("host", "prefix", "log"),
    [
        ({}, "/proc/1/root", "/dev/kmsg"),
        ({"root": "/host"}, "/host/proc/1/root", "/host/dev/kmsg"),
        ({"mounts_below": "/"}, "", "/dev/kmsg"),
        ({"kmsg": "/k"}, "/proc/1/root", "/k"),
    ],
)
def test_the_host_is_found_below_its_root(host: dict[str, str], prefix: str, log: str) -> None:
    found = HostSettings.model_validate(host)

    assert (found.mount_prefix, str(found.kernel_log)) == (prefix, log)


def test_without_a_nodes_name_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    (tmp_path / "agent.yaml").write_text("")

    assert main(["node-agent", "-c", str(tmp_path / "agent.yaml")]) == 2
    assert "NODE_NAME: is not set" in capsys.readouterr().err


# Documentation.


def test_every_key_is_documented_and_none_is_invented() -> None:
    text = (DOCS / "configuration.md").read_text("utf-8")
    keys = [key for key in paths(NodeAgentSettings) if not key.startswith(AS_ELSEWHERE)]

    assert sorted(named(text, first="node-agent key")) == sorted(keys)


def test_the_metrics_and_their_labels_are_documented() -> None:
    registry = CollectorRegistry()
    AgentMetrics(registry, "n1")
    coverage = {"GPU-1": dict.fromkeys(("last_run", "last_success", "success", "seconds"), 1.0)}
    real = {f"{name}": labels for name, labels in _ours(registry).items()}
    gpu = CollectorRegistry()
    gpu.register(GpuCollector("n1", lambda: facts(coverage=coverage)))
    real |= {
        family.name: frozenset(label for sample in family.samples for label in sample.labels)
        or frozenset({"node", "gpu_uuid"})
        for family in gpu.collect()
    }

    documented = {
        name: frozenset(CODE.findall(cells[1]))
        for cells in rows((DOCS / "metrics.md").read_text("utf-8"), "node-agent: checks, GPUs, probes")
        for name in CODE.findall(cells[0])
    }  # fmt: skip

    assert documented == real


def _ours(registry: CollectorRegistry) -> dict[str, frozenset[str]]:
    found = {}
    for collector in registry._collector_to_names:
        assert isinstance(collector, MetricWrapperBase)
        for family in collector.describe():
            name = family.name + ("_total" if family.type == "counter" else "")
            found[name] = frozenset(collector._labelnames)
    return found
