"""What outlives a restart: the state file, and each reader's place in the kernel's log."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from chassis.errors import PermanentError, TemporaryError
from exporters.host_reader import KernelLog
from exporters.node_agent.kernel_feed import KernelFeed
from exporters.node_agent.state_file import Saved, read_state, write_state
from exporters.verdict import ConditionState, Status, Track
from tests.exporters.check_builders import BOOT, NOW, A

STATE = ConditionState(
    "GPUIsLost", Status.TRUE, "GPUIsLost", "GPU-1", NOW, (Track("gpu_lost", A, judged=NOW),)
)
SAVED = Saved(
    BOOT,
    "uid-1",
    {"gpu_lost": {"boot_id": BOOT, "inventory": {A: "bus"}}},
    {"GPUIsLost": STATE},
    {"gpu_lost": 7},
    {A: {"last_run": 1.5}},
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "deep/state.json"

    write_state(file, SAVED)

    assert read_state(file) == SAVED
    assert [each.name for each in file.parent.iterdir()] == ["state.json"]


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path / "none.json") is None


@pytest.mark.parametrize(
    "content",
    ["", "{", "null", "[]", "{}", '{"schema": 99}', '{"schema": 1, "boot_id": "b"}', "\x00" * 40],
)
def test_a_file_of_another_kind_is_refused_whole_and_moved_aside(
    tmp_path: Path, content: str
) -> None:
    file = tmp_path / "state.json"
    file.write_text(content)

    with pytest.raises(PermanentError, match="not a state file of this version"):
        read_state(file)

    assert [each.name for each in tmp_path.iterdir()] == ["state.json.unusable"]


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    write_state(file, SAVED)
    file.write_bytes(file.read_bytes()[:-40])

    with pytest.raises(PermanentError):
        read_state(file)


def test_a_crash_while_writing_leaves_the_old_content(tmp_path: Path) -> None:
    """The new content stands beside it, unfinished, until it is complete."""
    file = tmp_path / "state.json"
    write_state(file, SAVED)
    (tmp_path / ".state.json.new").write_text('{"schema"')

    assert read_state(file) == SAVED


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_ours_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(TemporaryError, match="cannot write"):
        write_state(tmp_path / "state.json", SAVED)


def test_a_path_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(TemporaryError, match="cannot write"):
        write_state(tmp_path / "file/state.json", SAVED)


# The kernel's log.


class Kernel:
    """A log in a file, and feeds on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sequence = 0
        path.write_text("")

    def say(self, *texts: str) -> None:
        with self.path.open("a") as file:
            for text in texts:
                file.write(f"4,{self._sequence},{self._sequence},-;{text}\n")
                self._sequence += 1

    def feed(self, **positions: int) -> KernelFeed:
        return KernelFeed(KernelLog(self.path), BOOT, NOW - timedelta(hours=1), ("a", "b"), positions)  # fmt: skip


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path / "kmsg")


def texts(feed: KernelFeed, reader: str) -> list[str]:
    return [each.text for each in feed.take(reader).messages]


def test_each_reader_gets_each_message_once_at_its_own_pace(kernel: Kernel) -> None:
    feed = kernel.feed()
    kernel.say("one")
    assert texts(feed, "a") == ["one"]
    kernel.say("two")
    assert texts(feed, "a") == ["two"]
    assert texts(feed, "b") == ["one", "two"]
    assert texts(feed, "a") == texts(feed, "b") == []


def test_a_reader_goes_on_where_its_last_report_stood(kernel: Kernel) -> None:
    kernel.say("one", "two", "three")

    feed = kernel.feed(a=2, b=0)

    assert texts(feed, "a") == ["three"]
    assert texts(feed, "b") == ["one", "two", "three"]


def test_what_a_reading_says_of_its_place_is_enough_to_go_on(kernel: Kernel) -> None:
    kernel.say("one", "two")
    place = kernel.feed().take("a").next_sequence
    kernel.say("three")

    assert texts(kernel.feed(a=place, b=place), "a") == ["three"]


def test_a_log_that_cannot_be_read_is_told_to_every_reader_and_read_later(tmp_path: Path) -> None:
    feed = KernelFeed(KernelLog(tmp_path / "kmsg"), BOOT, NOW, ("a", "b"), {})

    assert all("cannot read" in (feed.take(each).unreadable or "") for each in "ab")
    Kernel(tmp_path / "kmsg").say("one")
    assert texts(feed, "b") == ["one"]


def test_a_gap_is_told_to_each_reader_once(tmp_path: Path) -> None:
    """A device whose oldest record is later than where we stood."""
    records = [b"4,50,1,-;late\n"]
    device, write = os.pipe()  # not a plain file, so that it is read like the device
    os.close(write)

    def read(_descriptor: int, _size: int) -> bytes:
        if not records:
            raise BlockingIOError
        return records.pop()

    path = tmp_path / "kmsg"
    path.symlink_to(f"/proc/self/fd/{device}")
    feed = KernelFeed(KernelLog(path, read=read), BOOT, NOW, ("a", "b"), {"a": 7, "b": 7})

    assert [feed.take(each).lost for each in "abab"] == [True, True, False, False]
    os.close(device)
