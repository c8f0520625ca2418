"""The remediator's Prometheus rules: promtool proves when each fires; they use what exists, and the documents tell what to do."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from remediator import gates
from remediator.triggers import NoMatchReason
from tests.deploy.promql_words import documented, mistakes, words
from tests.deploy.test_prometheus_rules import run

ROOT = Path(__file__).parents[2]
RULES_FILE = ROOT / "deploy" / "prometheus" / "remediator-rules.yaml"
TESTS_FILES = [
    ROOT / "deploy" / "prometheus" / "tests" / f"remediator-rules{which}.test.yaml"
    for which in ("", "-days")
]
OPERATIONS = ROOT / "docs" / "operations.md"

DOCUMENT: dict[str, Any] = yaml.safe_load(RULES_FILE.read_text("utf-8"))
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in DOCUMENT["groups"] for rule in group["rules"]
}
CASES: list[dict[str, Any]] = [
    case for file in TESTS_FILES for case in yaml.safe_load(file.read_text("utf-8"))["tests"]
]
ONE_A_PROCESS = {"RemediatorWatchOld"} | {
    f"Remediator{each}ReloadFailed" for each in ("Config", "Certificate")
}
"""Alerts about single processes; all others are told once, however many replicas tell."""


# When they fire.


def test_the_rules_fire_when_they_should_and_only_then(promtool: str) -> None:
    done = run(promtool, "test", "rules", *TESTS_FILES)

    assert done.returncode == 0, done.stdout + done.stderr


def cases(*, firing: bool) -> list[tuple[str, str]]:
    """The alert and the name of each case in which it is expected to fire, or not to."""
    return [
        (test["alertname"], case["name"])
        for case in CASES
        for test in case["alert_rule_test"]
        if bool(test["exp_alerts"]) is firing
    ]


@pytest.mark.parametrize("firing", [True, False], ids=["fires", "is quiet"])
def test_every_rule_has_a_case_where_it(firing: bool) -> None:
    assert [alert for alert in RULES if alert not in dict(cases(firing=firing))] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("always", "expr"), [(True, "vector(1)"), (False, "vector(0) > 1")], ids=["always", "never"]
)
def test_a_rule_that_fires(promtool: str, tmp_path: Path, always: bool, expr: str) -> None:
    """Is noticed by each case that is there for it: the cases can fail."""
    rules = [{**rule, "expr": expr} for rule in RULES.values()]
    for rule in rules:
        rule.pop("for", None)
    groups = {"groups": [{"name": "all", "rules": rules}]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(groups))
    tests = [tmp_path / file.name for file in TESTS_FILES]
    for copy, file in zip(tests, TESTS_FILES, strict=True):
        text = yaml.safe_load(file.read_text("utf-8"))
        copy.write_text(yaml.safe_dump({**text, "rule_files": ["rules.yaml"]}))

    told = run(promtool, "test", "rules", *tests)

    said = told.stdout + told.stderr
    assert [name for _, name in cases(firing=not always) if f"name: {name}" not in said] == []


# What they use.


@pytest.mark.parametrize("alert", RULES)
def test_a_rule_uses_only_metrics_and_labels_that_exist(alert: str) -> None:
    assert words(RULES[alert]["expr"]).metrics
    assert mistakes(RULES[alert]["expr"], documented(), frozenset()) == []


def test_the_values_that_rules_look_for_exist() -> None:
    known: dict[str, set[str]] = {
        "in_issue": {"true", "false"},
        "gate": set(gates.GATES),
        "result": {*NoMatchReason, "told", "refused", "deferred"},
        "handler": {"/v1/webhook"},
        "kind": {"Conflict"},
    }
    used = {match for rule in RULES.values() for match in words(rule["expr"]).matchers}

    unknown = {
        (label, each)
        for _, label, value in used
        if label != "code"
        for each in value.split("|")
        if each not in known[label]
    }
    assert unknown == set()


@pytest.mark.parametrize("alert", sorted(RULES.keys() - ONE_A_PROCESS))
def test_an_alert_stays_the_same_when_another_replica_tells_it(alert: str) -> None:
    expr = RULES[alert]["expr"]

    assert "without (instance, pod" in expr or expr.startswith("absent(")


def test_an_escalated_operation_brings_what_an_issue_needs() -> None:
    """alerts2gh names the issue by alert and node; the assignee may depend on playbook and severity."""
    (case,) = [
        test["exp_alerts"][0]["exp_labels"]
        for case in CASES
        for test in case["alert_rule_test"]
        if case["name"].startswith("NodeOperationEscalated fires: no alert")
    ]

    assert set(case) == {"severity", "operation", "node", "playbook"}


# What people read.


def sections() -> dict[str, str]:
    """The sections below "Alerts of the remediator" in docs/operations.md."""
    text = OPERATIONS.read_text("utf-8").partition("\n## Alerts of the remediator\n")[2]
    headed = re.split(r"^### ", text.partition("\n## ")[0], flags=re.MULTILINE)[1:]
    return {name: body.strip() for name, _, body in (each.partition("\n") for each in headed)}


def test_every_alert_has_its_section_and_no_section_is_left_over() -> None:
    assert list(sections()) == list(RULES)
    assert all(sections().values())


@pytest.mark.parametrize("alert", RULES)
def test_an_alert_says_what_is_wrong_how_bad_it_is_and_where_to_read_on(alert: str) -> None:
    rule = RULES[alert]

    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert rule["annotations"]["runbook"] == f"docs/operations.md#{alert.lower()}"


LOG_LINE = re.compile(r"log lines? (`[a-z_]+`(?: and `[a-z_]+`)*)")


def test_the_log_lines_that_people_are_sent_to_exist() -> None:
    texts = [*sections().values(), *(each["annotations"]["description"] for each in RULES.values())]
    named = {
        line
        for text in texts
        for found in LOG_LINE.findall(text)
        for line in re.findall(r"`([a-z_]+)`", found)
    }
    code = "".join(
        file.read_text("utf-8")
        for package in ("remediator", "chassis")
        for file in (ROOT / package).rglob("*.py")
    )

    assert len(named) > 5
    assert [line for line in sorted(named) if f'"{line}"' not in code] == []


def test_promtool_takes_the_file(promtool: str) -> None:
    done = run(promtool, "check", "rules", RULES_FILE)

    assert done.returncode == 0, done.stdout + done.stderr


def test_their_names_are_nobody_elses() -> None:
    others = [
        rule["alert"]
        for file in RULES_FILE.parent.glob("*-rules.yaml")
        if file != RULES_FILE
        for group in yaml.safe_load(file.read_text("utf-8"))["groups"]
        for rule in group["rules"]
    ]

    assert set(RULES) & set(others) == set()
