"""XIDs: read from kernel messages, classed by the catalogue, ended by evidence only."""

import json
from pathlib import Path

import pytest

from chassis.errors import ConfigError
from exporters.checks import xid
from exporters.readings import DriverReading, KernelLogReading, ProbeEnd, ProbeReport
from exporters.verdict import NODE, Memory
from exporters.xid_catalogue import load_catalogue, shipped_catalogue
from exporters.xids import XidAction, bus_id, xid_events
from tests.exporters.check_builders import (
    BOOT,
    NEXT_BOOT,
    A,
    B,
    a_driver,
    a_gpu,
    a_log,
    a_probe,
    an_xid,
    messages,
    told,
)

CATALOGUE = shipped_catalogue()
GPUS = a_driver(a_gpu(A), a_gpu(B))
OK = ("ok", "Healthy")
PASSED = (a_probe(B),)
NONE_LEFT = {NODE: OK}


class Rounds:
    """Runs the check round after round with its memory, which goes through JSON each time."""

    def __init__(self) -> None:
        self.memory: Memory | None = None

    def look(
        self,
        log: KernelLogReading,
        gpus: DriverReading = GPUS,
        probes: tuple[ProbeReport, ...] = (),
    ) -> dict[str, tuple[str, str]]:
        found, memory = xid.check(log, gpus, probes, CATALOGUE, self.memory)
        self.memory = json.loads(json.dumps(memory))
        return told(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off",
            (79, "0000:3b:00.0"),
        ),
        ("NVRM: Xid (0000:3B:00): 31, Ch 00000010", (31, "0000:3b:00.0")),
        ("NVRM: Xid (PCI:0000:18:00 GPU-I:05): 43, pid=9", (43, "0000:18:00.0")),
        ("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0", (149, "0018:01:00.0")),
        ("[ 12.3] NVRM: Xid (PCI:00000000:41:00.0): 13, Graphics", (13, "0000:41:00.0")),
    ],
)
def test_the_forms_of_an_xid_line_are_read(text: str, expected: tuple[int, str]) -> None:
    [event] = xid_events(messages(text))

    assert (event.code, event.bus_id) == expected


@pytest.mark.parametrize(
    "text", ["", "NVRM: loading NVIDIA UNIX", "Xid (PCI:0000:3b:00): 79", "NVRM: Xid (PCI:zz): 79,"]
)
def test_other_lines_are_no_xid(text: str) -> None:
    assert xid_events(messages(text)) == ()


def test_two_equal_xids_are_two_events_in_their_order() -> None:
    events = xid_events(messages(an_xid(31), "other", an_xid(31)))

    assert [event.sequence for event in events] == [100, 102]


def test_the_recovery_action_of_xid_154_is_read() -> None:
    text = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    [event] = xid_events(messages(an_xid(154, text=text)))

    assert event.recovery_action == 1


@pytest.mark.parametrize(("text", "expected"), [("0000:3B:00", "0000:3b:00.0"), ("x", "")])
def test_bus_ids_are_in_the_form_of_sysfs(text: str, expected: str) -> None:
    assert bus_id(text) == expected


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 68, 69, 74, 92, 94, 154, 999])
def test_codes_that_ask_for_no_reset_are_no_fault(code: int) -> None:
    assert Rounds().look(a_log(an_xid(code))) == NONE_LEFT


@pytest.mark.parametrize("code", [46, 48, 54, 62, 64, 79, 95, 109, 119, 120, 136, 140, 142, 151])
def test_codes_that_ask_for_a_reset_or_more_are_faults(code: int) -> None:
    assert Rounds().look(a_log(an_xid(code))) == {B: ("problem", f"Xid{code}"), NODE: OK}


def test_xid_45_is_no_fault_however_often_it_comes() -> None:
    assert Rounds().look(a_log(*[an_xid(45)] * 5)) == NONE_LEFT


@pytest.mark.parametrize(("word", "fault"), [("Fatal", True), ("Nonfatal", False)])
def test_the_text_of_an_nvlink_code_decides(word: str, fault: bool) -> None:
    found = Rounds().look(a_log(an_xid(149, text=f"NETIR_LINK_EVT {word} XC0")))

    assert (B in found) is fault


def test_a_contained_double_bit_error_is_superseded_and_an_uncontained_one_is_not() -> None:
    assert Rounds().look(a_log(an_xid(48), an_xid(94))) == NONE_LEFT
    assert Rounds().look(a_log(an_xid(48), an_xid(94), an_xid(95)))[B] == ("problem", "Xid95")


def test_silence_ends_no_fault_and_a_second_run_tells_it_again() -> None:
    rounds = Rounds()
    rounds.look(a_log(an_xid(119)))

    for first in range(200, 230):
        assert rounds.look(a_log(first=first))[B] == ("problem", "Xid119")


