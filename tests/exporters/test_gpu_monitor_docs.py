"""The documentation of gpu-monitor, and of what all commands of exporters serve, is complete and invents nothing."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from chassis.kube_watch import WatchMetrics
from exporters.config.gpu_monitor import GpuMonitorSettings
from exporters.gpu_monitor.exposition import ProbeExposition
from exporters.gpu_monitor.metrics import MonitorMetrics
from exporters.gpu_monitor.record import COVERAGE_ANNOTATION, Run, current_record, dump_record, fold
from exporters.probe_pods import Course, Outcome, WithdrawReason
from tests.exporters.probe_builders import NOW, a_monitored_node, a_report
from tests.project.test_docs import CODE, named, paths, rows

DOCS = Path(__file__).parents[2] / "docs"
AS_ELSEWHERE = re.compile(r"(?:serving|kubernetes)\.")
"""Keys whose rows are in the table of another service."""


def test_every_key_is_documented_and_none_is_invented() -> None:
    text = (DOCS / "configuration.md").read_text("utf-8")
    keys = [key for key in paths(GpuMonitorSettings) if not AS_ELSEWHERE.match(key)]

    assert sorted(named(text, first="gpu-monitor key")) == sorted(keys)


def documented(heading: str, prefix: str = "nodemend_") -> dict[str, frozenset[str]]:
    return {
        name: frozenset(CODE.findall(cells[1]))
        for cells in rows((DOCS / "metrics.md").read_text("utf-8"), heading)
        for name in CODE.findall(cells[0])
        if name.startswith(prefix)
    }


def of_registry(registry: CollectorRegistry) -> dict[str, frozenset[str]]:
    found = {}
    for collector in registry._collector_to_names:
        assert isinstance(collector, MetricWrapperBase)
        for family in collector.describe():
            end = "_total" if family.type == "counter" else ""
            found[family.name + end] = frozenset(collector._labelnames)
    return found


def of_nodes() -> dict[str, frozenset[str]]:
    """Those of a node one of whose GPUs has passed."""
    node = a_monitored_node()
    run = Run(Outcome.PASSED, [a_report()])
    record = fold(current_record(None, node.view, "boot-1", NOW), run, 1, NOW)
    exposition = ProbeExposition()
    exposition.meet(["n1"])
    probed = a_monitored_node(annotations={COVERAGE_ANNOTATION: dump_record(record)})
    text = b"".join(exposition.pieces({"n1": probed})).decode()
    return {
        sample.name: frozenset(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_metrics_and_their_labels_are_documented() -> None:
    registry = CollectorRegistry()
    MonitorMetrics(registry)

    assert documented("gpu-monitor") == of_registry(registry) | of_nodes()


def test_the_metrics_of_watches_are_documented() -> None:
    registry = CollectorRegistry()
    WatchMetrics("nodemend", registry)

    assert documented("Any of the commands", "nodemend_watch_") == of_registry(registry)


def test_every_result_course_and_withdrawal_is_explained() -> None:
    text = (DOCS / "exporters.md").read_text("utf-8")

    assert sorted(named(text, first="result")) == sorted(Outcome)
    assert sorted(named(text, first="course")) == sorted(Course)
    assert sorted(named(text, first="withdrawn")) == sorted(WithdrawReason)
