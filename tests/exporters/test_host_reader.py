"""What is read from /proc and /sys: processes, boot, PCI devices, over made-up and broken trees."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from chassis.errors import TemporaryError
from exporters.host_reader import (
    PciDevice,
    read_boot_id,
    read_boot_time,
    read_nvidia_devices,
    read_processes,
)
from exporters.readings import PcieLink, ProcessSample


def a_stat(
    pid: int, command: bytes = b"python3", state: bytes = b"D", flags: int = 0, start: int = 777
) -> bytes:
    fields = [b"1"] * 5 + [str(flags).encode()] + [b"0"] * 12 + [str(start).encode()] + [b"0"] * 30
    return b"%d (%s) %s %s\n" % (pid, command, state, b" ".join(fields))


def a_process(
    root: Path, pid: int, stat: bytes, *, channel: str = "", opens: tuple[str, ...] = ()
) -> Path:
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "stat").write_bytes(stat)
    (folder / "wchan").write_text(channel)
    for number, target in enumerate(opens):
        (folder / "fd" / str(number)).symlink_to(target)
    return folder


def test_a_waiting_process_is_read_with_all_that_tells_it_from_others(tmp_path: Path) -> None:
    opens = ("/dev/null", "/dev/nvidia0")
    a_process(tmp_path, 42, a_stat(42), channel="rpc_wait_bit_killable", opens=opens)
    a_process(tmp_path, 43, a_stat(43, state=b"S"))

    assert read_processes(tmp_path).processes == (
        ProcessSample(42, 777, "D", "python3", False, "rpc_wait_bit_killable", True),
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [(b") S (", ") S ("), (b"a) D 1 1", "a) D 1 1"), (b"\xff\xfe x", "\\xff\\xfe x"), (b"", "")],
)
def test_a_command_may_hold_any_byte(tmp_path: Path, command: bytes, expected: str) -> None:
    a_process(tmp_path, 42, a_stat(42, command))

    assert [each.command for each in read_processes(tmp_path).processes] == [expected]


def test_a_command_that_looks_like_a_state_makes_no_sleeper_wait(tmp_path: Path) -> None:
    a_process(tmp_path, 42, a_stat(42, b"x) D ", state=b"S"))

    assert read_processes(tmp_path).processes == ()


@pytest.mark.parametrize("stat", [b"", b"42", b"42 (x", b"42 (x) D", b"42 (x) D 1 2 3", b"\0" * 99])
def test_a_truncated_stat_is_passed_over(tmp_path: Path, stat: bytes) -> None:
    a_process(tmp_path, 42, stat)
    a_process(tmp_path, 43, a_stat(43))

    assert [each.pid for each in read_processes(tmp_path).processes] == [43]


def test_a_thread_of_the_kernel_is_told_as_one(tmp_path: Path) -> None:
    a_process(tmp_path, 2, a_stat(2, b"kworker/0:0", flags=0x00208040))

    assert [each.kernel_thread for each in read_processes(tmp_path).processes] == [True]


def test_every_thread_of_a_user_of_a_gpu_is_looked_at(tmp_path: Path) -> None:
    folder = a_process(tmp_path, 42, a_stat(42, state=b"S"))
    for thread, state in ((42, b"S"), (50, b"D")):
        (folder / "task" / str(thread)).mkdir(parents=True)
        (folder / "task" / str(thread) / "stat").write_bytes(a_stat(thread, state=state))

    assert read_processes(tmp_path).processes == ()
    assert [each.pid for each in read_processes(tmp_path, {42}).processes] == [50]


def test_a_process_that_ends_while_we_look_is_none(tmp_path: Path) -> None:
    (tmp_path / "proc" / "42").mkdir(parents=True)

    assert read_processes(tmp_path).processes == ()


@pytest.mark.parametrize("there", [True, False])
def test_a_proc_without_processes_is_unreadable_not_quiet(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "proc").mkdir()

    assert read_processes(tmp_path).unreadable is not None


def test_the_real_proc_can_be_read() -> None:
    assert read_processes(Path("/"), {os.getpid()}).unreadable is None


def test_ten_thousand_processes_are_a_light_round(tmp_path: Path) -> None:
    for pid in range(1, 10_001):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "stat").write_bytes(
            a_stat(pid, state=b"S" if pid % 1000 else b"D")
        )
    started = time.process_time()
    reading = read_processes(tmp_path)

    assert time.process_time() - started < 2, "about 0.1 s on a machine of two cores"
    assert len(reading.processes) == 10


# Boot.


def test_the_real_boot_can_be_read() -> None:
    assert len(read_boot_id(Path("/"))) == 36
    assert datetime(2020, 1, 1, tzinfo=UTC) < read_boot_time(Path("/"))


def test_a_boot_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(TemporaryError, match="boot_id"):
        read_boot_id(tmp_path)
    with pytest.raises(TemporaryError, match="time of boot"):
        read_boot_time(tmp_path)


@pytest.mark.parametrize("stat", ["cpu 1 2\n", "btime x\n", f"btime {10**30}\n"])
def test_a_time_of_boot_that_is_none_is_told(tmp_path: Path, stat: str) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "stat").write_text(stat)

    with pytest.raises(TemporaryError):
        read_boot_time(tmp_path)


# PCI.


def a_device(root: Path, port: str, bus: str, driver: str | None = "nvidia", **files: str) -> None:
    """A device below its port in the tree of devices, with the link in the bus folder that the kernel makes."""
    folder = root / "sys/devices/pci0000:00" / port / bus
    folder.mkdir(parents=True)
    content = {"vendor": "0x10de", "class": "0x030200", "device": "0x27b8"} | files
    for name, text in content.items():
        (folder / name).write_text(text + "\n")
    if driver:
        (root / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(root / "sys/bus/pci/drivers" / driver)
    devices = root / "sys/bus/pci/devices"
    devices.mkdir(parents=True, exist_ok=True)
    (devices / bus).symlink_to(folder)


LINK = {
    "current_link_width": "16",
    "max_link_width": "16",
    "current_link_speed": "2.5 GT/s PCIe",
    "max_link_speed": "32.0 GT/s PCIe",
}


def test_the_link_of_a_gpu_is_bounded_by_the_port_above_it(tmp_path: Path) -> None:
    a_device(tmp_path, "0000:00:01.0", "0000:3B:00.0", **LINK)
    port = tmp_path / "sys/devices/pci0000:00/0000:00:01.0"
    (port / "max_link_width").write_text("8\n")
    (port / "max_link_speed").write_text("8.0 GT/s PCIe\n")

    assert read_nvidia_devices(tmp_path) == (
        PciDevice("0000:3b:00.0", "0x27b8", "nvidia", PcieLink(16, 8, 1, 3)),
    )


def test_only_nvidias_display_devices_count_also_without_a_driver(tmp_path: Path) -> None:
    a_device(tmp_path, "p1", "0000:01:00.0", driver=None)
    a_device(tmp_path, "p2", "0000:01:00.1", **{"class": "0x040300"})
    a_device(tmp_path, "p3", "0000:02:00.0", vendor="0x1002")

    assert [(each.bus_id, each.driver) for each in read_nvidia_devices(tmp_path)] == [
        ("0000:01:00.0", None)
    ]


@pytest.mark.parametrize(
    ("width", "speed"), [("0", "Unknown"), ("63", "x"), ("", ""), ("255", "7 GT/s")]
)
def test_a_link_that_is_none_tells_nothing(tmp_path: Path, width: str, speed: str) -> None:
    files = {"current_link_width": width, "max_link_width": width}
    files |= {"current_link_speed": speed, "max_link_speed": speed}
    a_device(tmp_path, "p1", "0000:01:00.0", **files)

    assert read_nvidia_devices(tmp_path)[0].link == PcieLink(None, None, None, None)


def test_a_machine_without_a_pci_bus_has_no_gpu(tmp_path: Path) -> None:
    assert read_nvidia_devices(tmp_path) == ()
