"""Checks of what the driver tells of its GPUs: lost ones, pending pages, recovery actions, PCIe links."""

import json
from typing import Any

import pytest

from exporters.checks import gpu_lost, gpu_pages, pcie_speed, pcie_width, recovery_action
from exporters.readings import (
    DriverReading,
    DriverStatus,
    KernelMessage,
    MigDevice,
    NvmlError,
    PcieLink,
)
from exporters.verdict import NODE, Memory
from tests.exporters.check_builders import (
    BOOT,
    BUSES,
    NEXT_BOOT,
    A,
    B,
    C,
    a_driver,
    a_gpu,
    a_probe,
    an_xid,
    messages,
    told,
)

LOST, RESET = NvmlError(15, "DeviceGetUUID"), NvmlError(16, "DeviceGetMemoryInfo")
NO_PERMISSION = NvmlError(4, "DeviceGetHandleByIndex")
ALL_THREE = a_driver(a_gpu(A), a_gpu(B), a_gpu(C))
TWO_LEFT = a_driver(a_gpu(A), a_gpu(C))
FALLEN = ("problem", "GPUFallenOffBus")
MISMATCH = ("problem", "GPUCountMismatch")
OK = ("ok", "Healthy")


class Rounds:
    """Runs gpu_lost round after round with its memory, which goes through JSON each time."""

    def __init__(self, **settings: Any) -> None:
        self.memory: Memory | None = None
        self.settings = gpu_lost.Settings(**settings)

    def look(
        self, reading: DriverReading, *kernel: KernelMessage, boot: str = BOOT
    ) -> dict[str, tuple[str, str]]:
        found, memory = gpu_lost.check(reading, kernel, boot, self.settings, self.memory)
        self.memory = json.loads(json.dumps(memory))
        return told(found)


def test_all_gpus_there_are_ok() -> None:
    assert Rounds().look(ALL_THREE) == {A: OK, B: OK, C: OK}


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        pytest.param(
            a_driver(a_gpu(A), a_gpu(B, errors=(LOST,)), a_gpu(C)),
            ("problem", "GPUIsLost"),
            id="a call that says lost",
        ),
        pytest.param(
            a_driver(a_gpu(A), a_gpu(C), errors=((1, LOST),)),
            ("problem", "GPUIsLost"),
            id="a handle that says lost, named by what is missing",
        ),
        pytest.param(
            a_driver(a_gpu(A), a_gpu(B, errors=(RESET,)), a_gpu(C)),
            ("problem", "ResetRequired"),
            id="a reset required",
        ),
        pytest.param(TWO_LEFT, MISMATCH, id="one fewer than the inventory"),
    ],
)
def test_a_lost_gpu_is_told_and_takes_no_other_along(
    reading: DriverReading, expected: tuple[str, str]
) -> None:
    rounds = Rounds()
    rounds.look(ALL_THREE)

    assert rounds.look(reading) == {A: OK, B: expected, C: OK}


@pytest.mark.parametrize(
    ("reading", "reason"),
    [
        (DriverReading(DriverStatus.FAILED, NvmlError(9, "Init")), "DriverNotLoaded"),
        (DriverReading(DriverStatus.FAILED, NvmlError(12, "Init")), "NVMLLibraryMissing"),
        (DriverReading(DriverStatus.FAILED, NvmlError(4, "Init")), "NoPermission"),
        (DriverReading(DriverStatus.FAILED, NvmlError(18, "Init")), "VersionMismatch"),
        (DriverReading(DriverStatus.FAILED, NvmlError(999, "Init")), "Other"),
        (DriverReading(DriverStatus.TIMED_OUT), "Timeout"),
        (DriverReading(DriverStatus.STUCK), "Timeout"),
        (DriverReading(DriverStatus.NOT_INSTALLED), "NotSupported"),
        (a_driver(), "NotSupported"),
    ],
)
def test_a_driver_that_does_not_answer_is_no_verdict(reading: DriverReading, reason: str) -> None:
    assert Rounds().look(reading) == {NODE: ("inconclusive", reason)}


def test_a_driver_that_is_gone_where_gpus_were_is_not_unsupported() -> None:
    rounds = Rounds()
    rounds.look(ALL_THREE)
    found = rounds.look(DriverReading(DriverStatus.NOT_INSTALLED))

    assert found == {NODE: ("inconclusive", "DriverNotLoaded")}


def test_a_handle_without_permission_is_neither_lost_nor_missing() -> None:
    rounds = Rounds()
    rounds.look(ALL_THREE)
    found = rounds.look(a_driver(a_gpu(A), a_gpu(C), errors=((1, NO_PERMISSION),)))

    assert found == {A: OK, C: OK, NODE: ("inconclusive", "NoPermission")}


