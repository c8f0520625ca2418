"""gpu_admission's Prometheus rules: promtool proves when each fires; they use what exists, and the documents tell what to do."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_admission.gpu_request import Reason
from tests.deploy.promql_words import documented, mistakes, words
from tests.deploy.test_prometheus_rules import run

ROOT = Path(__file__).parents[2]
RULES_FILE = ROOT / "deploy" / "prometheus" / "gpu-admission-rules.yaml"
TESTS_FILE = ROOT / "deploy" / "prometheus" / "tests" / "gpu-admission-rules.test.yaml"
OPERATIONS = ROOT / "docs" / "operations.md"

DOCUMENT: dict[str, Any] = yaml.safe_load(RULES_FILE.read_text("utf-8"))
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in DOCUMENT["groups"] for rule in group["rules"]
}
CASES: list[dict[str, Any]] = yaml.safe_load(TESTS_FILE.read_text("utf-8"))["tests"]
APISERVERS = {
    "apiserver_admission_webhook_fail_open_count": frozenset({"name", "type"}),
    "apiserver_admission_webhook_rejection_count": frozenset(
        {"error_type", "name", "operation", "rejection_code", "type"}
    ),
}
"""Metrics of kube-apiserver; that it has them is proven where it calls us in vain: tests/journeys/test_gpu_admission.py."""
ONE_A_PROCESS = {"GPUAdmissionCatalogueRefused", "GPUAdmissionWatchOld"} | {
    f"GPUAdmission{each}"
    for each in ("ConfigReloadFailed", "CertificateEnds", "CertificateReloadFailed")
}
"""Alerts about single processes; all others are told once, however many replicas tell."""


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
    text = yaml.safe_load(TESTS_FILE.read_text("utf-8"))
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({**text, "rule_files": ["rules.yaml"]}))

    told = run(promtool, "test", "rules", tmp_path / "test.yaml")

    said = told.stdout + told.stderr
    assert [name for _, name in cases(firing=not always) if f"name: {name}" not in said] == []


# What they use.


@pytest.mark.parametrize("alert", RULES)
def test_a_rule_uses_only_metrics_and_labels_that_exist(alert: str) -> None:
    assert words(RULES[alert]["expr"]).metrics
    assert mistakes(RULES[alert]["expr"], documented() | APISERVERS, frozenset()) == []


def test_the_values_that_rules_and_cases_look_for_exist() -> None:
    desk = (ROOT / "gpu_admission" / "webhook" / "desk.py").read_text("utf-8")
    known: dict[str, set[str]] = {
        "endpoint": set(re.findall(r'"(/[a-z-]+)": self\.', desk)),
        "outcome": {"admitted", "denied", "unchanged", "refused"},
        "state": {"right", "wrong"},
        "reason": {*Reason, "", "internal_error", "malformed_review"},
    }
    series = [each["series"] for case in CASES for each in case["input_series"]]
    used = {
        (label, value)
        for text in [*(rule["expr"] for rule in RULES.values()), *series]
        for metric, label, value in words(text).matchers
        if metric not in APISERVERS and label in known
    }

    assert {label for label, _ in used} == set(known)
    assert {(label, value) for label, value in used if value not in known[label]} == set()


def test_the_webhooks_that_the_api_servers_metrics_name_are_shipped() -> None:
    shipped = set()
    for file in ("base/mutating.yaml", "base/validating.yaml"):
        document = yaml.safe_load((ROOT / "deploy" / "gpu-admission" / file).read_text("utf-8"))
        shipped |= {each["name"]: each["failurePolicy"] for each in document["webhooks"]}.keys()
    component = ROOT / "deploy" / "gpu-admission" / "components" / "cpus" / "webhook.yaml"
    shipped |= {each["value"]["name"] for each in yaml.safe_load(component.read_text("utf-8"))}
    named = {
        value
        for metric, label, value in words(RULES["GPUAdmissionNotReached"]["expr"]).matchers
        if label == "name"
    }
    matching = {each for each in shipped for value in named if re.fullmatch(_plain(value), each)}

    assert matching == shipped


def _plain(value: str) -> str:
    """A regular expression as RE2 gets it, without the escapes of PromQL's strings."""
    return value.replace("\\\\", "\\")


@pytest.mark.parametrize("alert", sorted(RULES.keys() - ONE_A_PROCESS))
def test_an_alert_stays_the_same_when_another_replica_tells_it(alert: str) -> None:
    expr = RULES[alert]["expr"]

    assert any(each in expr for each in ("without (instance, pod", "sum by (", "count(", "absent("))


# What people read.


def sections() -> dict[str, str]:
    """The sections below "Alerts of gpu_admission" in docs/operations.md."""
    text = OPERATIONS.read_text("utf-8").partition("\n## Alerts of gpu_admission\n")[2]
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


def test_the_log_lines_that_people_are_sent_to_exist() -> None:
    texts = [*sections().values(), *(each["annotations"]["description"] for each in RULES.values())]
    named = {
        line
        for text in texts
        for line in re.findall(r"log line `([a-z_]+)`", text.replace("\n", " "))
    }
    code = "".join(
        file.read_text("utf-8")
        for package in ("gpu_admission", "chassis")
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
