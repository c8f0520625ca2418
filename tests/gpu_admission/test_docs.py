"""The documentation of gpu_admission is complete and invents nothing: keys, metrics, commands, words."""

import argparse
import inspect
import re
from collections.abc import Iterator
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry
from pydantic import BaseModel

from chassis.config import ConfigWatcher
from chassis.kube_watch import WatchMetrics
from chassis.serving import ServingSettings
from chassis.serving.metrics import CertificateMetrics
from chassis.telemetry import get_logger, new_registry
from chassis.webapp import create_app
from gpu_admission import demand, gpu_request, metrics, mutation, selection
from gpu_admission.catalogue import CatalogueSettings
from gpu_admission.catalogue_in_use import CatalogueInUse
from gpu_admission.commands import build_parser
from gpu_admission.commands.explaining import _WHY
from gpu_admission.config import AdmissionConfig
from gpu_admission.demand import DemandState
from gpu_admission.gpu_request import Reason
from gpu_admission.mutation import UnchangedReason
from gpu_admission.selection import Why
from gpu_admission.webhook import application, desk
from tests.gpu_admission.guide import GUIDE, SHIPPED
from tests.project.test_docs import CODE, named, one_row_less, paths, rows
from tests.remediator.test_docs import defaults
from tests.remediator.test_docs import exposed as exposed_with

DOCS = GUIDE.parent
PREFIX = "gpu_admission_"
AS_ELSEWHERE = re.compile(
    # Whose rows are in the table of another service, and which their part's row points at.
    r"(?:serving|monitoring)\.(?:tls\..*|drain)|serving\.threads|monitoring\.tls|kubernetes\..*"
    # How a toleration is written is told below the table.
    r"|.*[tT]olerations\[\]\..*"
)


# Configuration keys.

TABLES: dict[str, tuple[Path, type[BaseModel]]] = {
    "gpu-admission key": (DOCS / "configuration.md", AdmissionConfig),
    "catalogue key": (GUIDE, CatalogueSettings),
}


@pytest.mark.parametrize("first", TABLES)
def test_every_key_is_documented_and_none_is_invented(first: str) -> None:
    file, model = TABLES[first]
    keys = [key for key in dict.fromkeys(paths(model)) if not AS_ELSEWHERE.fullmatch(key)]

    assert sorted(named(file.read_text("utf-8"), first=first)) == sorted(keys)


@pytest.mark.parametrize("first", TABLES)
def test_the_defaults_are_those_of_the_code(first: str) -> None:
    file, model = TABLES[first]
    shown = {
        CODE.findall(cells[0])[0]: cells[1] for cells in rows(file.read_text("utf-8"), first=first)
    }
    # A port of its own, and few threads: set by the model as a whole, not by its parts.
    whole = {
        "serving.listen": AdmissionConfig.model_fields["serving"].default.listen,
        "monitoring.listen": AdmissionConfig.model_fields["monitoring"].default.listen,
        "monitoring.threads": str(AdmissionConfig.model_fields["monitoring"].default.threads),
    }
    real = {**dict(defaults(model)), **(whole if model is AdmissionConfig else {})}

    wrong = {
        key: (shown[key], written)
        for key, written in real.items()
        if key in shown and written and not shown[key].startswith(f"`{written}`")
    }
    assert wrong == {}


def test_keys_that_only_a_part_of_the_file_sets_get_the_same_defaults() -> None:
    config = AdmissionConfig.model_validate(
        {"catalogue_file": "c", "serving": {"threads": 2}, "monitoring": {"drain": "1s"}}
        | {"self_signed": {}}
    )

    assert (config.serving.listen, config.monitoring.listen) == (":8443", ":8080")
    assert config.monitoring.threads == 4


def test_the_parts_of_a_toleration_are_told_below_the_table() -> None:
    line = next(
        line for line in GUIDE.read_text("utf-8").splitlines() if line.startswith("A toleration")
    )
    parts = {key.rpartition(".")[2] for key in paths(CatalogueSettings) if "tolerations[]" in key}

    assert parts <= set(CODE.findall(line))


def test_the_file_that_is_shown_is_taken() -> None:
    text = (DOCS / "configuration.md").read_text("utf-8").partition("\n## gpu-admission\n")[2]
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)

    assert AdmissionConfig.model_validate(yaml.safe_load(block)).self_signed is not None


# Metrics.


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[CollectorRegistry]:
    """A registry with everything that a running gpu_admission has in its own."""
    found = new_registry("gpu_admission", "0")
    log = get_logger("test")
    metrics.ReviewMetrics(found)
    metrics.CapacityMetrics(found)
    metrics.ReadinessMetrics(found, {})
    metrics.DemandMetrics(found, lambda: None)
    create_app("gpu_admission", registry=found, log=log, max_body_bytes=1, auth=None)
    CertificateMetrics("gpu_admission", found)
    WatchMetrics("gpu_admission", found)
    file = tmp_path / "settings.yaml"
    file.write_text("listen: 127.0.0.1:0\n")
    ConfigWatcher(
        file,
        ServingSettings,
        on_reload=lambda _: None,
        registry=found,
        log=log,
        service="gpu_admission",
    )
    catalogue = CatalogueInUse(SHIPPED, changed=lambda: None, registry=found, log=log)
    catalogue.start()
    yield found
    catalogue.stop()


def exposed(registry: CollectorRegistry) -> dict[str, frozenset[str]]:
    return exposed_with(registry, PREFIX)


def documented(markdown: str) -> dict[str, frozenset[str]]:
    return {
        name: frozenset(CODE.findall(cells[1]))
        for cells in rows(markdown)
        for name in CODE.findall(cells[0])
        if name.startswith(PREFIX)
    }


