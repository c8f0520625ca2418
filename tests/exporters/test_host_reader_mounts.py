"""The host's mounts: the list of them, and one that really hangs."""

import time
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from chassis.errors import TemporaryError
from exporters.checks import nfs
from exporters.host_reader import AskSettings, Mount, ask_mounts, list_mounts, read_processes
from exporters.killable_child import ChildPool
from exporters.readings import MountAnswer, MountReading
from tests.exporters.check_builders import a_log, told
from tests.exporters.hanging_mount import cannot_hang, hanging_mount

LINES = b"""\
22 27 0:21 / /proc rw,relatime - proc proc rw
40 27 0:40 / /mnt/with\\040space\\134and rw shared:7 master:1 - nfs4 nas:/a\\040b rw,vers=4.2
41 27 0:41 / /mnt/old rw - nfs nas:/hidden rw
42 27 0:42 / /mnt/old rw - nfs 10.0.0.5:/shown rw
43 27 0:43 / /mnt/\xff rw - nfs [fd00::1]:/x rw
44 27 0:44 / /mnt/covered rw - nfs nas:/covered rw
45 27 0:45 / /mnt/covered rw - tmpfs tmpfs rw
broken line
46 27 0:46 / /mnt/cut rw - nfs
"""


def a_host(tmp_path: Path, lines: bytes) -> Path:
    folder = tmp_path / "host" / "proc" / "1"
    folder.mkdir(parents=True)
    (folder / "mountinfo").write_bytes(lines)
    return tmp_path / "host"


def a_pool() -> ChildPool:
    return ChildPool({}, reap_wait=timedelta(seconds=0.2))


def answers(reading: MountReading) -> dict[str, MountAnswer]:
    return {each.mount_point: each.answer for each in reading.mounts}


def test_mounts_are_listed_with_their_real_names_and_hidden_ones_are_not(tmp_path: Path) -> None:
    assert list_mounts(a_host(tmp_path, LINES)) == (
        Mount("/mnt/old", "10.0.0.5:/shown", "nfs"),
        Mount("/mnt/with space\\and", "nas:/a b", "nfs4"),
        Mount("/mnt/\udcff", "[fd00::1]:/x", "nfs"),
    )


def test_a_list_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(TemporaryError, match="mountinfo: No such file"):
        list_mounts(tmp_path)

    assert ask_mounts(tmp_path, a_pool(), AskSettings()).unreadable is not None


def test_mounts_that_answer_and_those_that_are_gone_are_told_apart(tmp_path: Path) -> None:
    good = tmp_path / "a good one"
    good.mkdir()
    lines = f"1 1 0:1 / {tmp_path}/a\\040good\\040one rw - nfs nas:/a rw\n1 1 0:2 / /gone rw - nfs nas:/b rw\n"
    reading = ask_mounts(a_host(tmp_path, lines.encode()), a_pool(), AskSettings())

    assert answers(reading) == {str(good): MountAnswer.ANSWERED, "/gone": MountAnswer.FAILED}


def test_the_paths_can_lie_below_a_prefix(tmp_path: Path) -> None:
    (tmp_path / "root" / "data").mkdir(parents=True)
    root = a_host(tmp_path, b"1 1 0:1 / /data rw - nfs nas:/a rw\n")
    reading = ask_mounts(root, a_pool(), AskSettings(prefix=str(tmp_path / "root")))

    assert answers(reading) == {"/data": MountAnswer.ANSWERED}


def test_no_more_are_asked_than_allowed(tmp_path: Path) -> None:
    lines = b"".join(b"1 1 0:%d / /gone%d rw - nfs nas:/a rw\n" % (n, n) for n in range(5))
    reading = ask_mounts(a_host(tmp_path, lines), a_pool(), AskSettings(most=2))

    assert sorted(answers(reading).values()) == ["failed"] * 2 + ["not_asked"] * 3


@pytest.mark.skipif(cannot_hang() is not None, reason=f"no file system that hangs: {cannot_hang()}")
def test_a_mount_that_hangs_costs_one_child_and_holds_up_nothing(tmp_path: Path) -> None:
    kind = f"nm{uuid4().hex[:8]}"
    pool, point = a_pool(), tmp_path / "hanging"
    settings = AskSettings(
        deadline=timedelta(seconds=1), file_systems=(f"fuse.{kind}", "proc"), most=8
    )
    with hanging_mount(point, kind) as server:
        first = answers(ask_mounts(Path("/"), pool, settings))
        assert (first[str(point)], first["/proc"]) == (MountAnswer.TIMED_OUT, MountAnswer.ANSWERED)
        assert pool.stuck == 1, "it waits in the kernel, and SIGKILL does not reach it"

        waiting = read_processes(Path("/")).processes
        assert any(each.command.startswith("python") for each in waiting), "it is in state D"

        started = time.monotonic()
        reading = ask_mounts(Path("/"), pool, settings)
        assert answers(reading)[str(point)] is MountAnswer.STILL_WAITING
        assert time.monotonic() - started < 1, "nobody has waited for it again"
        assert pool.stuck == 1
        findings, _ = nfs.check(reading, a_log(), None)
        assert told(findings)[str(point)] == ("problem", "MountTimeout")

        server.kill()
        until = time.monotonic() + 10
        while pool.stuck and time.monotonic() < until:
            time.sleep(0.01)
        assert pool.stuck == 0, "what ends at last is reaped"
    assert str(point) not in answers(ask_mounts(Path("/"), pool, settings))