def test_a_gpu_too_old_to_answer_everything_is_not_lost() -> None:
    old = a_gpu(A, errors=(NvmlError(3, "DeviceGetRemappedRows"), NvmlError(13, "FieldValues")))

    assert Rounds().look(a_driver(old)) == {A: OK}


def test_a_lost_gpu_that_comes_back_by_itself_stays_lost_until_a_new_boot() -> None:
    rounds = Rounds()
    rounds.look(ALL_THREE)
    rounds.look(a_driver(a_gpu(A), a_gpu(B, errors=(LOST,)), a_gpu(C)))

    assert rounds.look(ALL_THREE)[B] == ("problem", "GPUIsLost")
    assert rounds.look(ALL_THREE, boot=NEXT_BOOT) == {A: OK, B: OK, C: OK}


def test_a_new_boot_that_still_lacks_the_gpu_heals_nothing() -> None:
    rounds = Rounds()
    rounds.look(ALL_THREE)

    assert rounds.look(TWO_LEFT, boot=NEXT_BOOT) == {A: OK, B: MISMATCH, C: OK}


def test_a_bus_reset_after_the_loss_ends_it_and_the_one_of_the_boot_does_not() -> None:
    rounds = Rounds()
    at_boot = messages("pci 0000:3b:00.0: [10de:27b8] type 00 class 0x030200", first=5)
    rounds.look(ALL_THREE, *at_boot)
    gone = messages("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", first=50)
    assert rounds.look(TWO_LEFT, *at_boot, *gone)[B] == FALLEN

    again = messages("pci 0000:3b:00.0: [10de:27b8] type 00 class 0x030200", first=60)

    assert rounds.look(ALL_THREE, *again) == {A: OK, B: OK, C: OK}


@pytest.mark.parametrize(
    "lines",
    [
        [an_xid(79, text="pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")],
        [
            "NVRM: GPU at PCI:0000:3b:00: GPU-bbbb",
            "NVRM: GPU at 0000:3b:00.0 has fallen off the bus.",
        ],
        [
            "NVRM: The NVIDIA GPU 0000:3b:00.0",
            "NVRM: (PCI ID: 10de:27b8) installed in this system has",
            "NVRM: fallen off the bus and is not responding to commands.",
        ],
        [
            "NVRM: The NVIDIA GPU 0000:3b:00.0\nNVRM: installed in this system has\nNVRM: fallen off the bus"
        ],
    ],
    ids=["XID 79", "one line", "three lines", "one record of three lines"],
)
def test_the_kernels_word_on_a_gpu_off_the_bus_counts(lines: list[str]) -> None:
    rounds = Rounds()
    rounds.look(ALL_THREE)

    assert rounds.look(ALL_THREE, *messages(*lines))[B] == FALLEN


def test_a_gap_of_a_round_is_forgiven_and_a_lasting_one_stays() -> None:
    rounds = Rounds()
    rounds.look(ALL_THREE)
    assert rounds.look(TWO_LEFT)[B] == MISMATCH
    assert rounds.look(ALL_THREE)[B] == OK

    for _ in range(3):
        rounds.look(TWO_LEFT)

    assert rounds.look(ALL_THREE)[B] == MISMATCH


def test_the_configured_number_of_gpus_counts_without_any_inventory() -> None:
    assert Rounds(expected=3).look(TWO_LEFT) == {A: OK, C: OK, NODE: MISMATCH}


def test_exchanged_hardware_becomes_the_inventory() -> None:
    rounds = Rounds()
    rounds.look(a_driver(a_gpu(A), a_gpu(B)))

    assert rounds.look(TWO_LEFT, boot=NEXT_BOOT) == {A: OK, C: OK}
    assert rounds.look(a_driver(a_gpu(A)), boot=NEXT_BOOT) == {A: OK, C: MISMATCH}


def test_a_person_can_have_losses_and_inventory_forgotten() -> None:
    rounds = Rounds()
    rounds.look(ALL_THREE)
    for _ in range(3):
        rounds.look(TWO_LEFT)
    rounds.memory = gpu_lost.forget(rounds.memory)

    assert rounds.look(TWO_LEFT) == {A: OK, C: OK}


def test_a_true_of_this_boot_without_a_state_file_holds_until_the_next() -> None:
    rounds = Rounds()
    rounds.memory = gpu_lost.hold(None, "GPUIsLost", BOOT)
    enumeration = messages("pci 0000:3b:00.0: [10de:27b8] type 00 class 0x030200", first=5)

    assert rounds.look(ALL_THREE, *enumeration)[NODE] == ("problem", "GPUIsLost")
    assert rounds.look(ALL_THREE, boot=NEXT_BOOT) == {A: OK, B: OK, C: OK}


