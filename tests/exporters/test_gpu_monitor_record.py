"""What a probe changes of what is known of a node: no verdict without a completed probe, none lost, none invented."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chassis.contracts import PROBE_REQUEST_ANNOTATION, ProbeVerdict
from exporters.gpu_monitor.ends import run_of, says_all
from exporters.gpu_monitor.record import (
    NodeRecord,
    Run,
    current_record,
    dump_record,
    fold,
    load_record,
    proof,
)
from exporters.probe_pods import Outcome, PodStage
from exporters.verdict import Status
from tests.exporters.probe_builders import (
    NOW,
    a_monitored_node,
    a_pod_view,
    a_report,
)

NO_VERDICT = [each for each in Outcome if not each.is_completed]
PATIENT = {
    Outcome.SKIPPED_BUSY,
    Outcome.PENDING,
    Outcome.PREEMPTED,
    Outcome.EVICTED,
    Outcome.INTERRUPTED,
}


def a_run(*ends: str, outcome: Outcome | None = None, first: int = 0, pod: str = "p1") -> Run:
    """A probe that reported on GPUs first, first + 1, …"""
    reports = [a_report(f"GPU-{first + number}", end) for number, end in enumerate(ends)]
    worst = Outcome.FAIL if "problem" in ends else Outcome.PASSED
    unclear = worst is Outcome.PASSED and "inconclusive" in ends
    said = Outcome.INCONCLUSIVE if unclear else worst
    return Run(outcome or said, reports, pod, "boot-1")


def fresh(boot_id: str = "boot-1", **changes: Any) -> NodeRecord:
    return current_record(None, a_monitored_node(**changes).view, boot_id, NOW)


def after(*runs: Run, expected: int = 2, start: NodeRecord | None = None) -> NodeRecord:
    record = start or fresh()
    for number, run in enumerate(runs):
        record = fold(record, run, expected, NOW + timedelta(hours=number))
    return record


def shown(record: NodeRecord) -> tuple[str, str]:
    return record.state.status.value, str(record.state.reason)


STORIES: dict[str, tuple[Sequence[Run], tuple[str, str]]] = {
    "nothing is known": ([], ("Unknown", "NotYetChecked")),
    "all GPUs passed": ([a_run("pass", "pass")], ("False", "Healthy")),
    "one of two passed": ([a_run("pass")], ("Unknown", "GPUBusy")),
    "one after the other passed": (
        [a_run("pass"), a_run("pass", first=1)],
        ("False", "Healthy"),
    ),
    "one of two has a problem": ([a_run("pass", "problem")], ("True", "CudaMemoryFailed")),
    "a problem on one GPU is enough": ([a_run("problem")], ("True", "CudaMemoryFailed")),
    "another GPU's pass clears nothing": (
        [a_run("problem"), a_run("pass", first=1)],
        ("True", "CudaMemoryFailed"),
    ),
    "the same GPU's pass clears": (
        [a_run("problem"), a_run("pass", first=1), a_run("pass")],
        ("False", "Healthy"),
    ),
    "no verdict on a GPU clears nothing": (
        [a_run("problem", "pass"), a_run("inconclusive", "pass")],
        ("True", "CudaMemoryFailed"),
    ),
    "no verdict on a GPU is no pass": ([a_run("inconclusive", "pass")], ("Unknown", "GPUBusy")),
    "a problem of the whole node": (
        [Run(Outcome.FAIL, [a_report("", "problem", "CudaTimeout")])],
        ("True", "CudaTimeout"),
    ),
    "a problem of the whole node is not cleared by one GPU": (
        [Run(Outcome.FAIL, [a_report("", "problem", "CudaTimeout")]), a_run("pass")],
        ("True", "CudaTimeout"),
    ),
    "a problem of the whole node is cleared by all GPUs": (
        [Run(Outcome.FAIL, [a_report("", "problem", "CudaTimeout")]), a_run("pass", "pass")],
        ("False", "Healthy"),
    ),
}


@pytest.mark.parametrize(("runs", "condition"), STORIES.values(), ids=STORIES.keys())
def test_the_condition_after_some_probes(runs: Sequence[Run], condition: tuple[str, str]) -> None:
    assert shown(after(*runs)) == condition


@pytest.mark.parametrize("outcome", NO_VERDICT)
def test_what_is_no_verdict_never_makes_a_fault_nor_clears_one(outcome: Outcome) -> None:
    nothing = [Run(outcome)] * 5

    assert after(*nothing).state.status is Status.UNKNOWN
    assert shown(after(a_run("problem"), *nothing)) == ("True", "CudaMemoryFailed")


@pytest.mark.parametrize("outcome", NO_VERDICT)
def test_only_what_is_not_somebodys_work_makes_a_healthy_node_unknown(outcome: Outcome) -> None:
    record = after(a_run("pass", "pass"), Run(outcome), Run(outcome))
    assert shown(record) == ("False", "Healthy")

    third = after(Run(outcome), start=record)

    assert (third.state.status is Status.FALSE) == (outcome in PATIENT)


def test_users_who_work_for_days_leave_the_verdict_as_it_is() -> None:
    record = after(a_run("pass", "pass"), *[Run(Outcome.PENDING)] * 50)

    assert shown(record) == ("False", "Healthy")
    assert {each.passed for each in record.gpus.values()} == {NOW}


def test_after_a_reboot_a_pass_counts_no_more_and_a_problem_still() -> None:
    record = after(a_run("pass", "problem"))
    healthy = after(a_run("pass", "pass"))
    view = a_monitored_node().view

    broken = current_record(record, view, "boot-2", NOW)
    unknown = current_record(healthy, view, "boot-2", NOW)

    assert shown(broken) == ("True", "CudaMemoryFailed")
    assert shown(unknown) == ("Unknown", "NotYetChecked")
    assert unknown.probed is None
    assert shown(after(a_run("pass", "pass"), start=broken)) == ("False", "Healthy")
    assert shown(after(a_run("pass"), start=unknown)) == ("Unknown", "GPUBusy")


def test_a_gpu_that_was_taken_out_is_given_up_once_all_others_were_seen() -> None:
    before = after(a_run("problem", "pass"))
    booted = current_record(before, a_monitored_node().view, "boot-2", NOW)

    one = after(a_run("pass", first=1), start=booted)
    both = after(a_run("pass", first=2), start=one)

    assert shown(one) == ("True", "CudaMemoryFailed")
    assert shown(both) == ("False", "Healthy")
    assert set(both.gpus) == {"GPU-1", "GPU-2"}


def test_a_gpu_that_falls_off_the_bus_keeps_its_problem_in_this_boot() -> None:
    record = after(a_run("problem", "pass"))

    less = after(a_run("pass", first=1), start=record, expected=1)

    assert shown(less) == ("True", "CudaMemoryFailed")


def test_a_condition_of_another_writer_is_taken_over() -> None:
    old = {
        "type": "GPURuntimeError",
        "reason": "CudaLaunchFailed",
        "message": "GPU-1=CudaLaunchFailed",
        "lastHeartbeatTime": "2026-11-30T11:59:00Z",
        "lastTransitionTime": "2026-11-30T10:00:00Z",
    }
    broken = fresh(conditions=[{**old, "status": "True"}])

    assert shown(broken) == ("True", "CudaLaunchFailed")
    assert shown(after(a_run("pass"), start=broken)) == ("True", "CudaLaunchFailed")
    assert shown(after(a_run("pass", "pass"), start=broken)) == ("False", "Healthy")
    assert shown(fresh(conditions=[{**old, "status": "False"}])) == ("Unknown", "NotYetChecked")


def test_a_record_is_read_back_as_it_was_written() -> None:
    record = after(a_run("pass", "problem"), Run(Outcome.PENDING), a_run("inconclusive"))

    assert load_record(dump_record(record)) == record
    assert len(dump_record(after(a_run(*["pass"] * 16), expected=16))) < 8192


@pytest.mark.parametrize(
    "text",
    ["", "{}", "no JSON", '{"boot_id":"b","state":{"type":"Ready","status":"True","reason":"","message":"","last_transition":"2026-11-30T12:00:00Z"}}', '{"boot_id":"b","state":{"type":"GPURuntimeError","status":"False","reason":"","message":"","last_transition":"2026-11-30T12:00:00"}}'],
)  # fmt: skip
def test_what_is_no_record_counts_for_nothing(text: str) -> None:
    assert load_record(text) is None


# Answers to probe requests.


def test_a_proof_passes_when_as_many_gpus_as_the_node_has_have_passed() -> None:
    answer = proof(a_run("pass", "pass"), "op-1", "boot-1", 2, NOW)

    assert (answer.operation, answer.boot_id, answer.at) == ("op-1", "boot-1", NOW)
    assert answer.gpus == {"GPU-0": ProbeVerdict.PASSED, "GPU-1": ProbeVerdict.PASSED}
    assert answer.result is ProbeVerdict.PASSED


PROOFS = {
    "a GPU is missing": (a_run("pass"), "boot-1", ProbeVerdict.INCONCLUSIVE),
    "a GPU has a problem": (a_run("pass", "problem"), "boot-1", ProbeVerdict.PROBLEM),
    "a GPU has a problem and another is missing": (a_run("problem"), "boot-1", ProbeVerdict.PROBLEM),
    "there is no verdict on a GPU": (a_run("pass", "inconclusive"), "boot-1", ProbeVerdict.INCONCLUSIVE),
    "the node rebooted meanwhile": (a_run("pass", "pass"), "boot-2", ProbeVerdict.INCONCLUSIVE),
    "the driver hangs": (Run(Outcome.FAIL, [a_report("", "problem")], boot_id="boot-1"), "boot-1", ProbeVerdict.PROBLEM),
    **{each.value: (Run(each, boot_id="boot-1"), "boot-1", ProbeVerdict.INCONCLUSIVE) for each in NO_VERDICT},
}  # fmt: skip


@pytest.mark.parametrize(("run", "boot", "result"), PROOFS.values(), ids=PROOFS.keys())
def test_a_proof_that_is_not_whole_does_not_pass(run: Run, boot: str, result: ProbeVerdict) -> None:
    assert proof(run, "op-1", boot, 2, NOW).result is result


@pytest.mark.parametrize(
    ("operation", "boot", "request_taken"),
    [
        pytest.param("op-1", "boot-1", "op-1", id="an operation"),
        pytest.param("op\n1", "boot-1", "", id="what no answer can carry"),
        pytest.param("op-1", "", "", id="a boot without a name"),
    ],
)
def test_only_a_request_that_can_be_answered_is_one(
    operation: str, boot: str, request_taken: str
) -> None:
    node = a_monitored_node(annotations={PROBE_REQUEST_ANNOTATION: operation}, boot_id=boot)

    assert (node.request, node.for_plan().request) == (request_taken, request_taken)


# How a probe ended.


@pytest.mark.parametrize(
    ("ends", "exit_code", "outcome"),
    [
        (["pass", "pass"], 0, Outcome.PASSED),
        (["pass", "problem"], 1, Outcome.FAIL),
        (["pass", "inconclusive"], 2, Outcome.INCONCLUSIVE),
        (["pass"], 0, Outcome.INCONCLUSIVE),
        (["pass", "pass"], 1, Outcome.ERROR),
        (["pass"], 1, Outcome.ERROR),
        ([], 0, Outcome.ERROR),
        ([], 137, Outcome.ERROR),
    ],
)
def test_a_failed_test_among_passed_ones_fails_and_contradictions_count_for_nothing(
    ends: list[str], exit_code: int, outcome: Outcome
) -> None:
    pod = a_pod_view(gpus=2, stage=PodStage.ENDED, exit_code=exit_code)
    reports = [a_report(f"GPU-{number}", end) for number, end in enumerate(ends)]

    run = run_of(pod, reports)

    assert run.outcome is outcome
    assert bool(run.reports) == outcome.is_completed


def test_a_cut_off_message_does_not_say_all() -> None:
    pod = a_pod_view(gpus=2, stage=PodStage.ENDED, exit_code=1)

    assert says_all(pod, [a_report("GPU-0"), a_report("GPU-1", "problem")])
    assert not says_all(pod, [a_report("GPU-1", "problem")])
    assert not says_all(pod, [a_report("GPU-0"), a_report("GPU-1")])


def test_a_probe_that_hangs_after_it_has_said_all_counts() -> None:
    pod = a_pod_view(gpus=1, stage=PodStage.ENDED, trouble=Outcome.TIMEOUT, exit_code=137)

    assert run_of(pod, [a_report("GPU-0", "problem")]).outcome is Outcome.FAIL
    assert run_of(pod, []).outcome is Outcome.TIMEOUT
    assert (
        run_of(replace(pod, trouble=Outcome.PREEMPTED), [a_report()]).outcome is Outcome.PREEMPTED
    )


# Whatever happens.

a_story = st.lists(
    st.one_of(
        st.sampled_from(NO_VERDICT).map(Run),
        st.builds(
            lambda ends, first: a_run(*ends, first=first),
            st.lists(st.sampled_from(["pass", "problem", "inconclusive"]), min_size=1, max_size=3),
            st.integers(0, 2),
        ),
        st.just("reboot"),
    ),
    max_size=12,
)


def note_down(run: Run, passed: set[str], broken: set[str]) -> None:
    for report in run.reports:
        if report.end != "inconclusive":
            good, bad = (passed, broken) if report.end == "pass" else (broken, passed)
            good.add(report.uuid)
            bad.discard(report.uuid)


@settings(max_examples=300, deadline=None)
@given(story=a_story)
def test_false_stands_on_passes_of_this_boot_and_true_on_a_problem_that_was_not_disproved(
    story: list[Any],
) -> None:
    """The two promises, against a plain account of which GPU last gave which verdict."""
    record, boot = fresh(), 1
    passed: set[str] = set()
    broken: set[str] = set()
    given_up: set[str] = set()
    for number, each in enumerate(story):
        if each == "reboot":
            boot += 1
            passed = set()
            view = a_monitored_node().view
            record = current_record(record, view, f"boot-{boot}", NOW)
        else:
            note_down(each, passed, broken)
            given_up -= {report.uuid for report in each.reports if report.end == "problem"}
            record = fold(record, each, 3, NOW + timedelta(minutes=number))
        record = load_record(dump_record(record)) or pytest.fail("the record was lost")
        if record.state.status is Status.FALSE:
            assert len(passed) >= 3
        assert broken <= set(record.gpus) or len(record.gpus) >= 3
        given_up |= broken - set(record.gpus)  # such a GPU is a new one when it is back
        if (broken - given_up) & set(record.gpus):
            assert record.state.status is Status.TRUE
        if record.state.status is Status.TRUE:
            assert broken
