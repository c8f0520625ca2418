"""The files of Prometheus rules that are shipped, with their promtool cases and their part of docs/operations.md."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.promql_words import words

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
OPERATIONS = ROOT / "docs" / "operations.md"

Label = frozenset[str]


@dataclass(frozen=True)
class RuleFile:
    """One file of rules.

    `heading` is the section of docs/operations.md that has one for each alert; `more_cases` are further
    files of promtool cases; `known_elsewhere` are metrics with their labels that other programs bring;
    `added` are labels that a scrape adds and a rule may name; `packages` write the log lines that the
    texts send people to.
    """

    name: str
    heading: str
    packages: tuple[str, ...]
    more_cases: tuple[str, ...] = ()
    known_elsewhere: tuple[tuple[str, Label], ...] = ()
    added: Label = frozenset()

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}-rules.yaml"

    @property
    def case_files(self) -> list[Path]:
        tests = FOLDER / "tests"
        return [tests / f"{self.name}-rules{which}.test.yaml" for which in ("", *self.more_cases)]

    @cached_property
    def document(self) -> dict[str, Any]:
        return _read(self.path)

    @cached_property
    def rules(self) -> dict[str, dict[str, Any]]:
        """The rules by the names of their alerts, in the order of the file."""
        groups = self.document["groups"]
        return {rule["alert"]: rule for group in groups for rule in group["rules"]}

    @cached_property
    def cases(self) -> list[dict[str, Any]]:
        return [case for file in self.case_files for case in _read(file)["tests"]]

    def expected(self, *, firing: bool) -> list[tuple[str, str]]:
        """The alert and the name of each case in which it is expected to fire, or not to."""
        return [
            (test["alertname"], case["name"])
            for case in self.cases
            for test in case["alert_rule_test"]
            if bool(test["exp_alerts"]) is firing
        ]

    def sections(self) -> dict[str, str]:
        """The sections below the heading in docs/operations.md, by alert."""
        text = OPERATIONS.read_text("utf-8").partition(f"\n## {self.heading}\n")[2]
        headed = re.split(r"^### ", text.partition("\n## ")[0], flags=re.MULTILINE)[1:]
        return {name: body.strip() for name, _, body in (each.partition("\n") for each in headed)}

    def with_all(self, expr: str, folder: Path) -> list[Path]:
        """Copies of the case files in `folder`, about the same rules that all have this expression."""
        groups = [
            {**group, "rules": [_at_once(rule, expr) for rule in group["rules"]]}
            for group in self.document["groups"]
        ]
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
        copies = [folder / file.name for file in self.case_files]
        for copy, file in zip(copies, self.case_files, strict=True):
            copy.write_text(yaml.safe_dump({**_read(file), "rule_files": ["rules.yaml"]}))
        return copies

    def matchers(self) -> set[tuple[str, str, str]]:
        """Metric, label and value of every matcher in the rules."""
        return {match for rule in self.rules.values() for match in words(rule["expr"]).matchers}

    def unknown_values(self, known: Mapping[str, set[str]]) -> set[tuple[str, str]]:
        """The values of these labels that the rules look for and that nothing ever has."""
        return {
            (label, each)
            for _, label, value in self.matchers()
            if label in known
            for each in value.split("|")
            if each not in known[label]
        }


def _at_once(rule: Mapping[str, Any], expr: str) -> dict[str, Any]:
    return {key: value for key, value in {**rule, "expr": expr}.items() if key != "for"}


def _read(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    return document


ALERTS2GH = RuleFile("alerts2gh", "Alerts", ("alerts2gh", "chassis"))
EXPORTERS = RuleFile(
    "exporters",
    "Alerts of the exporters",
    ("exporters", "chassis"),
    more_cases=("-days",),
    added=frozenset({"job"}),
)
REMEDIATOR = RuleFile(
    "remediator", "Alerts of the remediator", ("remediator", "chassis"), more_cases=("-days",)
)
GPU_ADMISSION = RuleFile(
    "gpu-admission",
    "Alerts of gpu_admission",
    ("gpu_admission", "chassis"),
    # Metrics of kube-apiserver; that it has them is proven where it calls us in vain:
    # tests/journeys/test_gpu_admission.py.
    known_elsewhere=(
        ("apiserver_admission_webhook_fail_open_count", frozenset({"name", "type"})),
        (
            "apiserver_admission_webhook_rejection_count",
            frozenset({"error_type", "name", "operation", "rejection_code", "type"}),
        ),
    ),
)
FILES = (ALERTS2GH, EXPORTERS, REMEDIATOR, GPU_ADMISSION)


def run(promtool: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """It computes for a while, which is minutes where all cores are busy."""
    return subprocess.run(
        [promtool, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=280
    )
