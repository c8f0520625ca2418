"""Checks and verdict together, as an agent runs them: from readings over rounds, boots and restarts to conditions."""

import json
from collections.abc import Callable

import pytest

from chassis.contracts import ConditionType
from exporters.checks import (
    d_state,
    gpu_lost,
    gpu_pages,
    nfs,
    pcie_speed,
    pcie_width,
    policy_of,
    recovery_action,
    xid,
)
from exporters.readings import (
    DriverReading,
    DriverStatus,
    KernelLogReading,
    MountReading,
    NvmlError,
    PcieLink,
    ProbeReport,
    ProcessReading,
)
from exporters.verdict import (
    NODE,
    CheckReport,
    ConditionState,
    Finding,
    Memory,
    Result,
    adopt,
    dump_state,
    load_state,
    step,
)
from exporters.xid_catalogue import shipped_catalogue
from tests.exporters.check_builders import (
    BOOT,
    MINUTE,
    NEXT_BOOT,
    NOW,
    A,
    B,
    a_driver,
    a_gpu,
    a_log,
    a_probe,
    an_xid,
)

CATALOGUE = shipped_catalogue()
LOST = NvmlError(15, "DeviceGetUUID")
BOTH = a_driver(a_gpu(A), a_gpu(B))
BLIND = DriverReading(DriverStatus.TIMED_OUT)
Pair = tuple[tuple[Finding, ...], Memory]


class Agent:
    """The part of an agent that is pure, one condition; what it remembers goes through JSON each round."""

    def __init__(self, condition: ConditionType, *checks: str) -> None:
        self.policy = policy_of(condition, checks)
        self.memories: dict[str, Memory] = {}
        self.state: ConditionState | None = None
        self.now = NOW

    def round(self, **checks: Callable[[Memory | None], Pair]) -> tuple[str, str]:
        self.now += MINUTE
        for name, check in checks.items():
            found, memory = check(self.memories.get(name))
            self.memories[name] = json.loads(json.dumps(memory))
            report = CheckReport(name, self.policy.type, found, self.now)
            self.state = step(self.state, report, self.policy, self.now)
        return self.seen

    @property
    def seen(self) -> tuple[str, str]:
        assert self.state is not None
        return (str(self.state.status), self.state.reason)

    def restart(self) -> None:
        """Come up again with the state file."""
        assert self.state is not None
        self.state = load_state(json.loads(json.dumps(dump_state(self.state))))

    def reboot(self) -> None:
        """Come up in a new boot: tracks are of the old one, memories know by themselves."""
        self.state = adopt(self.state, self.now, self.now + MINUTE, self.policy, self.now)


def lost(
    reading: DriverReading, boot: str = BOOT, log: KernelLogReading | None = None
) -> Callable[[Memory | None], Pair]:
    kernel = log.messages if log else ()
    return lambda memory: gpu_lost.check(reading, kernel, boot, gpu_lost.Settings(), memory)


def width(reading: DriverReading) -> Callable[[Memory | None], Pair]:
    return lambda memory: pcie_width.check(reading, {}, BOOT, memory)


def speed(reading: DriverReading, *probes: ProbeReport) -> Callable[[Memory | None], Pair]:
    return lambda memory: pcie_speed.check(reading, probes, BOOT, memory)


def xids(
    log: KernelLogReading, *probes: ProbeReport, gpus: DriverReading = BOTH
) -> Callable[[Memory | None], Pair]:
    return lambda memory: xid.check(log, gpus, probes, CATALOGUE, memory)


def test_a_lost_gpu_is_true_at_once_and_only_a_new_boot_with_all_gpus_ends_it() -> None:
    agent = Agent(ConditionType.GPU_IS_LOST, "gpu_lost")
    gone = a_driver(a_gpu(A), errors=((1, LOST),))
    assert agent.round(gpu_lost=lost(BOTH)) == ("False", "Healthy")
    assert agent.round(gpu_lost=lost(gone)) == ("True", "GPUIsLost")
    assert agent.state is not None
    assert agent.state.message == f"{B}=GPUIsLost"
    agent.restart()
    for reading in (BOTH, BLIND, BOTH, BOTH):
        assert agent.round(gpu_lost=lost(reading)) == ("True", "GPUIsLost")

    agent.reboot()
    assert agent.round(gpu_lost=lost(BLIND, NEXT_BOOT)) == ("True", "GPUIsLost")
    assert agent.round(gpu_lost=lost(BOTH, NEXT_BOOT)) == ("True", "GPUIsLost")
    assert agent.round(gpu_lost=lost(BOTH, NEXT_BOOT)) == ("False", "Healthy")


def test_a_recovery_action_is_told_while_all_else_looks_healthy_and_its_end_clears() -> None:
    agent = Agent(ConditionType.GPU_IS_LOST, "gpu_lost", "recovery_action")

    def both(action: int) -> tuple[str, str]:
        reading = a_driver(a_gpu(A, recovery_action=0), a_gpu(B, recovery_action=action))
        return agent.round(
            gpu_lost=lost(reading),
            recovery_action=lambda memory: recovery_action.check(reading, BOOT, memory),
        )

    assert [both(action) for action in (0, 1, 0, 0)] == [
        ("False", "Healthy"),
        ("True", "ResetRequired"),
        ("True", "ResetRequired"),
        ("False", "Healthy"),
    ]


