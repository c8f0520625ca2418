"""The Prometheus rules: promtool proves when each fires; they use what exists, and docs/operations.md tells what to do."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from flask import Flask
from prometheus_client import CollectorRegistry

from alerts2gh.incident import OWN_ALERTNAMES
from alerts2gh.reconciliation import SightReason
from alerts2gh.store.incident_rows import IncidentState
from alerts2gh.webhook import Intake, install_webhook
from chassis.telemetry import get_logger
from chassis.webapp import create_app
from tests.deploy.promql_words import documented, mistakes, words

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
RULES_FILE = ROOT / "deploy" / "prometheus" / "alerts2gh-rules.yaml"
TESTS_FILE = ROOT / "deploy" / "prometheus" / "tests" / "alerts2gh-rules.test.yaml"
OPERATIONS = ROOT / "docs" / "operations.md"

DOCUMENT: dict[str, Any] = yaml.safe_load(RULES_FILE.read_text("utf-8"))
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in DOCUMENT["groups"] for rule in group["rules"]
}
CASES: list[dict[str, Any]] = yaml.safe_load(TESTS_FILE.read_text("utf-8"))["tests"]
SHARED_BY_REPLICAS = {"alerts2gh_stored", "alerts2gh_github_blocked_seconds"}


def run(promtool: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """It computes for a while, which is minutes where all cores are busy."""
    return subprocess.run(
        [promtool, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=280
    )


# When they fire.


def test_the_rules_fire_when_they_should_and_only_then(promtool: str) -> None:
    done = run(promtool, "test", "rules", TESTS_FILE)

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
    group = DOCUMENT["groups"][0]
    rules = [{**rule, "expr": expr} for rule in group["rules"]]
    for rule in rules:
        rule.pop("for", None)
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{**group, "rules": rules}]}))
    tests = yaml.safe_load(TESTS_FILE.read_text("utf-8"))
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({**tests, "rule_files": ["rules.yaml"]}))

    told = run(promtool, "test", "rules", tmp_path / "test.yaml")

    said = told.stdout + told.stderr
    assert [name for _, name in cases(firing=not always) if f"name: {name}" not in said] == []


# What they use.


@pytest.mark.parametrize("alert", RULES)
def test_a_rule_uses_only_metrics_and_labels_that_exist(alert: str) -> None:
    assert words(RULES[alert]["expr"]).metrics
    assert mistakes(RULES[alert]["expr"], documented(), frozenset()) == []


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("rate(alerts2gh_webhooks[5m]) > 0", "no metric alerts2gh_webhooks"),
        ("up == 0", "no metric up"),
        ('alerts2gh_stored{sort="open"} > 0', "alerts2gh_stored has no label sort"),
        ("sum by (repo) (alerts2gh_stored)", "no label repo to group by"),
    ],
)
def test_what_does_not_exist_is_noticed(expression: str, told: str) -> None:
    assert mistakes(expression, documented(), frozenset()) == [told]


def handlers() -> set[str]:
    """The patterns that alerts2gh's paths have in its metrics."""
    app: Flask = create_app(
        "alerts2gh",
        registry=CollectorRegistry(),
        log=get_logger("test"),
        max_body_bytes=1,
        auth=None,
    )
    install_webhook(app, cast("Intake", None), 1)  # no request is made
    return {rule.rule for rule in app.url_map.iter_rules()}


def test_the_values_that_rules_look_for_exist() -> None:
    known: Mapping[str, set[str]] = {
        "kind": {*IncidentState, "backlog", "dead_letters"},
        "sight": set(SightReason),
        "handler": handlers(),
        "reason": {"accepted"},
    }
    used = {match for rule in RULES.values() for match in words(rule["expr"]).matchers}

    unknown = {
        (label, each)
        for _, label, value in used
        if label in known
        for each in value.split("|")
        if each not in known[label]
    }
    assert unknown == set()
    assert {label for _, label, _ in used} == {*known, "code", "status"}


@pytest.mark.parametrize("alert", RULES)
def test_what_all_replicas_tell_alike_is_told_once(alert: str) -> None:
    expr = RULES[alert]["expr"]
    shared = words(expr).metrics & SHARED_BY_REPLICAS

    assert not shared or expr.startswith("max without (instance, pod) ")


def test_the_names_are_not_those_of_alerts2ghs_own_incidents() -> None:
    assert set(RULES) & OWN_ALERTNAMES == set()


# What people read.


def sections() -> dict[str, str]:
    """The sections below "Alerts" in docs/operations.md."""
    text = OPERATIONS.read_text("utf-8").partition("\n## Alerts\n")[2].partition("\n## ")[0]
    headed = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
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
