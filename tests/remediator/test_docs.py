"""The documentation of remediator is complete and invents nothing: keys, defaults, metrics, commands, examples."""

import inspect
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from chassis.config import ConfigWatcher, format_duration
from chassis.kube_watch import WatchMetrics
from chassis.serving import ServingSettings
from chassis.serving.metrics import CertificateMetrics
from chassis.telemetry import get_logger, new_registry
from chassis.webapp import create_app
from remediator import metrics
from remediator.__main__ import main
from remediator.commands import build_parser
from remediator.config import Config, Share
from remediator.operation import read
from tests.journeys.remediator_world import webhook
from tests.project.test_docs import CODE, _inside, named, paths, rows

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDE = DOCS / "remediator.md"
PREFIX = "remediator_"
AS_ELSEWHERE = re.compile(r"(?:serving|kubernetes|auth)\.|auth\.basic_auth\[\]")
"""Keys whose rows are in the table of another service."""
AS_THEIR_TWINS = re.compile(
    r"(?:prometheus|alerts2gh)\.(?:url|bearer_token_file|ca_file|timeout)"
    r"|playbooks\[\]\.conditions\.all\[\]\..*"
    r"|playbooks\[\]\.gates\.guards\[\]\..*"
)
"""Keys that have the meaning of another row, which their own part's row says."""


# Configuration keys.


def keys() -> list[str]:
    found = dict.fromkeys(paths(Config))
    return [key for key in found if not AS_ELSEWHERE.match(key) and not AS_THEIR_TWINS.match(key)]


def test_every_key_is_documented_and_none_is_invented() -> None:
    written = named((DOCS / "configuration.md").read_text("utf-8"), first="remediator key")

    assert sorted(written) == sorted(keys())


def test_keys_without_a_row_are_told_in_that_of_their_part() -> None:
    text = (DOCS / "configuration.md").read_text("utf-8")
    told = {CODE.findall(cells[0])[0]: cells[2] for cells in rows(text, first="remediator key")}

    for key in filter(AS_THEIR_TWINS.match, paths(Config)):
        part, _, name = key.rpartition(".")
        words = told[part.removesuffix("[]")]
        assert f"`{name}`" in words or "the keys of `any`" in words, key


def test_the_defaults_are_those_of_the_code() -> None:
    shown = {
        CODE.findall(cells[0])[0]: cells[1]
        for cells in rows((DOCS / "configuration.md").read_text("utf-8"), first="remediator key")
    }
    wrong = {
        key: (shown[key], written)
        for key, written in defaults(Config)
        if key in shown and written and not shown[key].startswith(f"`{written}`")
    }

    assert wrong == {}


def defaults(model: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Keys with a default that is a plain value, as the file writes it; empty for all others."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        yield key, _as_written(field.get_default(call_default_factory=True))
        for inner, step in _inside(field.annotation):
            yield from defaults(inner, f"{key}{step}.")


def _as_written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, timedelta):
        return format_duration(value).replace("1w", "7d")
    return str(value) if isinstance(value, int | str | Share) and value != "" else ""


# Metrics.


@pytest.fixture
def registry(tmp_path: Path) -> CollectorRegistry:
    """A registry with everything that a running remediator has in its own."""
    found = new_registry("remediator", "0")
    log = get_logger("test")
    for make in (metrics.IntakeMetrics, metrics.ReconcileMetrics, metrics.TimelineMetrics):
        make(found)
    found.register(
        metrics.StateCollector(lambda: (), lambda: 0, lambda: (), lambda: (False, False))
    )
    create_app("remediator", registry=found, log=log, max_body_bytes=1, auth=None)
    CertificateMetrics("remediator", found)
    WatchMetrics("remediator", found)
    file = tmp_path / "settings.yaml"
    file.write_text("listen: 127.0.0.1:0\n")
    ConfigWatcher(
        file,
        ServingSettings,
        on_reload=lambda _: None,
        registry=found,
        log=log,
        service="remediator",
    )
    return found


def exposed(registry: CollectorRegistry, prefix: str = PREFIX) -> dict[str, frozenset[str]]:
    """Our metrics by the name that a query uses, with their labels; a histogram by its own name."""
    found = {}
    for collector in registry._collector_to_names:
        is_plain = isinstance(collector, MetricWrapperBase)
        for family in collector.describe() if is_plain else _families(collector):
            end = {"counter": "_total", "info": "_info"}.get(family.type, "")
            labels = collector._labelnames if is_plain else getattr(family, "_labelnames", ())
            found[family.name + end] = frozenset(labels)
    return {name: labels for name, labels in found.items() if name.startswith(prefix)}


def _families(collector: Any) -> Any:
    # A collector of what stands in the cluster describes its families without any sample.
    return collector.describe() if hasattr(collector, "describe") else collector.collect()


def documented_metrics(markdown: str) -> dict[str, frozenset[str]]:
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
    real["remediator_build_info"] = frozenset({"version"})

    assert documented_metrics((DOCS / "metrics.md").read_text("utf-8")) == real


def test_no_class_of_metrics_is_left_out_above() -> None:
    classes = {
        name
        for name, each in inspect.getmembers(metrics, inspect.isclass)
        if each.__module__ == metrics.__name__
    }

    assert classes == {"IntakeMetrics", "ReconcileMetrics", "TimelineMetrics", "StateCollector"}


# Commands.


def test_the_exit_statuses_of_the_commands_are_documented() -> None:
    shown = {cells[0] for cells in rows(GUIDE.read_text("utf-8"), first="exit status")}

    assert shown == {"0", "1", "2"}


def test_each_command_is_documented() -> None:
    shown = {
        spans[0].split()[1]
        for cells in rows(GUIDE.read_text("utf-8"), first="command")
        if (spans := CODE.findall(cells[0]))
    }
    parser = build_parser("0")
    (action,) = (each for each in parser._actions if each.dest == "command")
    assert action.choices is not None

    assert shown == set(action.choices)


# What the guide shows.


def blocks(language: str) -> list[str]:
    """The texts between fences of this language, empty for none."""
    found: list[str] = []
    inside: str | None = None
    for line in GUIDE.read_text("utf-8").splitlines(keepends=True):
        fence = line.strip().startswith("```")
        if fence and inside is None:
            inside = line.strip().removeprefix("```")
            found += [""] if inside == language else []
        elif fence:
            inside = None
        elif inside == language:
            found[-1] += line
    return found


def test_the_whole_file_of_the_guide_is_accepted_and_explained_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (whole,) = (each for each in blocks("yaml") if "playbooks:" in each)
    (shown,) = (each for each in blocks("") if "check-config remediator.yaml" in each)
    (tmp_path / "remediator.yaml").write_text(whole)
    (tmp_path / "webhook-token").write_text("sesame")
    (tmp_path / "payload.json").write_text(json.dumps(webhook("gpu-17", alertname="GPUIsLost")))
    monkeypatch.chdir(tmp_path)
    told = ""
    for line in shown.splitlines():
        if line.startswith("$ remediator "):
            assert main(line.split()[2:]) == 0
            told += f"{line}\n{capsys.readouterr().out}"

    assert told == shown


def test_the_object_that_people_may_create_is_read(tmp_path: Path) -> None:
    (by_hand,) = (yaml.safe_load(each) for each in blocks("yaml") if "generateName" in each)
    metadata = {"name": "by-hand-1", "creationTimestamp": "2026-11-30T12:00:00Z"}
    spec = {"trigger": "Manual", "episode": 1, **by_hand["spec"]}

    assert read({**by_hand, "metadata": metadata, "spec": spec}).spec.node == "gpu-17"
