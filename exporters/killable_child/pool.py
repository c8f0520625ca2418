"""The children that run now and those that are stuck, each under a key. Decides nothing about what they found."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from chassis.errors import TemporaryError
from exporters.killable_child import launcher
from exporters.killable_child.reading import Captured, has_ended, read_until_end

_LAUNCHER = (sys.executable, "-I", "-S", str(Path(launcher.__file__)))
_OUTPUT_LIMIT = 1 << 20
_REAP_WAIT = timedelta(seconds=2)


class EndKind(StrEnum):
    """How a run ended."""

    EXITED = "exited"
    """By itself, with `exit_code`; a negative one is the signal that ended it, not sent by us."""
    KILLED = "killed"
    """At its deadline, by us."""
    STUCK = "stuck"
    """At its deadline it was killed and did not end: it hangs in the kernel. It keeps its key until it ends."""
    BUSY = "busy"
    """An earlier child under this key has not ended; nothing was started."""


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child ended and what it wrote. `exit_code` is None unless it ended."""

    kind: EndKind
    exit_code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0
    truncated: bool = False
    """Whether it wrote more than the limit; the first bytes were kept."""


def _kill_group(process_group: int) -> None:
    """SIGKILL for a child and all that it started. SIGTERM would be a request to a program that may hang."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process_group, signal.SIGKILL)


class ChildPool:
    """Runs commands, one at a time a key. Safe to use from several threads, each of which waits for its own child.

    A child dies with the thread that runs it (PR_SET_PDEATHSIG), so with this process too. `environment` is all that a
    child sees of the surroundings unless `run` is given another. `kill` is there for the test of a process that no
    signal ends.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        output_limit: int = _OUTPUT_LIMIT,
        reap_wait: timedelta = _REAP_WAIT,
        kill: Callable[[int], None] = _kill_group,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = dict(environment)
        self._output_limit = output_limit
        self._reap_wait = reap_wait.total_seconds()
        self._kill = kill
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._stuck: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def stuck(self) -> int:
        """How many children are left that could not be killed. Those that have ended by now are reaped first."""
        return len(self.stuck_keys)

    @property
    def stuck_keys(self) -> tuple[str, ...]:
        """The keys that such children hold, sorted."""
        with self._lock:
            for key in [key for key, child in self._stuck.items() if child.poll() is not None]:
                del self._stuck[key]
            return tuple(sorted(self._stuck))

    def run(
        self,
        key: str,
        argv: Sequence[str],
        deadline: timedelta,
        *,
        stdin: bytes | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ChildEnd:
        """Run `argv` and wait for its end, at most for `deadline` and the time that reaping may take.

        Raises TemporaryError when no process can be started.
        """
        if not self._claim(key):
            return ChildEnd(EndKind.BUSY)
        try:
            child = self._start(
                argv, stdin, self._environment if environment is None else environment
            )
            return self._wait(key, child, deadline)
        finally:
            with self._lock:
                self._running.discard(key)

    def _claim(self, key: str) -> bool:
        held = self.stuck_keys
        with self._lock:
            if key in held or key in self._running:
                return False
            self._running.add(key)
            return True

    def _start(
        self, argv: Sequence[str], stdin: bytes | None, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        command = [*_LAUNCHER, str(os.getpid()), *argv]
        try:
            with _input(stdin) as source:
                return subprocess.Popen(  # noqa: S603 -- an argument list, no shell
                    command,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=dict(environment),
                    close_fds=True,
                    start_new_session=True,
                )
        except OSError as error:
            raise TemporaryError(f"cannot start {argv[0]}: {error.strerror}") from error

    def _wait(self, key: str, child: subprocess.Popen[bytes], deadline: timedelta) -> ChildEnd:
        started = self._monotonic()
        outputs = tuple(
            Captured(pipe, self._output_limit) for pipe in (child.stdout, child.stderr) if pipe
        )
        try:
            ended = read_until_end(child.pid, outputs, deadline.total_seconds(), self._monotonic)
            kind = EndKind.EXITED if ended else EndKind.KILLED
            # Also what an ended child has left running: the group exists until the child is reaped.
            self._kill(child.pid)
            if not ended and not read_until_end(
                child.pid, outputs, self._reap_wait, self._monotonic
            ):
                kind = EndKind.STUCK
        finally:
            self._settle(key, child)
        return ChildEnd(
            kind=kind,
            exit_code=child.returncode,
            stdout=bytes(outputs[0].kept),
            stderr=bytes(outputs[1].kept),
            seconds=self._monotonic() - started,
            truncated=any(each.truncated for each in outputs),
        )

    def _settle(self, key: str, child: subprocess.Popen[bytes]) -> None:
        """Close our ends of the pipes and reap the child, or keep it for later if it still lives."""
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        if has_ended(child.pid):
            child.wait()
            return
        self._kill(child.pid)
        if child.poll() is None:
            with self._lock:
                self._stuck[key] = child


@contextlib.contextmanager
def _input(stdin: bytes | None) -> Iterator[int]:
    """A file with the input, in memory: unlike a pipe it never waits for a reader."""
    if stdin is None:
        yield subprocess.DEVNULL
        return
    descriptor = os.memfd_create("input")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(stdin)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
