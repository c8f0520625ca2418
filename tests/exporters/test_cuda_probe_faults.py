"""Each way in which a GPU, its driver or its surroundings can fail, on the fake driver: no false healthy, no false faulty.

All rows are GPUs of one node, probed a few at a time; NVML and CUDA are asked in real children.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from chassis.contracts import PROBLEM_REASONS, ConditionReason, ConditionType
from exporters.cuda_probe.devices import plan_probes
from exporters.cuda_probe.running import GpuProbe, ProbeOptions
from exporters.readings import ProbeEnd, ProbeReport
from tests.exporters.driver_peers import FakeNode, needs_compiler, shared_folder

pytestmark = needs_compiler

PASSED, PROBLEM, UNCLEAR = ProbeEnd.PASSED, ProbeEnd.PROBLEM, ProbeEnd.INCONCLUSIVE
Settings = Mapping[str, object]
BUSY: Settings = {"processes": "4711"}
HANG_SECONDS = 8

# function of the driver -> the step that calls it, the reason if it fails there
CALLS = {
    "cuInit": ("init", "CudaInitFailed"),
    "cuDeviceGet": ("find", "CudaInitFailed"),
    "cuDeviceGetName": ("find", "CudaInitFailed"),
    "cuDeviceGetUuid_v2": ("find", "CudaInitFailed"),
    "cuDevicePrimaryCtxRetain": ("context", "CudaContextFailed"),
    "cuCtxSetCurrent": ("context", "CudaContextFailed"),
    "cuMemAlloc_v2": ("allocate", "CudaMemoryFailed"),
    "cuMemcpyHtoD_v2": ("copy_in", "CudaMemoryFailed"),
    "cuDeviceGetAttribute": ("compile", "CudaLaunchFailed"),
    "cuModuleLoadData": ("compile", "CudaLaunchFailed"),
    "cuModuleGetFunction": ("compile", "CudaLaunchFailed"),
    "cuLaunchKernel": ("launch", "CudaLaunchFailed"),
    "cuCtxSynchronize": ("synchronize", "CudaLaunchFailed"),
    "cuMemcpyDtoH_v2": ("copy_out", "CudaMemoryFailed"),
    "cuMemFree_v2": ("free", "CudaMemoryFailed"),
    "cuDevicePrimaryCtxRelease_v2": ("free", "CudaMemoryFailed"),
}
MAY_BE_SLOW = {"init", "find", "context", "compile"}
"""Here a healthy machine may need longer than any deadline: a hang that a signal ends is no evidence."""


@dataclass(frozen=True)
class Row:
    name: str
    settings: Settings
    end: ProbeEnd
    reason: str
    step: str

    @property
    def hangs(self) -> bool:
        return "hang" in self.settings.values()


def rows_of_calls() -> Iterator[Row]:
    for call, (step, reason) in CALLS.items():
        for code in (214, 999):
            yield Row(f"{call} says {code}", {call: code}, PROBLEM, reason, step)
        for code in (1, 12345):
            yield Row(f"{call} says {code}", {call: code}, UNCLEAR, "Other", step)
        if step in MAY_BE_SLOW:
            yield Row(f"{call} hangs", {call: "hang"}, UNCLEAR, "Timeout", step)
        else:
            yield Row(f"{call} hangs", {call: "hang"}, PROBLEM, "CudaTimeout", step)


_HEALTHY: Mapping[str, Settings] = {
    "nothing wrong": {},
    "idle at Gen1": {"link_generation_idle": 1},
    "a slower link than the slot's": {"link_width": 4},
    "others use it, and there is room": BUSY,
    "exclusive, and nobody is there": {"compute_mode": 3},
    "NVML does not tell who uses it": {"nvmlDeviceGetComputeRunningProcesses": 3},
    "a page waits for retirement": {"retired_pending": 1},
    "Kepler, and a driver of its time": {"capability": 35, "ptx_newest": 31},
    "Maxwell, and a driver of its time": {"capability": 50, "ptx_newest": 40},
    "Turing, and a driver of its time": {"capability": 75, "ptx_newest": 63},
    "Ada, and a driver of its time": {"capability": 89, "ptx_newest": 78},
    "Hopper, and a driver that drops old targets": {"target_oldest": 75, "ptx_newest": 90},
    "Blackwell, and a driver of its time": {"capability": 120, "ptx_newest": 87},
    "a GPU newer than this program": {"capability": 150, "ptx_newest": 99},
    "a driver older than its GPU's target": {"capability": 90, "ptx_newest": 75},
}
HEALTHY = [Row(name, settings, PASSED, "Healthy", "done") for name, settings in _HEALTHY.items()]
_FAULTY: list[tuple[str, Settings, str, str]] = [
    ("computes the first word wrong", {"wrong_word": 0}, "CudaResultMismatch", "compare"),
    ("computes the last word wrong", {"wrong_word": 262143}, "CudaResultMismatch", "compare"),
    ("computes nothing", {"idle_kernel": 1}, "CudaResultMismatch", "compare"),
    ("flips a bit on the way in", {"corrupt_copy_in": 1}, "CudaResultMismatch", "compare"),
    ("flips a bit on the way out", {"corrupt_copy_out": 1}, "CudaResultMismatch", "compare"),
    ("has an address line stuck", {"lose_block": 1}, "CudaResultMismatch", "compare"),
    (
        "computes wrong, others or not",
        {"wrong_word": 5, **BUSY},
        "CudaResultMismatch",
        "compare",
    ),
    ("is seen by NVML only", {"cuda_blind": 1}, "CudaInitFailed", "init"),
    ("says 101 though NVML sees it", {"cuDeviceGet": 101}, "CudaInitFailed", "find"),
    ("waits for the fabric manager", {"cuInit": 802}, "SystemNotReady", "init"),
    ("has no memory, and nobody uses it", {"cuMemAlloc_v2": 2}, "CudaMemoryFailed", "allocate"),
    (
        "has no memory for a context, and nobody uses it",
        {"cuDevicePrimaryCtxRetain": 2},
        "CudaContextFailed",
        "context",
    ),
    (
        "is unavailable, and nobody uses it",
        {"cuDevicePrimaryCtxRetain": 46},
        "CudaContextFailed",
        "context",
    ),
    ("says 700", {"cuCtxSynchronize": 700}, "CudaLaunchFailed", "synchronize"),
    ("says 702", {"cuCtxSynchronize": 702}, "CudaLaunchFailed", "synchronize"),
    ("says 719", {"cuCtxSynchronize": 719}, "CudaLaunchFailed", "synchronize"),
    ("says 719 late", {"cuMemcpyDtoH_v2": 719}, "CudaMemoryFailed", "copy_out"),
    ("says 220", {"cuMemcpyHtoD_v2": 220}, "CudaMemoryFailed", "copy_in"),
    (
        "has bad memory, others or not",
        {"cuMemcpyDtoH_v2": 214, **BUSY},
        "CudaMemoryFailed",
        "copy_out",
    ),
]
FAULTY = [Row(name, settings, PROBLEM, reason, step) for name, settings, reason, step in _FAULTY]
_NOT_ITS_FAULT: list[tuple[str, Settings, str, str]] = [
    ("others have the memory", {"cuMemAlloc_v2": 2, **BUSY}, "OutOfMemory", "allocate"),
    (
        "somebody unseen has the memory",
        {"cuMemAlloc_v2": 2, "memory_used": 85899000000},
        "OutOfMemory",
        "allocate",
    ),
    (
        "no memory, and who uses it is not told",
        {"cuMemAlloc_v2": 2, "nvmlDeviceGetComputeRunningProcesses": 4},
        "OutOfMemory",
        "allocate",
    ),
    (
        "no memory, and how much is used is not told",
        {"cuMemAlloc_v2": 2, "nvmlDeviceGetMemoryInfo": 3},
        "OutOfMemory",
        "allocate",
    ),
    (
        "another has it exclusively",
        {"cuDevicePrimaryCtxRetain": 46, **BUSY},
        "GPUBusy",
        "context",
    ),
    (
        "it lets nobody in",
        {"cuDevicePrimaryCtxRetain": 46, "compute_mode": 2},
        "GPUBusy",
        "context",
    ),
    (
        "it is hidden as it lets nobody in",
        {"cuInit": 100, "compute_mode": 2},
        "GPUBusy",
        "init",
    ),
    ("others may have caused 719", {"cuCtxSynchronize": 719, **BUSY}, "GPUBusy", "synchronize"),
    (
        "a client of MPS may have caused 700",
        {"cuCtxSynchronize": 700, "mps_processes": "4712"},
        "GPUBusy",
        "synchronize",
    ),
    (
        "others keep it from answering",
        {"cuCtxSynchronize": "hang", **BUSY},
        "GPUBusy",
        "synchronize",
    ),
    (
        "no answer, and who uses it is not told",
        {"cuCtxSynchronize": "hang", "nvmlDeviceGetComputeRunningProcesses": 3},
        "Timeout",
        "synchronize",
    ),
    ("the library does not fit the driver", {"cuInit": 803}, "DriverMismatch", "init"),
    ("the compatibility library does not fit", {"cuInit": 804}, "DriverMismatch", "init"),
    ("the driver has no compiler", {"cuModuleLoadData": 221}, "NotSupported", "compile"),
    ("the compiler is switched off", {"cuModuleLoadData": 223}, "NotSupported", "compile"),
    ("the driver takes none of the texts", {"ptx_newest": 20}, "NotSupported", "compile"),
    ("it is older than all targets", {"capability": 20}, "NotSupported", "compile"),
    ("not permitted", {"cuDevicePrimaryCtxRetain": 800}, "NoPermission", "context"),
    ("MPS takes no more clients", {"cuDevicePrimaryCtxRetain": 808}, "GPUBusy", "context"),
    ("CUDA gives another GPU", {"cuda_uuid_of": 200}, "Other", "done"),
    (
        "CUDA gives another GPU, a broken one",
        {"cuda_uuid_of": 200, "wrong_word": 1},
        "Other",
        "compare",
    ),
    ("the library crashes", {"cuCtxSynchronize": "crash"}, "Other", "synchronize"),
    ("the library crashes early", {"cuInit": "crash"}, "Other", "init"),
]
NOT_ITS_FAULT = [
    Row(name, settings, UNCLEAR, reason, step) for name, settings, reason, step in _NOT_ITS_FAULT
]
CALL_ROWS = list(rows_of_calls())
GROUPS = {
    "each call fails": [row for row in CALL_ROWS if not row.hangs],
    "each call hangs": [row for row in CALL_ROWS if row.hangs],
    "healthy": HEALTHY,
    "faulty": FAULTY,
    "not its fault": NOT_ITS_FAULT,
}
ROWS = [row for rows in GROUPS.values() for row in rows]


@pytest.fixture
def node(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> FakeNode:
    return FakeNode.build(tmp_path, shared_folder(tmp_path_factory))


def probe_each(node: FakeNode, rows: list[Row]) -> list[ProbeReport]:
    """The reports on a node whose GPU with index N is as row N says."""
    scenario = {
        f"{key}@{index}": value
        for index, row in enumerate(rows)
        for key, value in row.settings.items()
    }
    environment = node.environment({"gpus": len(rows), **scenario})

    def prober(seconds: float) -> GpuProbe:
        options = ProbeOptions(memory_mib=1, deadline=timedelta(seconds=seconds), root=node.root)
        return GpuProbe(node.pool, environment, options)

    driver = prober(60).read()
    targets = plan_probes(driver).targets
    assert len(targets) == len(rows)
    with ThreadPoolExecutor(8) as hanging, ThreadPoolExecutor(2) as others:
        runs = [
            (hanging if row.hangs else others).submit(
                prober(HANG_SECONDS if row.hangs else 60).probe, target, driver
            )
            for row, target in zip(rows, targets, strict=True)
        ]
        return [run.result() for run in runs]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("group", GROUPS)
def test_every_verdict_is_right(node: FakeNode, group: str) -> None:
    rows = GROUPS[group]

    reports = probe_each(node, rows)

    assert {
        row.name: (report.end, report.reason, report.step)
        for row, report in zip(rows, reports, strict=True)
    } == {row.name: (row.end, row.reason, row.step) for row in rows}
    assert node.pool.stuck == 0


def test_the_error_is_told_by_code_and_name(node: FakeNode) -> None:
    report = node.probe({"cuInit": 999})[0]

    assert (report.error_code, report.error_name) == (999, "CUDA_ERROR_FAKE_999")


def test_there_are_as_many_ways_as_promised() -> None:
    assert len(ROWS) >= 100
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_every_reason_is_one_of_ours_and_a_problem_has_one_that_means_a_problem() -> None:
    problems = PROBLEM_REASONS[ConditionType.GPU_RUNTIME_ERROR]

    assert {row.reason for row in ROWS} <= {str(each) for each in ConditionReason}
    assert {row.reason for row in ROWS if row.end is PROBLEM} == {str(each) for each in problems}
    assert not {row.reason for row in ROWS if row.end is not PROBLEM} & {str(e) for e in problems}
