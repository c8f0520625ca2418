"""What is particular to gpu_admission's Prometheus rules."""

import re

import pytest
import yaml

from gpu_admission.gpu_request import Reason
from tests.deploy.promql_words import words
from tests.deploy.rule_files import GPU_ADMISSION, ROOT

ONE_A_PROCESS = {"GPUAdmissionCatalogueRefused", "GPUAdmissionWatchOld"} | {
    f"GPUAdmission{each}"
    for each in ("ConfigReloadFailed", "CertificateEnds", "CertificateReloadFailed")
}
"""Alerts about single processes; all others are told once, however many replicas tell."""


def test_the_values_that_rules_and_cases_look_for_exist() -> None:
    desk = (ROOT / "gpu_admission" / "webhook" / "desk.py").read_text("utf-8")
    elsewhere = dict(GPU_ADMISSION.known_elsewhere)
    known: dict[str, set[str]] = {
        "endpoint": set(re.findall(r'"(/[a-z-]+)": self\.', desk)),
        "outcome": {"admitted", "denied", "unchanged", "refused"},
        "state": {"right", "wrong"},
        "reason": {*Reason, "", "internal_error", "malformed_review"},
    }
    series = [each["series"] for case in GPU_ADMISSION.cases for each in case["input_series"]]
    used = {
        (label, value)
        for text in [*(rule["expr"] for rule in GPU_ADMISSION.rules.values()), *series]
        for metric, label, value in words(text).matchers
        if metric not in elsewhere and label in known
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
        for metric, label, value in words(
            GPU_ADMISSION.rules["GPUAdmissionNotReached"]["expr"]
        ).matchers
        if label == "name"
    }
    matching = {each for each in shipped for value in named if re.fullmatch(_plain(value), each)}

    assert matching == shipped


def _plain(value: str) -> str:
    """A regular expression as RE2 gets it, without the escapes of PromQL's strings."""
    return value.replace("\\\\", "\\")


@pytest.mark.parametrize("alert", sorted(GPU_ADMISSION.rules.keys() - ONE_A_PROCESS))
def test_an_alert_stays_the_same_when_another_replica_tells_it(alert: str) -> None:
    expr = GPU_ADMISSION.rules[alert]["expr"]

    assert any(each in expr for each in ("without (instance, pod", "sum by (", "count(", "absent("))
