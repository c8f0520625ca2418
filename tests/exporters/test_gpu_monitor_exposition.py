"""The metrics of nodes and GPUs: there from the start, gone with their node, and readable whatever a name holds."""

from datetime import timedelta

from prometheus_client.parser import text_string_to_metric_families

from exporters.gpu_monitor.exposition import ProbeExposition
from exporters.gpu_monitor.nodes import MonitoredNode
from exporters.gpu_monitor.record import COVERAGE_ANNOTATION, Run, current_record, dump_record, fold
from exporters.probe_pods import Outcome
from tests.exporters.probe_builders import NOW, a_monitored_node, a_report

ODD = 'GPU-"\\\n'


def probed(name: str, *ends: str, version: str = "2", boot_id: str = "boot-1") -> MonitoredNode:
    """A node after a probe in boot-1 with these ends."""
    node = a_monitored_node(name, capacity=2)
    reports = [a_report(f"GPU-{number}", end) for number, end in enumerate(ends)]
    record = current_record(None, node.view, "boot-1", NOW)
    record = fold(record, Run(Outcome.INCONCLUSIVE, reports), 2, NOW)
    annotations = {COVERAGE_ANNOTATION: dump_record(record)}
    return a_monitored_node(
        name, capacity=2, annotations=annotations, version=version, boot_id=boot_id
    )


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """Samples by name and the values of their labels but `probe`."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(text.decode()):
        for each in family.samples:
            labels = [value for key, value in each.labels.items() if key != "probe"]
            assert each.labels["probe"] == "cuda"
            found[each.name.removeprefix("nodemend_gpu_probe_"), *labels] = each.value
    return found


def shown(exposition: ProbeExposition, *nodes: MonitoredNode) -> dict[tuple[str, ...], float]:
    return samples(b"".join(exposition.pieces({node.name: node for node in nodes})))


def test_all_results_count_from_zero_and_go_with_their_node() -> None:
    exposition = ProbeExposition()
    exposition.meet(["n1", "n2"])
    exposition.count("n1", Outcome.PENDING)

    found = shown(exposition)
    assert {found["runs_total", node, each.value] for node in ("n1", "n2") for each in Outcome} == {0, 1}  # fmt: skip
    assert found["runs_total", "n1", "pending"] == 1

    exposition.meet(["n1"])
    assert not any("n2" in key for key in shown(exposition))


def test_a_gpu_has_its_verdict_and_times_once_it_was_probed() -> None:
    found = shown(ProbeExposition(), probed("n1", "pass", "problem"), a_monitored_node("n2"))

    assert found["success", "n1", "GPU-0"] == 1
    assert found["success", "n1", "GPU-1"] == 0
    assert found["last_success_timestamp_seconds", "n1", "GPU-0"] == NOW.timestamp()
    assert ("last_success_timestamp_seconds", "n1", "GPU-1") not in found
    assert found["last_run_timestamp_seconds", "n1", "GPU-1"] == NOW.timestamp()
    assert (found["gpus", "n1"], found["gpus_covered", "n1"]) == (2, 2)
    assert (found["gpus", "n2"], found["gpus_covered", "n2"]) == (8, 0)


def test_no_verdict_leaves_the_last_one_and_its_times() -> None:
    node = probed("n1", "problem", "inconclusive")
    record = node.record
    assert record is not None
    later = NOW + timedelta(hours=1)
    record = fold(record, Run(Outcome.INCONCLUSIVE, [a_report("GPU-0", "inconclusive")]), 2, later)
    annotations = {COVERAGE_ANNOTATION: dump_record(record)}
    found = shown(ProbeExposition(), a_monitored_node("n1", annotations=annotations))

    assert found["success", "n1", "GPU-0"] == 0
    assert ("success", "n1", "GPU-1") not in found
    assert found["last_run_timestamp_seconds", "n1", "GPU-0"] == later.timestamp()


def test_after_a_reboot_no_gpu_is_covered_yet() -> None:
    assert shown(ProbeExposition(), probed("n1", "pass", "pass", boot_id="boot-2"))["gpus_covered", "n1"] == 0  # fmt: skip


def test_a_changed_node_is_rendered_anew() -> None:
    exposition = ProbeExposition()
    assert shown(exposition, probed("n1", "pass"))["success", "n1", "GPU-0"] == 1

    assert shown(exposition, probed("n1", "problem", version="3"))["success", "n1", "GPU-0"] == 0


def test_a_uuid_that_holds_anything_breaks_no_line() -> None:
    node = a_monitored_node("n1")
    record = current_record(None, node.view, "boot-1", NOW)
    record = fold(record, Run(Outcome.PASSED, [a_report(ODD)]), 1, NOW)
    annotations = {COVERAGE_ANNOTATION: dump_record(record)}

    found = shown(ProbeExposition(), a_monitored_node("n1", annotations=annotations))

    assert found["success", "n1", ODD] == 1
