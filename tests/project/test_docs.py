"""The documentation is complete and invents nothing: config keys, metrics and reasons, compared with the code."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from pydantic import BaseModel

from alerts2gh import issue_plan, metrics
from alerts2gh.assignment import MayAssign
from alerts2gh.config import Config, IssuePolicy, PolicyOverride
from alerts2gh.incident import FoldReason
from alerts2gh.ports import BudgetState, Outcome
from alerts2gh.reconciliation import SightReason
from alerts2gh.routing import UnroutedReason
from alerts2gh.worker.aftermath import Course
from alerts2gh.write_budget import BudgetReason
from chassis.alertmanager import WebhookProblem
from chassis.config import ConfigWatcher
from chassis.serving import ServingSettings
from chassis.serving.metrics import CertificateMetrics
from chassis.telemetry import get_logger, new_registry
from chassis.webapp import create_app

DOCS = Path(__file__).parents[2] / "docs"
CONFIGURATION = DOCS / "configuration.md"
METRICS = DOCS / "metrics.md"
OPERATIONS = DOCS / "operations.md"

CODE = re.compile(r"`([^`]+)`")
RULE = re.compile(r"\s*\|[\s:|-]+\|\s*")
DOCUMENTED_AT_ITS_TWIN = {PolicyOverride: IssuePolicy}
"""Models whose keys are another's, made optional: one table tells both."""

REASONS: dict[str, set[str]] = {
    "Refused webhooks": {*WebhookProblem, *UnroutedReason, "too_large"},
    "What a delivery changed": set(FoldReason),
    "Why a step was taken": set(issue_plan.Reason),
    "Why nobody is assigned any more": set(MayAssign),
    "What a write waits for": set(BudgetReason),
    "What GitHub answered": set(Outcome),
    "What follows from a failure": set(Course),
    "What the Alertmanagers know": set(SightReason),
}
"""The headings in docs/operations.md, and the values that each table must explain."""


# Reading Markdown.


def rows(markdown: str, heading: str | None = None, *, first: str | None = None) -> list[list[str]]:
    """The cells of each table row, without head rows.

    Args:
        markdown: The text.
        heading: Only below this heading.
        first: Only of tables whose first column is called so.
    """
    lines = _section(markdown, heading) if heading else markdown.splitlines()
    found: list[list[str]] = []
    head: list[str] | None = None
    for line in lines:
        if not line.lstrip().startswith("|"):
            head = None
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if head is None:
            head = cells
        elif not RULE.fullmatch(line) and first in {None, head[0]}:
            found.append(cells)
    return found


def _section(markdown: str, heading: str) -> list[str]:
    lines = markdown.splitlines()
    starts = [n for n, line in enumerate(lines) if re.fullmatch(rf"#+ {re.escape(heading)}", line)]
    assert len(starts) == 1, f"there must be one heading {heading!r}"
    below = lines[starts[0] + 1 :]
    return below[: next((n for n, line in enumerate(below) if line.startswith("#")), len(below))]


def named(markdown: str, heading: str | None = None, *, first: str | None = None) -> list[str]:
    """The code spans in the first cells; arguments as those of `rows`."""
    found = rows(markdown, heading, first=first)
    return [name for cells in found for name in CODE.findall(cells[0])]


# Configuration keys.


def paths(model: type[BaseModel], prefix: str = "", above: tuple[Any, ...] = ()) -> Iterator[str]:
    """Each key as docs/configuration.md writes it: `a.b`, `list[].key`, `mapping.NAME.key`.

    A model inside itself (routes) is told once, and so is one whose keys are a twin's.
    """
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        yield path
        for inner, step in _inside(field.annotation):
            if inner not in {*above, model, *DOCUMENTED_AT_ITS_TWIN}:
                yield from paths(inner, f"{path}{step}.", (*above, model))


