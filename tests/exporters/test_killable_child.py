"""Children with a deadline: none outlives it in our way, none is waited for in vain, nothing leaks."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from exporters.killable_child import ChildPool, EndKind

SECOND = timedelta(seconds=1)
LONG = timedelta(seconds=30)
SOON = timedelta(milliseconds=200)


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


HANGS = ["sleep", "1000"]
TAKES_NO_SIGTERM = python(
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
)


@pytest.fixture
def pool() -> ChildPool:
    return ChildPool({"PATH": os.environ["PATH"]})


def eventually(condition: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "did not come true in time"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_a_child_that_ends_tells_its_exit_code_and_what_it_wrote(pool: ChildPool) -> None:
    end = pool.run("a", ["sh", "-c", "echo out; echo err >&2; exit 3"], LONG)

    assert (end.kind, end.exit_code, end.stdout, end.stderr) == (
        EndKind.EXITED,
        3,
        b"out\n",
        b"err\n",
    )


def test_a_child_that_dies_of_a_signal_ended_by_itself(pool: ChildPool) -> None:
    end = pool.run("a", ["sh", "-c", "kill -SEGV $$"], LONG)

    assert (end.kind, end.exit_code) == (EndKind.EXITED, -signal.SIGSEGV)


@pytest.mark.parametrize("argv", [HANGS, TAKES_NO_SIGTERM], ids=["sleeps", "takes no SIGTERM"])
def test_a_child_is_killed_at_its_deadline(pool: ChildPool, argv: list[str]) -> None:
    end = pool.run("a", argv, SOON)

    assert (end.kind, end.exit_code) == (EndKind.KILLED, -signal.SIGKILL)
    assert end.seconds < 10
    assert pool.stuck == 0


def test_what_a_killed_child_wrote_before_is_kept(pool: ChildPool) -> None:
    end = pool.run("a", ["sh", "-c", "echo begun; sleep 1000"], SECOND)

    assert (end.kind, end.stdout) == (EndKind.KILLED, b"begun\n")


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["/no/such/program"], 127, b"no such command"),
        (["/etc/passwd"], 126, b"Permission denied"),
    ],
    ids=["missing", "not executable"],
)
def test_a_command_that_cannot_run_is_told_as_shells_do(
    pool: ChildPool, argv: list[str], code: int, words: bytes
) -> None:
    end = pool.run("a", argv, LONG)

    assert (end.kind, end.exit_code) == (EndKind.EXITED, code)
    assert words in end.stderr


def test_output_beyond_the_limit_is_thrown_away_and_blocks_nobody() -> None:
    pool = ChildPool({"PATH": os.environ["PATH"]}, output_limit=1000)

    end = pool.run("a", ["sh", "-c", "head -c 3000000 /dev/zero; echo done >&2"], LONG)

    assert (end.kind, len(end.stdout), end.truncated, end.stderr) == (
        EndKind.EXITED,
        1000,
        True,
        b"done\n",
    )


def test_a_child_that_writes_without_end_is_killed_at_its_deadline(pool: ChildPool) -> None:
    end = pool.run("a", ["cat", "/dev/zero"], SOON)

    assert (end.kind, end.truncated) == (EndKind.KILLED, True)


def test_a_child_reads_what_it_is_given(pool: ChildPool) -> None:
    given = b"x" * 300_000

    assert pool.run("a", ["cat"], LONG, stdin=given).stdout == given


def test_a_child_that_never_reads_its_input_blocks_nobody(pool: ChildPool) -> None:
    assert pool.run("a", ["true"], LONG, stdin=b"x" * 300_000).exit_code == 0


def test_a_child_without_input_reads_nothing(pool: ChildPool) -> None:
    assert pool.run("a", ["cat"], LONG).stdout == b""


def test_a_child_sees_only_the_environment_that_it_is_given() -> None:
    pool = ChildPool({"PATH": os.environ["PATH"], "A": "1"})

    kept = pool.run("a", ["/usr/bin/env"], LONG).stdout.splitlines()
    other = pool.run("a", ["/usr/bin/env"], LONG, environment={"B": "2"}).stdout.splitlines()

    # Python's C locale coercion may add LC_CTYPE in the launcher.
    assert {line for line in kept if not line.startswith(b"LC_CTYPE=")} == {
        b"PATH=" + os.environ["PATH"].encode(),
        b"A=1",
    }
    assert {line for line in other if not line.startswith(b"LC_CTYPE=")} == {b"B=2"}


def test_a_child_inherits_no_open_file(pool: ChildPool, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)

        listed = pool.run("a", ["ls", "-l", "/proc/self/fd"], LONG).stdout

    assert b"secret" not in listed


def test_what_an_ended_child_left_running_is_killed(pool: ChildPool, tmp_path: Path) -> None:
    left = tmp_path / "pid"

    end = pool.run("a", ["sh", "-c", f"sleep 1000 & echo $! > {left}; echo out"], LONG)

    assert (end.kind, end.stdout) == (EndKind.EXITED, b"out\n")
    eventually(lambda: not is_running(int(left.read_text())))


def test_what_a_killed_child_had_started_is_killed_too(pool: ChildPool, tmp_path: Path) -> None:
    started = tmp_path / "pid"

    end = pool.run("a", ["sh", "-c", f"sleep 1000 & echo $! > {started}; wait"], SECOND)

    assert end.kind is EndKind.KILLED
    eventually(lambda: not is_running(int(started.read_text())))


PARENT = """
import os, sys
from datetime import timedelta
from exporters.killable_child import ChildPool
ChildPool(dict(os.environ)).run(
    "a", ["sh", "-c", "echo $$ > {file}; exec sleep 1000"], timedelta(seconds=900)
)
"""


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, "-c", PARENT.format(file=file)])
    try:
        eventually(lambda: file.exists() and file.read_text().endswith("\n"))
        child = int(file.read_text())
        assert is_running(child)
    finally:
        parent.kill()
        parent.wait()

    eventually(lambda: not is_running(child))


# A child that no signal ends. A real one needs a hung kernel; here the signal is kept from a sleeping one.


class Unkillable:
    """Stands in for `kill`: lets no signal through until `release`."""

    def __init__(self) -> None:
        self.groups: list[int] = []

    def __call__(self, group: int) -> None:
        self.groups.append(group)

    def release(self) -> None:
        for group in set(self.groups):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


@pytest.fixture
def unkillable() -> Unkillable:
    return Unkillable()


@pytest.fixture
def stuck_pool(unkillable: Unkillable) -> ChildPool:
    return ChildPool({"PATH": os.environ["PATH"]}, kill=unkillable, reap_wait=SOON)


def test_a_child_that_cannot_be_killed_is_not_waited_for(
    stuck_pool: ChildPool, unkillable: Unkillable
) -> None:
    end = stuck_pool.run("a", HANGS, SOON)

    assert (end.kind, end.exit_code) == (EndKind.STUCK, None)
    assert end.seconds < 5
    assert stuck_pool.stuck_keys == ("a",)
    unkillable.release()
    eventually(lambda: stuck_pool.stuck == 0)


def test_a_stuck_child_is_never_doubled_and_holds_no_other_key(
    stuck_pool: ChildPool, unkillable: Unkillable
) -> None:
    stuck_pool.run("a", HANGS, SOON)

    again = [stuck_pool.run("a", HANGS, SOON).kind for _ in range(5)]
    other = stuck_pool.run("b", ["true"], LONG).kind

    assert (again, other, stuck_pool.stuck) == ([EndKind.BUSY] * 5, EndKind.EXITED, 1)
    assert len({*unkillable.groups}) == 2
    unkillable.release()
    eventually(lambda: stuck_pool.stuck == 0)


def test_a_stuck_child_that_ends_at_last_is_reaped_and_frees_its_key(
    stuck_pool: ChildPool, unkillable: Unkillable
) -> None:
    stuck_pool.run("a", HANGS, SOON)
    pid = unkillable.groups[0]

    unkillable.release()
    eventually(lambda: stuck_pool.stuck == 0)

    assert not Path(f"/proc/{pid}").exists()
    assert stuck_pool.run("a", ["true"], LONG).kind is EndKind.EXITED


def test_a_key_in_use_by_another_thread_is_busy(pool: ChildPool, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    ends: list[EndKind] = []
    first = threading.Thread(
        target=lambda: ends.append(pool.run("a", ["cat", str(fifo)], LONG).kind)
    )
    first.start()
    with fifo.open("w"):  # opens only when the child reads
        second = pool.run("a", ["true"], LONG).kind
    first.join()

    assert (second, ends) == (EndKind.BUSY, [EndKind.EXITED])


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def own_children() -> set[int]:
    return {
        int(pid)
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    }


def test_two_hundred_hung_children_leave_no_file_and_no_zombie(pool: ChildPool) -> None:
    pool.run("warm", ["true"], LONG)
    files, children = open_files(), own_children()

    kinds = {pool.run("a", HANGS, timedelta(milliseconds=20)).kind for _ in range(200)}

    assert kinds == {EndKind.KILLED}
    assert (open_files(), own_children()) == (files, children)


def test_stuck_children_hold_no_file(stuck_pool: ChildPool, unkillable: Unkillable) -> None:
    files = open_files()

    for number in range(5):
        stuck_pool.run(str(number), HANGS, timedelta(milliseconds=50))

    assert (stuck_pool.stuck, open_files()) == (5, files)
    unkillable.release()
    eventually(lambda: stuck_pool.stuck == 0)
