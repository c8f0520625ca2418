"""The agent's series of GPUs, probes and XIDs: there from the start, gone with what they are about."""

from dataclasses import replace
from datetime import timedelta

from prometheus_client import CollectorRegistry

from exporters.node_agent.gpu_metrics import GpuCollector, GpuFacts
from exporters.node_agent.metrics import RUN_RESULTS, AgentMetrics, run_result
from exporters.node_agent.probe_log import ProbeLog
from exporters.readings import PcieLink, ProbeEnd
from exporters.xids import xid_events
from tests.exporters.check_builders import BUSES, NOW, A, B, a_driver, a_gpu, a_probe, messages

LINK = PcieLink(8, 16, 1, 4)


def a_registry(facts: GpuFacts | None) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(GpuCollector("n1", lambda: facts))
    return registry


def facts(**changes: object) -> GpuFacts:
    gpu = a_gpu(A, link=LINK, row_remap_pending=True, recovery_action=0)
    whole = GpuFacts(a_driver(gpu), 2, {}, 1, timedelta(seconds=30))
    return replace(whole, **changes)  # type: ignore[arg-type]  # fields of any kind


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"nodemend_{name}", {"node": "n1", **labels})


def test_what_a_gpu_tells_is_shown_and_what_it_does_not_tell_is_absent() -> None:
    registry = a_registry(facts())

    assert value(registry, "gpu_pcie_link_width", gpu_uuid=A) == 8
    assert value(registry, "gpu_pcie_link_width_max", gpu_uuid=A) == 16
    assert value(registry, "gpu_row_remap_pending", gpu_uuid=A) == 1
    assert value(registry, "gpu_recovery_action", gpu_uuid=A) == 0
    assert value(registry, "gpu_pending_pages", gpu_uuid=A) is None
    assert value(registry, "gpu_pcie_link_width", gpu_uuid=B) is None
    assert (value(registry, "gpus_expected"), value(registry, "gpus_seen")) == (2, 1)
    assert value(registry, "node_check_stuck_workers") == 1


def test_a_node_whose_driver_was_never_read_still_counts_its_gpus() -> None:
    registry = a_registry(facts(reading=None))

    assert (value(registry, "gpus_expected"), value(registry, "gpus_seen")) == (2, 0)


def test_a_probe_has_series_from_its_first_run_and_loses_them_with_the_gpu() -> None:
    log = ProbeLog(("xid",), {})
    log.add(replace(a_probe(A), seconds=0.5), NOW)
    log.add(replace(a_probe(A, ProbeEnd.INCONCLUSIVE), seconds=0.7), NOW + timedelta(minutes=10))
    log.add(a_probe(B, ProbeEnd.INCONCLUSIVE), NOW)

    registry = a_registry(facts(coverage=log.coverage()))
    of_a = {"gpu_uuid": A, "probe": "cuda"}
    assert value(registry, "gpu_probe_success", **of_a) == 1
    assert value(registry, "gpu_probe_duration_seconds", **of_a) == 0.7
    assert value(registry, "gpu_probe_last_success_timestamp_seconds", **of_a) == NOW.timestamp()
    assert value(registry, "gpu_probe_last_run_timestamp_seconds", **of_a) == NOW.timestamp() + 600
    assert value(registry, "gpu_probe_success", gpu_uuid=B, probe="cuda") is None
    assert value(registry, "gpu_probe_timeout_seconds", probe="cuda") == 30

    log.keep_only({A})
    assert log.coverage().keys() == {A}


def test_each_reader_of_probes_gets_each_report_once() -> None:
    log = ProbeLog(("xid", "pcie_speed"), {})
    log.add(a_probe(A), NOW)

    assert [len(log.take(each)) for each in ("xid", "xid", "pcie_speed")] == [1, 0, 1]


def test_without_a_prober_there_is_no_probe_metric() -> None:
    registry = a_registry(facts(probe_deadline=None))

    assert not any("probe" in family.name for family in registry.collect())


def test_counters_are_there_before_anything_has_happened() -> None:
    registry = CollectorRegistry()
    metrics = AgentMetrics(registry, "n1")
    metrics.saw_gpu(A, BUSES[A])

    for result in RUN_RESULTS:
        assert value(registry, "gpu_probe_runs_total", probe="cuda", result=result) == 0
    assert value(registry, "condition_patches_total", result="conflict") == 0
    assert value(registry, "gpu_xids_total", gpu_uuid=A, pci_bus_id=BUSES[A]) == 0


def test_the_same_xid_a_second_time_counts() -> None:
    registry = CollectorRegistry()
    metrics = AgentMetrics(registry, "n1")
    line = "NVRM: Xid (PCI:0000:1a:00): 31, pid=1, name=python"

    for event in xid_events(messages(line, line)):
        metrics.saw_xid(event, A)

    labels = {"gpu_uuid": A, "pci_bus_id": BUSES[A]}
    assert value(registry, "gpu_xid_events_total", xid="31", **labels) == 2
    assert value(registry, "gpu_xids_total", **labels) == 2
    assert value(registry, "gpu_xid_last_timestamp_seconds", xid="31", **labels) == NOW.timestamp()


def test_no_series_has_a_label_that_prometheus_sets_itself() -> None:
    registry = a_registry(facts())
    AgentMetrics(registry, "n1").saw_gpu(A, "bus")

    labels = {key for family in registry.collect() for s in family.samples for key in s.labels}
    assert not labels & {"job", "instance"}
    assert all(s.labels["node"] == "n1" for family in registry.collect() for s in family.samples)


def test_runs_count_by_how_they_ended() -> None:
    ends = [
        run_result(a_probe(), busy=False),
        run_result(a_probe(end=ProbeEnd.PROBLEM), busy=False),
        run_result(a_probe(end=ProbeEnd.INCONCLUSIVE), busy=True),
        run_result(replace(a_probe(end=ProbeEnd.INCONCLUSIVE), reason="Timeout"), busy=False),
        run_result(a_probe(end=ProbeEnd.INCONCLUSIVE), busy=False),
    ]

    assert ends == ["pass", "fail", "skipped_busy", "timeout", "error"]
    assert set(ends) <= set(RUN_RESULTS)
