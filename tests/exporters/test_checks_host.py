"""Checks of the host: processes that wait in the kernel, and NFS mounts that do not answer."""

import json
from datetime import timedelta

import pytest

from chassis.contracts import PROBLEM_REASONS, ConditionType
from exporters.checks import SEVERITY, SPECS, d_state, nfs, policy_of
from exporters.readings import (
    KernelLogReading,
    MountAnswer,
    MountReading,
    MountSample,
    ProcessReading,
    ProcessSample,
)
from exporters.verdict import NODE, Memory
from tests.exporters.check_builders import (
    BOOT,
    MINUTE,
    NEXT_BOOT,
    NOW,
    a_log,
    a_process,
    told,
)

OK = ("ok", "Healthy")
STUCK = {"python3[42]": ("problem", "ProcessStuck")}
WELL = {NODE: OK}


class Samples:
    """Takes samples a minute apart, with the memory through JSON each time."""

    def __init__(self) -> None:
        self.memory: Memory | None = None
        self.now = NOW

    def take(
        self, *processes: ProcessSample, after: timedelta = MINUTE, boot: str = BOOT
    ) -> dict[str, tuple[str, str]]:
        self.now += after
        reading = ProcessReading(processes)
        found, memory = d_state.check(reading, boot, d_state.Settings(), self.now, self.memory)
        self.memory = json.loads(json.dumps(memory))
        return told(found)


def after_samples(pattern: str, process: ProcessSample | None = None) -> dict[str, tuple[str, str]]:
    samples, found = Samples(), WELL
    for letter in pattern:
        found = samples.take(*([process or a_process()] if letter == "D" else []))
    return found


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("DDDD", WELL),
        ("DDDDD", STUCK),
        ("DD-DDD", STUCK),
        ("DD--DDD", WELL),
        ("D-D-D-D-D", WELL),
        ("DDDDD-", STUCK),
        ("DDDDD--", WELL),
        ("DDDDD-D-D", STUCK),
    ],
)
def test_five_samples_with_one_miss_make_a_stuck_process(
    pattern: str, expected: dict[str, tuple[str, str]]
) -> None:
    assert after_samples(pattern) == expected


@pytest.mark.parametrize(
    ("process", "expected"),
    [
        (a_process(holds_gpu=True), {"python3[42]": ("problem", "GPUProcessStuck")}),
        (a_process(command="nvidia-smi"), {"nvidia-smi[42]": ("problem", "GPUProcessStuck")}),
        (
            a_process(command="nvidia-modeset", kernel_thread=True),
            {"nvidia-modeset[42]": ("problem", "GPUProcessStuck")},
        ),
        (a_process(command="kworker/0:1", kernel_thread=True), WELL),
        (a_process(state="S"), WELL),
    ],
    ids=["a user of a GPU", "nvidia-smi", "a thread of the driver", "a kernel thread", "asleep"],
)
def test_which_processes_count(
    process: ProcessSample, expected: dict[str, tuple[str, str]]
) -> None:
    assert after_samples("DDDDD", process) == expected


def test_a_reused_pid_is_another_process() -> None:
    samples = Samples()
    for _ in range(4):
        samples.take(a_process(start_ticks=1))

    assert samples.take(a_process(start_ticks=2)) == WELL


def test_samples_in_a_burst_count_once() -> None:
    samples = Samples()
    for _ in range(10):
        found = samples.take(a_process(), after=timedelta(seconds=1))

    assert found == WELL


@pytest.mark.parametrize("jump", [timedelta(days=-400), timedelta(days=400)])
def test_a_jump_of_the_clock_neither_makes_nor_hides_a_stuck_process(jump: timedelta) -> None:
    samples = Samples()
    samples.take(a_process())
    assert samples.take(a_process(), after=jump) == WELL
    for _ in range(3):
        found = samples.take(a_process())

    assert found == STUCK


def test_a_new_boot_starts_anew() -> None:
    samples = Samples()
    for _ in range(5):
        samples.take(a_process())

    assert samples.take(a_process(), boot=NEXT_BOOT) == WELL


def test_processes_that_cannot_be_listed_are_no_verdict_and_no_miss() -> None:
    samples = Samples()
    for _ in range(4):
        samples.take(a_process())
    unreadable = ProcessReading((), "cannot list /proc")
    found, samples.memory = d_state.check(
        unreadable, BOOT, d_state.Settings(), samples.now, samples.memory
    )

    assert told(found) == {NODE: ("inconclusive", "ProcUnreadable")}
    assert samples.take(a_process()) == STUCK