def test_an_idle_link_leaves_width_alone_to_say_healthy_and_a_slow_one_under_load_is_found() -> (
    None
):
    agent = Agent(ConditionType.PCIE_LINK_DEGRADED, "pcie_width", "pcie_speed")
    idle = a_driver(a_gpu(A, link=PcieLink(16, 16, 1, 5)))
    for _ in range(10):
        found = agent.round(pcie_width=width(idle), pcie_speed=speed(idle))
    assert found == ("False", "Healthy")

    slow = a_probe(A, link=PcieLink(16, 16, 3, 5))
    for _ in range(3):
        agent.round(pcie_width=width(idle), pcie_speed=speed(idle))  # between the probes
        found = agent.round(pcie_width=width(idle), pcie_speed=speed(idle, slow))
    assert found == ("True", "LinkSpeedReduced")

    for _ in range(10):
        found = agent.round(pcie_width=width(idle), pcie_speed=speed(idle))
    assert found == ("True", "LinkSpeedReduced"), "width and idleness clear no speed"

    good = a_probe(A, link=PcieLink(16, 16, 5, 5))
    agent.round(pcie_speed=speed(idle, good))
    assert agent.round(pcie_speed=speed(idle, good)) == ("False", "Healthy")


def test_repeated_application_errors_and_a_reboot_leave_nothing_behind() -> None:
    agent = Agent(ConditionType.GPU_XID_ERROR, "xid")
    assert agent.round(xid=xids(a_log(*[an_xid(94)] * 50))) == ("False", "Healthy")
    assert agent.round(xid=xids(a_log(an_xid(95), first=300))) == ("True", "Xid95")

    agent.reboot()
    assert agent.seen == ("True", "Xid95")
    assert agent.round(xid=xids(a_log(boot=NEXT_BOOT))) == ("False", "Healthy")


def test_a_log_that_cannot_be_read_for_long_is_unknown_and_hides_no_fault() -> None:
    agent = Agent(ConditionType.GPU_XID_ERROR, "xid")
    broken = a_log(unreadable="cannot read /dev/kmsg")
    agent.round(xid=xids(a_log()))
    found = [agent.round(xid=xids(broken)) for _ in range(3)]
    assert found == [("False", "Healthy")] * 2 + [("Unknown", "KmsgUnreadable")]

    agent.round(xid=xids(a_log(an_xid(79))))
    assert [agent.round(xid=xids(broken)) for _ in range(5)] == [("True", "Xid79")] * 5


NOTHING = {
    "gpu_lost": (ConditionType.GPU_IS_LOST, lost(DriverReading(DriverStatus.NOT_INSTALLED))),
    "gpu_pages": (
        ConditionType.GPU_PENDING_PAGE,
        lambda memory: gpu_pages.check(DriverReading(DriverStatus.NOT_INSTALLED), BOOT, memory),
    ),
    "pcie_width": (
        ConditionType.PCIE_LINK_DEGRADED,
        width(DriverReading(DriverStatus.NOT_INSTALLED)),
    ),
}


@pytest.mark.parametrize("check", NOTHING)
def test_a_node_without_gpu_is_unknown_as_not_supported_and_never_healthy(check: str) -> None:
    condition, look = NOTHING[check]
    agent = Agent(condition, check)
    for _ in range(5):
        found = agent.round(**{check: look})

    assert found == ("Unknown", "NotSupported")


UNREADABLE: dict[str, tuple[ConditionType, Callable[[Memory | None], Pair]]] = {
    "gpu_lost": (ConditionType.GPU_IS_LOST, lost(BLIND)),
    "gpu_pages": (
        ConditionType.GPU_PENDING_PAGE,
        lambda memory: gpu_pages.check(BLIND, BOOT, memory),
    ),
    "pcie_width": (ConditionType.PCIE_LINK_DEGRADED, width(BLIND)),
    "pcie_speed": (ConditionType.PCIE_LINK_DEGRADED, speed(BLIND)),
    "xid": (ConditionType.GPU_XID_ERROR, xids(a_log(unreadable="no"))),
    "d_state": (
        ConditionType.D_STATE_PROCESS,
        lambda memory: d_state.check(
            ProcessReading((), "no"), BOOT, d_state.Settings(), NOW, memory
        ),
    ),
    "nfs": (
        ConditionType.NFS_MOUNT_STUCK,
        lambda memory: nfs.check(MountReading((), "no"), a_log(), memory),
    ),
}


@pytest.mark.parametrize("check", UNREADABLE)
def test_a_check_that_could_not_look_neither_says_healthy_nor_clears_a_true(check: str) -> None:
    condition, look = UNREADABLE[check]
    agent = Agent(condition, check)
    assert agent.round(**{check: look})[0] == "Unknown"

    problem = Finding("x", Result.PROBLEM, "Bad", definite=True)
    agent.round(**{check: lambda memory: ((problem,), memory or {})})
    for _ in range(9):
        agent.round(**{check: look})
    assert agent.seen == ("True", "Bad")


def test_the_findings_of_an_unreadable_round_are_about_the_node() -> None:
    for _, look in UNREADABLE.values():
        assert {finding.subject for finding in look(None)[0]} == {NODE}
