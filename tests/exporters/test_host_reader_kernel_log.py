"""The kernel's messages: records, escapes, overruns, restarts, and user space that pretends."""

import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.host_reader import KernelLog, read_boot_id, read_boot_time
from exporters.host_reader.kernel_log import _messages
from exporters.readings import KernelLogReading
from exporters.xids import xid_events
from tests.exporters.check_builders import BOOT, an_xid

BOOT_TIME = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
XID = f"3,500,7200000000,-;{an_xid(79)}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"


def a_file(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "kmsg"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(path: Path, next_sequence: int = 0) -> KernelLogReading:
    return KernelLog(path).read(BOOT, BOOT_TIME, next_sequence)


def test_a_record_is_read_with_its_time_and_without_its_dictionary(tmp_path: Path) -> None:
    [message] = read(a_file(tmp_path, XID)).messages

    assert (message.sequence, message.text) == (500, an_xid(79))
    assert message.at == BOOT_TIME + timedelta(hours=2)


def test_a_flood_of_user_space_hides_no_xid_and_makes_none(tmp_path: Path) -> None:
    flood = "".join(f"12,{number},1,-;{an_xid(79)}\n" for number in range(20_000))
    text = flood + XID.replace("3,500", "3,20000") + flood.replace("12,", "14,")

    assert [event.sequence for event in xid_events(read(a_file(tmp_path, text)).messages)] == [
        20000
    ]


def test_a_reading_goes_on_where_the_last_ended(tmp_path: Path) -> None:
    path = a_file(tmp_path, XID)
    first = read(path)
    assert (len(first.messages), first.next_sequence) == (1, 501)
    assert read(path, first.next_sequence).messages == ()

    with path.open("a") as file:
        file.write("4,501,7200000001,-;NVRM: more\n4,502,72000")

    again = read(path, first.next_sequence)
    assert [each.text for each in again.messages] == ["NVRM: more"]
    assert again.next_sequence == 502, "a line without its end is read when it is whole"


def test_escapes_are_undone_and_bad_bytes_replaced(tmp_path: Path) -> None:
    [message] = read(a_file(tmp_path, b"4,1,1,-;a\\x0ab \\xc3\\xa4 \xff \\\n")).messages

    assert message.text == "a\nb \u00e4 \ufffd \\"


def test_the_rest_of_a_line_joins_its_beginning(tmp_path: Path) -> None:
    text = "4,1,1,c;NVRM: Xid (PCI:0000:3b:00)\n4,2,1,+;: 79, off\n"
    [message] = read(a_file(tmp_path, text)).messages

    assert message.text == "NVRM: Xid (PCI:0000:3b:00): 79, off"


@pytest.mark.parametrize(
    "text", ["", "\n\n", "no record\n", "4,1\n", "x,1,1,-;a\n", "4,1,99999999999999999999,-;a\n"]
)
def test_what_is_no_record_harms_nothing(tmp_path: Path, text: str) -> None:
    reading = read(a_file(tmp_path, text + XID))

    assert reading.messages[-1].sequence == 500
    assert reading.unreadable is None


def test_a_log_that_is_missing_is_told_and_found_when_it_comes(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "kmsg")
    assert log.read(BOOT, BOOT_TIME, 7).unreadable is not None
    a_file(tmp_path, XID)

    assert len(log.read(BOOT, BOOT_TIME, 7).messages) == 1


class Device:
    """Reads as /dev/kmsg does: a record a call, EPIPE once where some were overwritten, EAGAIN at the end."""

    def __init__(self, *records: bytes | int) -> None:
        self.records = list(records)

    def read(self, _descriptor: int, _size: int) -> bytes:
        if not self.records:
            raise BlockingIOError(errno.EAGAIN, "nothing more")
        record = self.records.pop(0)
        if isinstance(record, int):
            raise OSError(record, os.strerror(record))
        return record


def a_record(sequence: int) -> bytes:
    return f"4,{sequence},1,-;line {sequence}\n".encode()


@pytest.fixture
def opened() -> Callable[..., tuple[KernelLog, Device]]:
    def make(*records: bytes | int) -> tuple[KernelLog, Device]:
        device = Device(*records)
        # /dev/null is a device that can be opened anywhere; what it gives is the test's.
        return KernelLog(Path("/dev/null"), read=device.read), device

    return make


def sequences(reading: KernelLogReading) -> list[int]:
    return [each.sequence for each in reading.messages]


def test_an_overrun_is_told_and_reading_goes_on(
    opened: Callable[..., tuple[KernelLog, Device]],
) -> None:
    log, device = opened(a_record(0), errno.EPIPE, a_record(9))
    reading = log.read(BOOT, BOOT_TIME, 0)
    assert (sequences(reading), reading.lost, reading.next_sequence) == ([0, 9], True, 10)

    device.records = [a_record(10)]
    again = log.read(BOOT, BOOT_TIME, 10)
    log.close()

    assert (sequences(again), again.lost) == ([10], False)


def test_what_was_read_before_a_restart_is_not_told_again(
    opened: Callable[..., tuple[KernelLog, Device]],
) -> None:
    log, _ = opened(*(a_record(number) for number in range(6)))
    reading = log.read(BOOT, BOOT_TIME, 4)
    log.close()

    assert (sequences(reading), reading.lost) == ([4, 5], False)


def test_what_was_overwritten_while_nobody_read_is_an_overrun(
    opened: Callable[..., tuple[KernelLog, Device]],
) -> None:
    log, _ = opened(a_record(8))
    reading = log.read(BOOT, BOOT_TIME, 4)
    log.close()

    assert reading.lost


def test_a_device_that_fails_is_told_and_opened_anew(
    opened: Callable[..., tuple[KernelLog, Device]],
) -> None:
    log, device = opened(errno.EIO)
    reading = log.read(BOOT, BOOT_TIME, 4)
    assert reading.unreadable is not None
    assert reading.next_sequence == 4

    device.records = [a_record(4)]
    assert sequences(log.read(BOOT, BOOT_TIME, 4)) == [4]
    log.close()


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="/dev/kmsg is not readable here")
def test_the_real_log_of_this_kernel_can_be_read_twice() -> None:
    log = KernelLog(Path("/dev/kmsg"))
    boot, boot_time = read_boot_id(Path("/")), read_boot_time(Path("/"))
    first = log.read(boot, boot_time, 0)
    second = log.read(boot, boot_time, first.next_sequence)
    log.close()

    assert first.unreadable is None
    assert first.messages
    assert all(each.sequence >= first.next_sequence for each in second.messages)


@given(st.lists(st.binary(max_size=60)))
def test_any_bytes_make_a_reading(records: list[bytes]) -> None:
    found, after = _messages(records, BOOT_TIME, 5)

    assert all(each.sequence >= 5 for each in found)
    assert after >= 5