def _inside(annotation: Any, step: str = "") -> Iterator[tuple[type[BaseModel], str]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, step
    deeper = {tuple: "[]", list: "[]", dict: ".NAME"}.get(get_origin(annotation), "")
    for argument in get_args(annotation):
        yield from _inside(argument, step + deeper)


def undocumented_keys(markdown: str) -> list[str]:
    """Keys without a row; of a part none of whose keys has one, a mention in the part's row is enough."""
    table = {
        name: cells for cells in rows(markdown, first="key") for name in CODE.findall(cells[0])
    }
    return [path for path in paths(Config) if not _told(path, table)]


def _told(path: str, table: Mapping[str, list[str]]) -> bool:
    if path in table:
        return True
    key, above = path.rsplit(".", 1)[-1], path
    while "." in above:
        above = above.rpartition(".")[0].removesuffix("[]").removesuffix(".NAME")
        if any(name.startswith((f"{above}.", f"{above}[]")) for name in table):
            return False
        if above in table and key in CODE.findall(" ".join(table[above][1:])):
            return True
    return False


def test_every_config_key_is_documented() -> None:
    assert undocumented_keys(CONFIGURATION.read_text("utf-8")) == []


def test_no_config_key_is_invented() -> None:
    written = named(CONFIGURATION.read_text("utf-8"), first="key")

    assert set(written) - set(paths(Config)) == set()
    assert len(written) == len(set(written))


@pytest.mark.parametrize(("model", "twin"), DOCUMENTED_AT_ITS_TWIN.items())
def test_a_model_without_a_table_of_its_own_has_the_keys_of_its_twin(
    model: type[BaseModel], twin: type[BaseModel]
) -> None:
    assert set(model.model_fields) == set(twin.model_fields)


def test_the_walk_over_the_models_reaches_the_innermost() -> None:
    assert set(paths(Config)) >= {
        "credentials.NAME.app.app_id",
        "route.assignees[].on_call.overrides[].start",
        "policy.flapping.changes",
        "serving.tls.cert_file",
        "auth.basic_auth[].username",
        "route.continue",
    }


# Metrics.


@pytest.fixture
def registry(tmp_path: Path) -> CollectorRegistry:
    """A registry with everything that a running alerts2gh has in its own."""
    found = new_registry("alerts2gh", "0")
    log = get_logger("test")
    for make in METRIC_CLASSES.values():
        made = make(found)
        if isinstance(made, metrics.StateCollector):
            found.register(made)
    create_app("alerts2gh", registry=found, log=log, max_body_bytes=1, auth=None)
    CertificateMetrics("alerts2gh", found)
    file = tmp_path / "settings.yaml"
    file.write_text("listen: 127.0.0.1:0\n")
    ConfigWatcher(
        file, ServingSettings, on_reload=_ignore, registry=found, log=log, service="alerts2gh"
    )
    return found


METRIC_CLASSES: dict[str, Callable[[CollectorRegistry], object]] = {
    "WebhookMetrics": metrics.WebhookMetrics,
    "WorkerMetrics": metrics.WorkerMetrics,
    "GitHubMetrics": metrics.GitHubMetrics,
    "ReconcileMetrics": metrics.ReconcileMetrics,
    "TimelineMetrics": metrics.TimelineMetrics,
    "StateCollector": lambda _: metrics.StateCollector(
        lambda: {"open": 1},
        lambda: {"main": BudgetState()},
        lambda: None,
        lambda: datetime(2026, 11, 30, tzinfo=UTC),
    ),
}


def _ignore(_: object) -> None:
    """A reload that nobody waits for."""


def exposed(registry: CollectorRegistry) -> dict[str, frozenset[str]]:
    """Our metrics by the name that a query uses, with their labels; a histogram by its own name."""
    found = {}
    for collector in registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            for family in collector.describe():
                found[_query_name(family.name, family.type)] = frozenset(collector._labelnames)
        else:
            for family in collector.collect():
                labels = frozenset(label for sample in family.samples for label in sample.labels)
                found[_query_name(family.name, family.type)] = labels
    return {name: labels for name, labels in found.items() if name.startswith("alerts2gh_")}


def _query_name(name: str, kind: str) -> str:
    return name + {"counter": "_total", "info": "_info"}.get(kind, "")


def documented_metrics(markdown: str) -> dict[str, frozenset[str]]:
    """Name to labels, from tables whose first two columns are these."""
    return {
        name: frozenset(CODE.findall(cells[1]))
        for cells in rows(markdown)
        for name in CODE.findall(cells[0])
        if name.startswith("alerts2gh_")
    }


def test_the_metrics_and_their_labels_are_documented_and_none_is_invented(
    registry: CollectorRegistry,
) -> None:
    real = exposed(registry)
    # `version` is the only label of the build's info, which holds it as a value.
    real["alerts2gh_build_info"] = frozenset({"version"})

    assert documented_metrics(METRICS.read_text("utf-8")) == real


def test_no_metrics_class_is_left_out_above() -> None:
    classes = {
        name
        for name, each in inspect.getmembers(metrics, inspect.isclass)
        if each.__module__ == metrics.__name__
    }

    assert classes == set(METRIC_CLASSES)


# Reasons.


@pytest.mark.parametrize("heading", REASONS)
def test_every_reason_is_explained_once_and_none_is_invented(heading: str) -> None:
    assert sorted(named(OPERATIONS.read_text("utf-8"), heading)) == sorted(
        map(str, REASONS[heading])
    )


@pytest.mark.parametrize("heading", REASONS)
def test_every_reason_has_a_meaning(heading: str) -> None:
    for cells in rows(OPERATIONS.read_text("utf-8"), heading):
        assert all(cells), f"an empty cell in the row of {cells[0]}"


# These tests can fail.


def one_row_less(markdown: str) -> Iterator[tuple[str, str]]:
    """Each row that names something, and the text without it."""
    lines = markdown.splitlines()
    for number, line in enumerate(lines):
        if line.lstrip().startswith("|") and CODE.findall(line.split("|")[1]):
            yield line, "\n".join(lines[:number] + lines[number + 1 :])


def test_a_metric_that_loses_its_row_is_noticed(registry: CollectorRegistry) -> None:
    whole = documented_metrics(METRICS.read_text("utf-8"))
    ours = [
        (line, less)
        for line, less in one_row_less(METRICS.read_text("utf-8"))
        if "alerts2gh_" in line
    ]

    assert len(ours) >= len(exposed(registry))
    assert all(documented_metrics(less) != whole for _, less in ours)


@pytest.mark.parametrize("heading", REASONS)
def test_a_reason_that_loses_its_row_is_noticed(heading: str) -> None:
    text = OPERATIONS.read_text("utf-8")
    wanted = sorted(map(str, REASONS[heading]))
    section = "\n".join([f"## {heading}", *_section(text, heading)])

    assert [
        line for line, less in one_row_less(section) if sorted(named(less, heading)) == wanted
    ] == []


def test_a_config_key_that_loses_its_row_is_noticed() -> None:
    text = CONFIGURATION.read_text("utf-8")
    before = undocumented_keys(text)
    tried, unnoticed = 0, []
    for line, less in one_row_less(text):
        if len(rows(less, first="key")) == len(rows(text, first="key")):
            continue  # a row of another service
        tried += 1
        if undocumented_keys(less) == before:
            unnoticed.append(line)

    assert tried > 50
    assert unnoticed == []