def test_a_new_boot_ends_every_fault() -> None:
    rounds = Rounds()
    rounds.look(a_log(an_xid(119)))

    assert rounds.look(a_log(boot=NEXT_BOOT)) == NONE_LEFT


def test_a_passing_probe_alone_ends_no_fault() -> None:
    rounds = Rounds()
    rounds.look(a_log(an_xid(119)))

    assert rounds.look(a_log(first=200), probes=PASSED)[B] == ("problem", "Xid119")


RESET_SEEN = {
    "the driver takes its demand back": an_xid(
        154, text="GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    ),
    "the bus finds the device anew": "pci 0000:3b:00.0: [10de:27b8] type 00 class 0x030200",
}


@pytest.mark.parametrize("line", RESET_SEEN.values(), ids=RESET_SEEN)
def test_a_reset_and_then_a_passing_probe_end_a_fault(line: str) -> None:
    rounds = Rounds()
    rounds.look(a_log(an_xid(119)))
    # A probe of the round of the reset may have run before it.
    assert B in rounds.look(a_log(line, first=200), probes=PASSED)
    assert B in rounds.look(a_log(first=300), probes=(a_probe(B, ProbeEnd.INCONCLUSIVE),))
    assert B in rounds.look(a_log(first=300), probes=(a_probe(A),))

    assert rounds.look(a_log(first=300), probes=PASSED) == NONE_LEFT


def test_a_recovery_action_that_goes_back_to_none_is_a_reset_too() -> None:
    rounds = Rounds()
    rounds.look(a_log(an_xid(119)), a_driver(a_gpu(B, recovery_action=1)))
    rounds.look(a_log(first=200), a_driver(a_gpu(B, recovery_action=0)))

    assert rounds.look(a_log(first=200), probes=PASSED) == NONE_LEFT


def test_a_fault_after_the_reset_stays() -> None:
    rounds = Rounds()
    rounds.look(a_log(an_xid(119), RESET_SEEN["the bus finds the device anew"], an_xid(79)))

    assert rounds.look(a_log(first=300), probes=PASSED)[B] == ("problem", "Xid79")


def test_a_gpu_is_still_named_when_the_driver_is_silent() -> None:
    rounds = Rounds()
    rounds.look(a_log())

    assert rounds.look(a_log(an_xid(79), first=200), a_driver())[B] == ("problem", "Xid79")


def test_an_xid_on_one_mig_slice_is_told_for_its_gpu() -> None:
    text = "NVRM: Xid (PCI:0000:3b:00 GPU-I:01): 95, pid=7"

    assert Rounds().look(a_log(text))[B] == ("problem", "Xid95")


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (a_log(unreadable="cannot read /dev/kmsg"), "KmsgUnreadable"),
        (a_log(lost=True), "KmsgOverrun"),
    ],
)
def test_a_log_that_cannot_be_read_whole_is_no_verdict(log: KernelLogReading, reason: str) -> None:
    assert Rounds().look(log) == {NODE: ("inconclusive", reason)}


def test_a_true_of_this_boot_without_a_state_file_holds_until_the_next() -> None:
    rounds = Rounds()
    rounds.memory = xid.hold(None, 79, BOOT)

    assert rounds.look(a_log(), probes=PASSED)[NODE] == ("problem", "Xid79")
    assert rounds.look(a_log(boot=NEXT_BOOT)) == NONE_LEFT


# The catalogue.


def test_the_shipped_catalogue_follows_nvidias_on_the_codes_that_others_got_wrong() -> None:
    assert (CATALOGUE.action(94), CATALOGUE.action(109)) == (
        XidAction.RESTART_APP,
        XidAction.RESET_GPU,
    )
    assert CATALOGUE.action(4711) is XidAction.NO_ACTION
    assert set(CATALOGUE.names) - {61} <= set(CATALOGUE.actions)


def test_a_site_can_class_a_code_otherwise() -> None:
    own = CATALOGUE.overridden({74: XidAction.RESET_GPU, 79: XidAction.IGNORE})
    found, _ = xid.check(a_log(an_xid(79), an_xid(74)), GPUS, (), own, None)

    assert told(found)[B] == ("problem", "Xid74")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("actions: {explode: [79]}", "actions.explode: "),
        (
            "actions: {ignore: [79], reset_gpu: [79]}",
            "XID 79 is under ignore and reset_gpu; keep one",
        ),
        ("actions: {ignore: ['79']}", "actions.ignore.0: "),
        ("names: {}", "actions: Field required"),
    ],
)
def test_a_broken_catalogue_is_refused_by_file_and_key(
    tmp_path: Path, text: str, mistake: str
) -> None:
    path = tmp_path / "xids.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError) as refused:
        load_catalogue(path)

    assert str(refused.value).startswith(f"{path}: ")
    assert mistake in str(refused.value)