def test_thousands_of_stuck_processes_are_told_as_some() -> None:
    samples = Samples()
    crowd = [a_process(pid) for pid in range(3000)]
    for _ in range(5):
        found = samples.take(*crowd)

    assert len(found) == 200


# NFS.


def a_mount(answer: MountAnswer, source: str = "nas:/data", point: str = "/data") -> MountSample:
    return MountSample(point, source, answer)


def judged(
    *mounts: MountSample, log: KernelLogReading | None = None, memory: Memory | None = None
) -> tuple[dict[str, tuple[str, str]], Memory]:
    found, after = nfs.check(MountReading(mounts), log or a_log(), memory)
    return told(found), json.loads(json.dumps(after))


SILENT = a_log("nfs: server nas not responding, still trying")


@pytest.mark.parametrize(
    ("answer", "log", "expected"),
    [
        (MountAnswer.ANSWERED, a_log(), OK),
        (MountAnswer.ANSWERED, SILENT, OK),
        (MountAnswer.TIMED_OUT, a_log(), ("problem", "MountTimeout")),
        (MountAnswer.STILL_WAITING, a_log(), ("problem", "MountTimeout")),
        (MountAnswer.TIMED_OUT, SILENT, ("problem", "ServerNotResponding")),
        (MountAnswer.STALE, a_log(), ("problem", "StaleHandle")),
        (MountAnswer.FAILED, a_log(), ("inconclusive", "Other")),
        (MountAnswer.NOT_ASKED, a_log(), ("inconclusive", "ChildLimit")),
        (MountAnswer.NOT_ASKED, SILENT, ("problem", "ServerNotResponding")),
    ],
)
def test_a_mount_is_judged_by_its_answer_and_the_kernel_names_the_reason(
    answer: MountAnswer, log: KernelLogReading, expected: tuple[str, str]
) -> None:
    assert judged(a_mount(answer), log=log)[0] == {"/data": expected}


def test_a_server_that_is_ok_again_names_no_reason_any_more() -> None:
    _, memory = judged(a_mount(MountAnswer.TIMED_OUT), log=SILENT)
    found, memory = judged(a_mount(MountAnswer.TIMED_OUT), memory=memory)
    assert found["/data"] == ("problem", "ServerNotResponding")

    back = a_log("nfs: server nas OK")
    found, _ = judged(a_mount(MountAnswer.TIMED_OUT), log=back, memory=memory)

    assert found["/data"] == ("problem", "MountTimeout")


def test_servers_are_told_apart_also_by_ipv6_address() -> None:
    log = a_log("nfs: server fd00::1 not responding, timed out")
    mounts = (
        a_mount(MountAnswer.TIMED_OUT, "[fd00::1]:/x", "/x"),
        a_mount(MountAnswer.TIMED_OUT, "10.0.0.5:/y", "/y"),
    )

    assert judged(*mounts, log=log)[0] == {
        "/x": ("problem", "ServerNotResponding"),
        "/y": ("problem", "MountTimeout"),
    }


def test_a_node_without_such_mounts_is_well_and_an_unreadable_list_no_verdict() -> None:
    assert judged()[0] == WELL

    found, _ = nfs.check(MountReading((), "cannot read"), a_log(), None)

    assert told(found) == {NODE: ("inconclusive", "MountInfoUnreadable")}


def test_what_the_kernel_said_in_another_boot_is_forgotten() -> None:
    _, memory = judged(log=SILENT)

    found, _ = judged(a_mount(MountAnswer.TIMED_OUT), log=a_log(boot=NEXT_BOOT), memory=memory)

    assert found["/data"] == ("problem", "MountTimeout")


# All checks together.


def test_every_check_belongs_to_a_condition_and_has_a_name_of_its_own() -> None:
    assert len({spec.name for spec in SPECS}) == len(SPECS)
    assert {spec.condition for spec in SPECS} == set(ConditionType) - {
        ConditionType.GPU_RUNTIME_ERROR
    }


@pytest.mark.parametrize("condition", ConditionType)
def test_the_severity_of_a_condition_orders_exactly_its_reasons(condition: ConditionType) -> None:
    if PROBLEM_REASONS[condition]:
        assert set(SEVERITY[condition]) == set(PROBLEM_REASONS[condition])


def test_a_policy_has_the_checks_that_are_switched_on() -> None:
    policy = policy_of(ConditionType.PCIE_LINK_DEGRADED, {"pcie_width", "xid"})

    assert set(policy.checks) == {"pcie_width"}
