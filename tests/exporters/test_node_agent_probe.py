"""When a GPU may be probed, when probes are due, and what they answer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.contracts import ProbeResult
from exporters.node_agent.answering import answer_to, is_final
from exporters.node_agent.probe_rules import (
    Probed,
    finding_of,
    missing_gpus,
    next_run,
    taken,
    was_taken,
    why_busy,
)
from exporters.pod_resources import DeviceUse
from exporters.readings import DriverReading, GpuReading, MigDevice, ProbeEnd, ProbeReport
from exporters.verdict import Finding, Result
from tests.exporters.check_builders import BOOT, NOW, A, B, a_driver, a_gpu, a_probe

IDLE_BYTES = 1 << 30
FREE = DeviceUse(frozenset({A, B}), frozenset())


def an_idle_gpu(uuid: str = A, **changes: Any) -> GpuReading:
    idle = {"processes": (), "exclusive_process": False, "memory_used_bytes": 1 << 20}
    return a_gpu(uuid, **(idle | changes))


def two(**changes: Any) -> DriverReading:
    return a_driver(an_idle_gpu(A, **changes), an_idle_gpu(B))


def use(*allocated: str, allocatable: tuple[str, ...] = (A, B), claimed: bool = False) -> DeviceUse:
    return DeviceUse(frozenset(allocatable), frozenset(allocated), claimed)


MIG = (MigDevice("MIG-1", "1g", None),)


@pytest.mark.parametrize(
    ("driver", "devices", "idle"),
    [
        pytest.param(two(), FREE, True, id="nobody has it and nothing runs on it"),
        pytest.param(two(), use(B), True, id="a pod has the other one"),
        pytest.param(two(), use(allocatable=()), True, id="the kubelet knows of no GPU"),
        pytest.param(two(), use(A), False, id="a pod has it"),
        pytest.param(two(), use("0", allocatable=("0", "1")), False, id="a pod has it by index"),
        pytest.param(two(), use(f"{A}::1", allocatable=(f"{A}::1",)), False, id="a pod has a share"),
        pytest.param(two(mig_devices=MIG), use("MIG-1"), False, id="a pod has a slice of it"),
        pytest.param(two(), use("gpu-x"), False, id="a pod has what tells no GPU"),
        pytest.param(two(), use(allocatable=(A, B, "7")), False, id="there is what tells no GPU"),
        pytest.param(two(), use(claimed=True), False, id="a pod has one by dynamic allocation"),
        pytest.param(two(processes=(42,)), FREE, False, id="a process computes"),
        pytest.param(two(processes=None), FREE, False, id="who computes is not told"),
        pytest.param(two(memory_used_bytes=IDLE_BYTES + 1), FREE, False, id="memory is used"),
        pytest.param(two(memory_used_bytes=None), FREE, False, id="memory is not told"),
        pytest.param(two(exclusive_process=True), FREE, False, id="one process only"),
        pytest.param(two(exclusive_process=None), FREE, False, id="its mode is not told"),
    ],
)  # fmt: skip
def test_a_gpu_is_idle_only_if_kubelet_and_driver_agree(
    driver: DriverReading, devices: DeviceUse, idle: bool
) -> None:
    assert (why_busy(driver.gpus[0], driver, devices, IDLE_BYTES) is None) is idle


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        pytest.param(FREE, False, id="nothing changed"),
        pytest.param(use(B), False, id="the other one was given away"),
        pytest.param(use(A), True, id="it was given away"),
        pytest.param(use("gpu-x"), True, id="something was given away"),
    ],
)
def test_a_gpu_that_was_given_away_meanwhile_is_noticed(after: DeviceUse, lost: bool) -> None:
    driver = two()

    assert was_taken(driver.gpus[0], driver, FREE, after) is lost


def test_a_failure_while_others_got_the_gpu_is_no_verdict() -> None:
    failed = replace(a_probe(end=ProbeEnd.PROBLEM), reason="CudaLaunchFailed", step="launch")

    assert finding_of(Probed(taken(failed))) == Finding(
        A, Result.INCONCLUSIVE, "GPUBusy", "launch; a pod got it meanwhile; CudaLaunchFailed in launch"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("end", "definite", "result"),
    [
        (ProbeEnd.PASSED, False, Result.OK),
        (ProbeEnd.PROBLEM, True, Result.PROBLEM),
        (ProbeEnd.PROBLEM, False, Result.PROBLEM),
        (ProbeEnd.INCONCLUSIVE, False, Result.INCONCLUSIVE),
    ],
)
def test_a_probe_means_what_it_says(end: ProbeEnd, definite: bool, result: Result) -> None:
    found = finding_of(Probed(a_probe(end=end), definite=definite))

    assert (found.subject, found.result, found.definite) == (A, result, definite)


PERIOD = timedelta(minutes=10)


def test_nodes_are_spread_evenly_over_the_period() -> None:
    seconds = [(next_run(NOW, PERIOD, f"node-{n}") - NOW).total_seconds() for n in range(5000)]
    a_minute = [sum(each // 60 == minute for each in seconds) for minute in range(10)]

    assert min(seconds) > 0
    assert max(seconds) <= 600
    assert all(400 < count < 600 for count in a_minute)


@given(st.integers(0, 10**9), st.text(max_size=20).filter(str.isprintable))
def test_a_restart_does_not_move_the_time_of_a_node(seconds: int, name: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    first = next_run(now, PERIOD, name)

    assert now < first <= now + PERIOD
    assert next_run(first, PERIOD, name) - first == PERIOD
    later = now + (first - now) / 2
    assert abs(next_run(later, PERIOD, name) - first) < timedelta(milliseconds=1)


# Answers.


def report(uuid: str, end: ProbeEnd) -> ProbeReport:
    return a_probe(uuid, end)


P, F, U = ProbeEnd.PASSED, ProbeEnd.PROBLEM, ProbeEnd.INCONCLUSIVE


@pytest.mark.parametrize(
    ("reports", "missing", "lost", "result", "final"),
    [
        pytest.param([(A, P), (B, P)], (), (), P, True, id="all have passed"),
        pytest.param([(A, P), (B, F)], (), (), F, True, id="one has a problem"),
        pytest.param([(A, P), (B, U)], (), (), U, False, id="one gave no verdict"),
        pytest.param([(A, F), (B, U)], (), (), F, False, id="a problem goes before no verdict"),
        pytest.param([(A, P)], (B,), (), U, False, id="one was not seen"),
        pytest.param([(A, P)], (), (B,), F, True, id="one is lost"),
        pytest.param([], (), (), U, False, id="there is none"),
        pytest.param([(A, P), (A, F)], (), (), F, True, id="two words on one GPU: the worse"),
    ],
)
def test_an_answer_passes_only_when_every_gpu_has(
    reports: list[tuple[str, ProbeEnd]],
    missing: tuple[str, ...],
    lost: tuple[str, ...],
    result: ProbeEnd,
    final: bool,
) -> None:
    told = [report(uuid, end) for uuid, end in reports]
    found = answer_to("op", BOOT, NOW, told, missing=missing, lost=lost)

    assert (found.result.value, is_final(found)) == (result.value, final)
    assert ProbeResult.parse(found.dump()) == found


def test_an_answer_is_written_as_the_remediator_reads_it() -> None:
    answer = answer_to("op-1", BOOT, NOW, [report(A, P)])

    assert answer.dump() == (
        '{"operation":"op-1","bootID":"boot-1","at":"2026-11-30T12:00:00Z",'
        '"gpus":{"GPU-aaaa":"pass"},"result":"pass"}'
    )


def test_missing_gpus_are_those_of_the_inventory_that_are_not_known_to_be_lost() -> None:
    memory = {"inventory": {A: "a", B: "b", "GPU-c": "c"}, "lost": {"GPU-c": ["GPUIsLost", 1]}}

    assert missing_gpus(memory, a_driver(a_gpu(A))) == (frozenset({B}), frozenset({"GPU-c"}))
    assert missing_gpus(None, a_driver(a_gpu(A))) == (frozenset(), frozenset())
