"""What is particular to the exporters' Prometheus rules."""

from typing import get_args

import pytest

from chassis.contracts import ConditionType
from exporters.condition_writer import PatchResult
from exporters.config.node_agent import CheckName
from exporters.gpu_monitor.metrics import PATCH_RESULTS
from exporters.probe_pods import Outcome
from tests.deploy.rule_files import EXPORTERS

ONE_A_PROCESS = {"ExporterWatchOld", "ExporterWatchRelists"} | {
    f"Exporter{each}ReloadFailed" for each in ("Config", "Certificate")
}
"""Alerts about single processes; all others are told once, however many tell."""


def test_the_values_that_rules_look_for_exist() -> None:
    known: dict[str, set[str]] = {
        "condition": set(ConditionType),
        "status": {"true", "false", "unknown"},
        "state": {"ok", "problem", "unknown"},
        "check": set(get_args(CheckName)),
        "result": {*PatchResult, *PATCH_RESULTS, *Outcome},
        "gpu_count": {"0"},
    }

    assert EXPORTERS.unknown_values(known) == set()
    assert {label for _, label, _ in EXPORTERS.matchers()} <= set(known)


def test_every_condition_has_an_alert_of_its_name_that_stops_when_nobody_vouches_for_it() -> None:
    for kind in ConditionType:
        expr = EXPORTERS.rules[kind]["expr"]
        assert f'nodemend_node_condition{{condition="{kind}", status="true"}}' in expr
        assert f'min_over_time(nodemend_node_condition_stale{{condition="{kind}"}}[30m])' in expr


@pytest.mark.parametrize("alert", sorted(EXPORTERS.rules.keys() - ONE_A_PROCESS))
def test_an_alert_stays_the_same_when_an_exporter_moves(alert: str) -> None:
    expr = EXPORTERS.rules[alert]["expr"]

    assert "without (instance, pod" in expr or expr.startswith(("absent(", "group by (job)"))
