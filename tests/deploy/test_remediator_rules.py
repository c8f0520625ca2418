"""What is particular to the remediator's Prometheus rules."""

import pytest

from remediator import gates
from remediator.triggers import NoMatchReason
from tests.deploy.rule_files import REMEDIATOR

ONE_A_PROCESS = {"RemediatorWatchOld"} | {
    f"Remediator{each}ReloadFailed" for each in ("Config", "Certificate")
}
"""Alerts about single processes; all others are told once, however many replicas tell."""


def test_the_values_that_rules_look_for_exist() -> None:
    known: dict[str, set[str]] = {
        "in_issue": {"true", "false"},
        "gate": set(gates.GATES),
        "result": {*NoMatchReason, "told", "refused", "deferred"},
        "handler": {"/v1/webhook"},
        "kind": {"Conflict"},
    }

    assert REMEDIATOR.unknown_values(known) == set()
    assert {label for _, label, _ in REMEDIATOR.matchers()} <= {*known, "code"}


@pytest.mark.parametrize("alert", sorted(REMEDIATOR.rules.keys() - ONE_A_PROCESS))
def test_an_alert_stays_the_same_when_another_replica_tells_it(alert: str) -> None:
    expr = REMEDIATOR.rules[alert]["expr"]

    assert "without (instance, pod" in expr or expr.startswith("absent(")


def test_an_escalated_operation_brings_what_an_issue_needs() -> None:
    """alerts2gh names the issue by alert and node; the assignee may depend on playbook and severity."""
    (case,) = [
        test["exp_alerts"][0]["exp_labels"]
        for case in REMEDIATOR.cases
        for test in case["alert_rule_test"]
        if case["name"].startswith("NodeOperationEscalated fires: no alert")
    ]

    assert set(case) == {"severity", "operation", "node", "playbook"}
