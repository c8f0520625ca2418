"""The probe of a whole node: which devices, what when NVML or CUDA cannot be asked, and the command."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.contracts import ConditionReason
from exporters.cuda_probe.devices import Target
from exporters.cuda_probe.lines import exit_status, format_report, parse_reports
from exporters.cuda_probe.running import GpuProbe, ProbeOptions, clean_environment, parse_records
from exporters.cuda_probe.steps import Outcome, Step
from exporters.cuda_probe.verdict import Run, Surroundings, judge
from exporters.killable_child import ChildPool, EndKind
from exporters.readings import (
    DriverReading,
    DriverStatus,
    GpuReading,
    PcieLink,
    ProbeEnd,
    ProbeReport,
)
from tests.exporters.driver_peers import (
    PYTHON,
    FakeNode,
    gpu_uuid,
    needs_compiler,
    shared_folder,
)

PASSED, PROBLEM, UNCLEAR = ProbeEnd.PASSED, ProbeEnd.PROBLEM, ProbeEnd.INCONCLUSIVE


@pytest.fixture
def node(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> FakeNode:
    return FakeNode.build(tmp_path, shared_folder(tmp_path_factory))


def ends(reports: tuple[ProbeReport, ...]) -> dict[str, tuple[ProbeEnd, str]]:
    return {each.uuid: (each.end, each.reason) for each in reports}


# Devices.


@needs_compiler
def test_one_faulty_gpu_of_several_is_the_one_that_is_told(node: FakeNode) -> None:
    assert ends(node.probe({"gpus": 3, "cuInit@1": 999})) == {
        gpu_uuid(0): (PASSED, "Healthy"),
        gpu_uuid(1): (PROBLEM, "CudaInitFailed"),
        gpu_uuid(2): (PASSED, "Healthy"),
    }


@needs_compiler
def test_each_mig_slice_is_probed_and_its_gpu_is_not(node: FakeNode) -> None:
    scenario = {"gpus": 2, "mig@1": 1, "slices@1": 2}

    assert ends(node.probe(scenario)) == {
        gpu_uuid(0): (PASSED, "Healthy"),
        gpu_uuid(1, 1): (PASSED, "Healthy"),
        gpu_uuid(1, 2): (PASSED, "Healthy"),
    }


@needs_compiler
@pytest.mark.parametrize(
    ("wanted", "probed"),
    [
        ([gpu_uuid(1)], {gpu_uuid(1, 1), gpu_uuid(1, 2)}),
        ([gpu_uuid(1, 2)], {gpu_uuid(1, 2)}),
        ([gpu_uuid(0)], {gpu_uuid(0)}),
    ],
    ids=["a GPU in MIG mode: its slices", "one slice", "another GPU"],
)
def test_only_what_is_wanted_is_probed(node: FakeNode, wanted: list[str], probed: set[str]) -> None:
    reports = node.probe({"gpus": 2, "mig@1": 1, "slices@1": 2}, *wanted)

    assert ends(reports) == dict.fromkeys(probed, (PASSED, "Healthy"))


@needs_compiler
def test_mig_without_a_slice_is_no_verdict(node: FakeNode) -> None:
    assert ends(node.probe({"mig": 1})) == {gpu_uuid(): (UNCLEAR, "NotSupported")}


@needs_compiler
def test_a_gpu_that_is_wanted_and_not_there_is_no_verdict(node: FakeNode) -> None:
    reports = node.probe({}, gpu_uuid(9))

    assert ends(reports) == {gpu_uuid(9): (UNCLEAR, "Other")}


@needs_compiler
@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (15, (PROBLEM, "CudaInitFailed")),
        (16, (PROBLEM, "CudaInitFailed")),
        (4, (UNCLEAR, "Other")),
        (999, (UNCLEAR, "Other")),
    ],
    ids=["lost", "needs a reset", "no permission", "unknown"],
)
def test_a_gpu_that_nvml_counts_but_cannot_open_is_told_beside_the_others(
    node: FakeNode, code: int, verdict: tuple[ProbeEnd, str]
) -> None:
    reports = node.probe({"gpus": 2, "nvmlDeviceGetHandleByIndex_v2@1": code})

    assert ends(reports) == {gpu_uuid(0): (PASSED, "Healthy"), "index:1": verdict}


# NVML cannot be asked.


@needs_compiler
@pytest.mark.parametrize(
    ("scenario", "without"),
    [
        ({"nvmlInitWithFlags": 999}, None),
        ({"nvmlInitWithFlags": 18}, None),
        ({}, "libnvidia-ml.so.1"),
    ],
    ids=["it fails", "its version is another", "it is missing"],
)
def test_without_nvml_the_devices_are_those_of_cuda(
    node: FakeNode, scenario: Mapping[str, object], without: str | None
) -> None:
    reports = node.probe({**scenario, "gpus": 2}, without=without)

    assert ends(reports) == dict.fromkeys((gpu_uuid(0), gpu_uuid(1)), (PASSED, "Healthy"))


@needs_compiler
@pytest.mark.parametrize(
    ("scenario", "verdict"),
    [
        ({"nvmlInitWithFlags": 18, "cuInit": 999}, (UNCLEAR, "VersionMismatch")),
        ({"nvmlInitWithFlags": 4, "cuInit": 999}, (UNCLEAR, "NoPermission")),
        ({"nvmlInitWithFlags": 9, "cuInit": 100}, (UNCLEAR, "DriverNotLoaded")),
        ({"nvmlInitWithFlags": 999, "cuInit": 100}, (UNCLEAR, "Other")),
        ({"nvmlInitWithFlags": 999, "cuInit": 999}, (PROBLEM, "CudaInitFailed")),
        ({"nvmlInitWithFlags": 999, "cuInit": 802}, (PROBLEM, "SystemNotReady")),
        ({"nvmlInitWithFlags": 15, "gpus": 0}, (PROBLEM, "CudaInitFailed")),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None,
)
def test_when_both_fail_the_cause_decides(
    node: FakeNode, scenario: Mapping[str, object], verdict: tuple[ProbeEnd, str]
) -> None:
    node.add_pci_device()

    assert ends(node.probe(scenario)) == {"": verdict}


@needs_compiler
def test_a_lost_gpu_that_keeps_nvml_from_starting_is_not_passed_over(node: FakeNode) -> None:
    assert ends(node.probe({"nvmlInitWithFlags": 15})) == {
        "": (PROBLEM, "CudaInitFailed"),
        gpu_uuid(): (PASSED, "Healthy"),
    }


@needs_compiler
def test_a_hanging_nvml_is_no_verdict_on_gpus_that_compute(node: FakeNode) -> None:
    reports = node.probe({"nvmlInitWithFlags": "hang"}, seconds=10)

    assert ends(reports) == {gpu_uuid(): (PASSED, "Healthy")}


@needs_compiler
@pytest.mark.parametrize(
    ("scenario", "without", "reason"),
    [
        ({"gpus": 0}, None, "NotSupported"),
        ({}, "libcuda.so.1", "DriverNotLoaded"),
    ],
    ids=["no GPU", "no libcuda"],
)
def test_where_nothing_can_be_probed_there_is_no_verdict(
    node: FakeNode, scenario: Mapping[str, object], without: str | None, reason: str
) -> None:
    reports = node.probe(scenario, without=without)

    assert [(each.end, each.reason) for each in reports] == [(UNCLEAR, reason)]


@needs_compiler
def test_a_machine_without_nvidia_anything_is_no_verdict(node: FakeNode) -> None:
    options = ProbeOptions(root=node.root)
    probe = GpuProbe(node.pool, {"PATH": os.environ["PATH"]}, options)

    assert [each.end for each in probe.run()] == [UNCLEAR]


# Drivers and surroundings.


@needs_compiler
@pytest.mark.parametrize("broken", [False, True], ids=["a good GPU", "a GPU that computes wrong"])
def test_an_old_driver_without_the_later_functions_is_probed(node: FakeNode, broken: bool) -> None:
    scenario: dict[str, object] = {"capability": 35, "ptx_newest": 31}
    reports = node.probe({**scenario, "wrong_word": 3} if broken else scenario, old=True)

    assert [each.end for each in reports] == [PROBLEM if broken else PASSED]


@needs_compiler
def test_an_old_driver_that_cannot_name_an_error_has_it_named(node: FakeNode) -> None:
    assert node.probe({"cuInit": 999}, old=True)[0].error_name == "CUDA_ERROR_UNKNOWN"


@needs_compiler
def test_a_library_without_the_functions_is_no_verdict(node: FakeNode) -> None:
    options = ProbeOptions(library="libc.so.6", root=node.root)
    reports = GpuProbe(node.pool, node.environment({}), options).run()

    assert [(each.end, each.reason, each.message) for each in reports] == [
        (UNCLEAR, "NotSupported", "missing: function cuInit")
    ]


@needs_compiler
def test_cuda_settings_of_the_surroundings_do_not_reach_the_probe(node: FakeNode) -> None:
    more = {"CUDA_DISABLE_JIT": "1", "CUDA_DISABLE_PTX_JIT": "1", "CUDA_VISIBLE_DEVICES": "none"}

    assert [each.end for each in node.probe({}, more=more)] == [PASSED]


def test_the_way_to_mps_is_kept() -> None:
    given_ = {"CUDA_MPS_PIPE_DIRECTORY": "/mps", "CUDA_LAUNCH_BLOCKING": "1", "PATH": "/bin"}

    assert clean_environment(given_) == {
        "CUDA_MPS_PIPE_DIRECTORY": "/mps",
        "PATH": "/bin",
        "CUDA_CACHE_DISABLE": "1",
    }


@needs_compiler
def test_the_link_is_read_while_data_is_copied(node: FakeNode) -> None:
    scenario = {"link_generation_idle": 1, "link_generation": 4, "link_width": 8}

    assert node.read(scenario).gpus[0].link == PcieLink(8, 16, 1, 4)
    report = node.probe(scenario, bandwidth=True)[0]
    assert (report.end, report.link) == (PASSED, PcieLink(8, 16, 4, 4))
    assert report.bandwidth_bytes_per_second is not None
    assert report.bandwidth_bytes_per_second > 1_000_000


@needs_compiler
def test_a_copy_that_fails_in_the_bandwidth_loop_is_a_problem(node: FakeNode) -> None:
    report = node.probe({"second.cuMemcpyHtoD_v2": 214}, bandwidth=True)[0]

    assert (report.end, report.reason, report.step) == (PROBLEM, "CudaMemoryFailed", "bandwidth")


@needs_compiler
def test_an_nvml_that_fails_under_load_costs_the_link_alone(node: FakeNode) -> None:
    report = node.probe({"nvmlDeviceGetHandleByPciBusId_v2": 999}, bandwidth=True)[0]

    assert (report.end, report.link) == (PASSED, PcieLink(None, None, None, None))


# A child that cannot be killed.


@needs_compiler
def test_a_probe_that_cannot_be_killed_is_a_problem_and_is_not_doubled(node: FakeNode) -> None:
    kept: list[int] = []
    pool = ChildPool(os.environ, kill=kept.append, reap_wait=timedelta(milliseconds=100))
    options = ProbeOptions(memory_mib=1, deadline=timedelta(seconds=10), root=node.root)
    environment = node.environment({"gpus": 2, "cuCtxSynchronize@1": "hang"})
    probe = GpuProbe(pool, environment, options)
    wanted = {
        gpu_uuid(0): (PASSED, "Healthy"),
        gpu_uuid(1): (PROBLEM, "CudaTimeout"),
    }

    first, hung = ends(probe.run()), pool.stuck_keys
    again, still_hung = ends(probe.run()), pool.stuck_keys
    for group in set(kept):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    until = time.monotonic() + 30
    while pool.stuck and time.monotonic() < until:
        time.sleep(0.01)

    assert pool.stuck == 0
    assert (first, again) == (wanted, wanted)
    assert hung == still_hung == (f"gpu-probe {gpu_uuid(1)}",)


# The command and its lines.


@needs_compiler
@pytest.mark.parametrize(
    ("scenario", "status", "told"),
    [
        ({"gpus": 2}, 0, ["pass", "pass"]),
        ({"gpus": 2, "cuInit@1": 999}, 1, ["pass", "problem"]),
        ({"gpus": 2, "cuInit@1": 803}, 2, ["pass", "inconclusive"]),
        ({"gpus": 2, "cuInit@0": 803, "wrong_word@1": 1}, 1, ["inconclusive", "problem"]),
        ({"gpus": 0}, 2, ["inconclusive"]),
    ],
    ids=["all pass", "a problem", "no verdict on one", "a problem goes first", "no GPU"],
)
def test_the_exit_status_is_that_of_the_worst_device(
    node: FakeNode, scenario: Mapping[str, object], status: int, told: list[str]
) -> None:
    done = subprocess.run(
        [PYTHON, "-m", "exporters", "gpu-probe", "--memory-mib", "1", "--root", str(node.root)],
        env=node.environment(scenario),
        capture_output=True,
        check=False,
        text=True,
    )

    assert (done.returncode, done.stderr) == (status, "")
    assert [json.loads(line)["end"] for line in done.stdout.splitlines()] == told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--memory-mib", "0"], "argument --memory-mib: write a whole number from 1 to 8192"),
        (["--memory-mib", "many"], "argument --memory-mib: write a whole number from 1 to 8192"),
        (["--deadline", "30"], "argument --deadline: not a duration"),
        (["--deadline", "0"], "argument --deadline: must be longer than 0"),
    ],
)
def test_unusable_arguments_are_told(arguments: list[str], words: str) -> None:
    done = subprocess.run(
        [PYTHON, "-m", "exporters", "gpu-probe", *arguments],
        capture_output=True,
        check=False,
        text=True,
    )

    assert done.returncode == 2
    assert words in done.stderr


def a_report(end: ProbeEnd = PASSED) -> ProbeReport:
    link = PcieLink(16, 16, 4, None)
    return ProbeReport("GPU-1", 'A "100"', end, "Healthy", "done", None, "", 0.5, "", link, 1e10)


def test_a_line_is_read_back_as_the_report_that_it_was() -> None:
    log = f"starting\n{format_report(a_report())}\n{{}}\n{format_report(a_report(UNCLEAR))}"

    assert parse_reports(log) == (a_report(), a_report(UNCLEAR))


@pytest.mark.parametrize("uuid", ["GPU-\n1", "GPU-é", "G" * 97])
def test_a_line_whose_uuid_is_none_is_no_report(uuid: str) -> None:
    assert parse_reports(format_report(replace(a_report(), uuid=uuid))) == ()


def test_no_report_is_no_verdict() -> None:
    assert exit_status([]) == 2


def test_what_a_driver_prints_between_the_lines_is_left_out() -> None:
    assert parse_records(b'{"step": "init"}\nwarning\n[1]\n\xff\n{"step"') == ({"step": "init"},)


# For whatever a child may do.

IDLE = GpuReading(0, "GPU-a", "A", "", processes=(), memory_total_bytes=1, memory_used_bytes=0)
USED = GpuReading(0, "GPU-a", "A", "", processes=(1,))
RUNS = st.builds(
    Run,
    kind=st.sampled_from(EndKind),
    exit_code=st.sampled_from([None, 0, 1, -11]),
    step=st.sampled_from(Step),
    outcome=st.none()
    | st.builds(
        Outcome,
        step=st.sampled_from(Step),
        uuid=st.sampled_from([None, "a", "b"]),
        error_code=st.none() | st.integers(0, 1000),
        missing=st.sampled_from(["", "libcuda"]),
        wrong_words=st.sampled_from([0, 1]),
    ),
    seconds=st.just(1.0),
)
DRIVER = DriverReading(DriverStatus.READ, count=1, gpus=(IDLE,))


@given(run=RUNS, before=st.sampled_from([None, IDLE, USED]))
def test_nothing_passes_but_a_complete_run_with_right_data_on_the_right_gpu(
    run: Run, before: GpuReading | None
) -> None:
    report = judge(Target("GPU-a", "GPU-a", gpu=before), run, Surroundings(DRIVER, before))
    outcome = run.outcome
    complete = (
        run.kind is EndKind.EXITED
        and outcome is not None
        and (outcome.step, outcome.error_code, outcome.missing) == (Step.DONE, None, "")
        and outcome.wrong_words == 0
        and outcome.uuid in {None, "a"}
    )

    assert (report.end is PASSED) == complete
    assert (report.reason == ConditionReason.HEALTHY) == complete


@given(run=RUNS)
def test_others_on_the_gpu_only_ever_explain_a_problem_away(run: Run) -> None:
    target = Target("GPU-a", "GPU-a", gpu=IDLE)
    alone = judge(target, run, Surroundings(DRIVER, IDLE))
    with_others = judge(target, run, Surroundings(DRIVER, IDLE, USED))

    assert with_others.end in {alone.end, UNCLEAR}