def test_the_metrics_and_their_labels_are_documented_and_none_is_invented(
    registry: CollectorRegistry,
) -> None:
    real = exposed(registry)
    # `version` is the only label of the build's info, which holds it as a value.
    real["gpu_admission_build_info"] = frozenset({"version"})

    assert documented((DOCS / "metrics.md").read_text("utf-8")) == real


def test_a_metric_that_loses_its_row_is_noticed(registry: CollectorRegistry) -> None:
    text = (DOCS / "metrics.md").read_text("utf-8")
    whole = documented(text)
    ours = [less for line, less in one_row_less(text) if f"`{PREFIX}" in line.split("|")[1]]

    assert len(ours) == len(exposed(registry))  # so no name has two rows
    assert all(documented(less) != whole for less in ours)


def test_no_class_of_metrics_is_left_out_above() -> None:
    classes = {
        name
        for name, each in inspect.getmembers(metrics, inspect.isclass)
        if each.__module__ == metrics.__name__
    }

    kinds = ("Review", "Readiness", "Demand", "Catalogue", "Capacity")
    assert classes == {f"{kind}Metrics" for kind in kinds}


# Words.


def words_of_the_desk() -> set[str]:
    """Why a call was none of ours: the words of the webhook itself."""
    return set(re.findall(r'UNCHANGED, "(\w+)"', inspect.getsource(desk)))


def refused_calls() -> dict[str, str]:
    """The HTTP errors of the admission port, by the source that makes them: reason and status."""
    source = inspect.getsource(application)
    raised = re.findall(r'_Refused\(\s*HTTPStatus\.(\w+),\s*"(\w+)"', source)
    crashed = re.findall(r'status = HTTPStatus\.(\w+)\n\s+body = _error\("(\w+)"', source)
    return {reason: str(HTTPStatus[name].value) for name, reason in raised + crashed}


WORDS: dict[str, set[str]] = {
    "denied because": set(Reason),
    "unchanged because": {*UnchangedReason, *words_of_the_desk()},
    "left out because": set(Why),
    "demand": set(DemandState),
    "refused call": set(refused_calls()),
}
"""The tables of the guide by their first column, and what each must explain."""


@pytest.mark.parametrize("first", WORDS)
def test_every_word_is_explained_once_and_none_is_invented(first: str) -> None:
    text = GUIDE.read_text("utf-8")

    assert sorted(named(text, first=first)) == sorted(map(str, WORDS[first]))
    assert all(all(cells) for cells in rows(text, first=first))


@pytest.mark.parametrize("first", WORDS)
def test_a_word_that_loses_its_row_is_noticed(first: str) -> None:
    text = GUIDE.read_text("utf-8")
    whole = sorted(named(text, first=first))
    lessened = [sorted(named(less, first=first)) for _, less in one_row_less(text)]

    assert sum(less != whole for less in lessened) == len(WORDS[first])


def test_every_enum_of_the_decisions_is_among_the_tables() -> None:
    enums = {
        each
        for module in (demand, gpu_request, mutation, selection)
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, StrEnum) and each is not StrEnum
    }

    assert enums == {Reason, UnchangedReason, Why, DemandState}
    assert len(words_of_the_desk()) == 2


def test_refused_calls_carry_the_status_that_is_told() -> None:
    told = {
        CODE.findall(cells[0])[0]: cells[1]
        for cells in rows(GUIDE.read_text("utf-8"), first="refused call")
    }

    assert told == refused_calls()
    assert len(told) == 6


def test_the_codes_of_denials_are_those_that_are_told() -> None:
    assert {each.code for each in Reason} == {400, 403, 503}
    assert Reason.NAMESPACE_UNKNOWN.code == 503
    assert Reason.UNKNOWN_GPU.code == 400


def test_explain_has_words_for_each_reason() -> None:
    assert set(_WHY) == set(Why)


# Commands.


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Each command, `catalogue draft` too, and its parser."""
    found: dict[str, argparse.ArgumentParser] = {}
    for name, parser in _children(build_parser("0")).items():
        inner = _children(parser)
        found |= {f"{name} {each}": deeper for each, deeper in inner.items()} or {name: parser}
    return found


def _children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def documented_commands() -> dict[str, list[str]]:
    """Each command with the words of its row in code."""
    found = {}
    for cells in rows(GUIDE.read_text("utf-8"), first="command"):
        spans = CODE.findall(" ".join(cells))
        words = spans[0].split()[1:]
        name = " ".join(words[:2]) if words[0] == "catalogue" else words[0]
        found[name] = [*words, *spans[1:]]
    return found


def test_each_command_is_documented_with_its_options() -> None:
    text = GUIDE.read_text("utf-8")
    below = next(line for line in text.splitlines() if line.startswith("`explain`, `draft`"))
    shown = documented_commands()

    assert set(shown) == set(parsers())
    for name, parser in parsers().items():
        options = {
            option
            for action in parser._actions
            for option in action.option_strings
            if option.startswith("--") and option != "--help"
        }
        assert options <= {*shown[name], *CODE.findall(below)}, name


def test_each_command_says_its_exit_statuses_and_the_table_has_them() -> None:
    said = {
        name: set(re.findall(r"\b([0-9]):", parser.description or ""))
        for name, parser in parsers().items()
    }
    shown = {
        cells[0].strip("`"): cells[1]
        for cells in rows(GUIDE.read_text("utf-8"), first="exit status")
    }

    assert {status for each in said.values() for status in each} == set(shown)
    with_findings = {name.split()[-1] for name, each in said.items() if "1" in each}
    assert set(CODE.findall(shown["1"])) == with_findings
    assert shown["0"] == shown["2"] == "all"
    assert all({"0", "2"} <= each for each in said.values())