# Pending pages.


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"row_remap_failed": False, "row_remap_pending": False}, {A: OK}),
        (
            {"row_remap_pending": True, "row_remap_failed": False},
            {A: ("problem", "RowRemapPending")},
        ),
        ({"row_remap_pending": True, "row_remap_failed": True}, {A: ("problem", "RowRemapFailed")}),
        ({"retired_pages_pending": True}, {A: ("problem", "PageRetirementPending")}),
        ({}, {NODE: ("inconclusive", "NotSupported")}),
        ({"errors": (NvmlError(999, "DeviceGetRemappedRows"),)}, {A: ("inconclusive", "Other")}),
    ],
    ids=["none", "remap pending", "remap failed", "retirement pending", "too old", "unreadable"],
)
def test_pages_are_judged_by_their_own_flag(
    values: dict[str, Any], expected: dict[str, tuple[str, str]]
) -> None:
    found, _ = gpu_pages.check(a_driver(a_gpu(A, **values)), BOOT, None)

    assert told(found) == expected


def test_a_gpu_with_mig_that_does_not_tell_is_left_out_beside_one_that_does() -> None:
    mig = a_gpu(B, mig_enabled=True, mig_devices=(MigDevice("MIG-1", "1g.5gb", None),))
    found, _ = gpu_pages.check(a_driver(a_gpu(A, row_remap_pending=False), mig), BOOT, None)

    assert told(found) == {A: OK}


def test_a_gpu_with_pending_pages_is_not_healed_by_falling_silent() -> None:
    _, memory = gpu_pages.check(a_driver(a_gpu(A, row_remap_pending=True)), BOOT, None)
    for _ in range(3):
        found, memory = gpu_pages.check(a_driver(a_gpu(A)), BOOT, memory)
        assert told(found)[A] == ("inconclusive", "Other")

    found, memory = gpu_pages.check(a_driver(a_gpu(A, row_remap_pending=False)), BOOT, memory)
    assert told(found) == {A: OK}
    assert memory["flagged"] == []


# The driver's own recovery action.


@pytest.mark.parametrize(
    ("action", "expected"),
    [(0, OK)]
    + [(action, ("problem", "ResetRequired")) for action in (1, 2, 4, 6, 7)]
    + [(action, ("inconclusive", "Other")) for action in (3, 5, 8)],
)
def test_a_driver_that_asks_for_a_reset_is_believed(action: int, expected: tuple[str, str]) -> None:
    found, _ = recovery_action.check(a_driver(a_gpu(A, recovery_action=action)), BOOT, None)

    assert told(found) == {A: expected}


def test_a_driver_without_recovery_actions_has_no_say() -> None:
    found, _ = recovery_action.check(a_driver(a_gpu(A)), BOOT, None)

    assert told(found) == {NODE: ("inconclusive", "NotSupported")}


# PCIe.


@pytest.mark.parametrize(
    ("link", "bus", "expected"),
    [
        pytest.param(PcieLink(16, 16, 1, 4), None, {A: OK}, id="full width at an idle generation"),
        pytest.param(
            PcieLink(8, 16, 4, 4), None, {A: ("problem", "LinkWidthReduced")}, id="half the lanes"
        ),
        pytest.param(
            PcieLink(8, 16, 4, 4), PcieLink(8, 8, 4, 4), {A: OK}, id="a wide card in a narrow slot"
        ),
        pytest.param(
            PcieLink(None, None, None, None),
            PcieLink(4, 16, 1, 4),
            {A: ("problem", "LinkWidthReduced")},
            id="from the bus alone",
        ),
        pytest.param(
            PcieLink(None, None, None, None),
            None,
            {NODE: ("inconclusive", "NotSupported")},
            id="a virtual machine that shows no link",
        ),
    ],
)
def test_width_is_judged_against_what_card_and_slot_can_do(
    link: PcieLink, bus: PcieLink | None, expected: dict[str, tuple[str, str]]
) -> None:
    links = {BUSES[A]: bus} if bus else {}
    found, _ = pcie_width.check(a_driver(a_gpu(A, link=link)), links, BOOT, None)

    assert told(found) == expected


def test_an_idle_link_in_power_saving_is_no_fault_and_no_verdict() -> None:
    idle = a_gpu(A, link=PcieLink(16, 16, 1, 5), utilization=0)
    found, _ = pcie_speed.check(a_driver(idle), (), BOOT, None)

    assert told(found) == {A: ("inconclusive", "GPUIdle")}


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (PcieLink(16, 16, 3, 4), ("problem", "LinkSpeedReduced")),
        (PcieLink(16, 16, 4, 4), OK),
        (PcieLink(16, 16, None, 4), ("inconclusive", "GPUIdle")),
        (None, ("inconclusive", "GPUIdle")),
    ],
)
def test_speed_is_judged_by_samples_of_the_copy_loop_alone(
    link: PcieLink | None, expected: tuple[str, str]
) -> None:
    found, _ = pcie_speed.check(a_driver(a_gpu(A), a_gpu(B)), (a_probe(A, link=link),), BOOT, None)

    assert told(found) == {A: expected, B: ("inconclusive", "GPUIdle")}
