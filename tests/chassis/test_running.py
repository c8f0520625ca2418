"""A service in the foreground: what it says when it cannot start, what signals do, in what order it lives and ends."""

import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
from structlog.testing import capture_logs

from chassis.config import ConfigWatcher, Settings
from chassis.errors import PermanentError
from chassis.running import Program, run_service, serve_until, stop_by_signal, tell_restart_needed
from chassis.serving import Server

ROOT = Path(__file__).parents[2]
SERVICE = """
import sys, threading
from pathlib import Path
from chassis.config import Settings
from chassis.running import Program, run_service

class Example(Settings):
    word: str

class Says:
    def __init__(self, settings, registry, log):
        print("made", settings.word, flush=True)

    def use(self, settings):
        print("uses", settings.word, flush=True)

    def run(self, stop, watcher):
        watcher.start()
        print("runs", flush=True)
        stop.wait()
        watcher.stop()
        print("ended", flush=True)

program = Program("example says", "example", "1.2.3", sys.stderr)
sys.exit(run_service(Path(sys.argv[1]), Example, Says, program))
"""


class Example(Settings):
    word: str
    other: str = ""


@pytest.fixture
def handlers() -> Iterator[None]:
    """What signals did before is what they do afterwards."""
    before = {each: signal.getsignal(each) for each in (signal.SIGHUP, signal.SIGUSR1)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def run(file: Path, make: Callable[..., Any]) -> tuple[int, str]:
    err = io.StringIO()
    program = Program("example says", "example", "1.2.3", err)
    return run_service(file, Example, make, program), err.getvalue()


def test_each_mistake_of_the_configuration_is_a_line_and_the_status_is_2(tmp_path: Path) -> None:
    file = tmp_path / "example.yaml"
    file.write_text("word: x\nother: [1]\nsize: 7\n")

    status, told = run(file, lambda *_: pytest.fail("nothing is made of such a configuration"))

    assert status == 2
    assert len(told.splitlines()) == 2
    assert "other" in told
    assert "size" in told


def test_a_service_that_cannot_start_says_so_behind_its_command(tmp_path: Path) -> None:
    file = tmp_path / "example.yaml"
    file.write_text("word: x\n")

    def make(*_: Any) -> Any:
        raise PermanentError("the address is taken")

    assert run(file, make) == (2, "example says: the address is taken\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_hang_up_reloads_and_a_signal_to_end_ends_with_0(
    tmp_path: Path, number: signal.Signals
) -> None:
    file = tmp_path / "example.yaml"
    file.write_text("word: first\n")
    command = [sys.executable, "-c", textwrap.dedent(SERVICE), str(file)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            assert [child.stdout.readline() for _ in range(2)] == ["made first\n", "runs\n"]
            file.write_text("word: second\n")
            child.send_signal(signal.SIGHUP)
            assert child.stdout.readline() == "uses second\n"
            child.send_signal(number)
            assert child.wait(30) == 0
            assert child.stdout.read() == "ended\n"
            assert '"component": "says"' in child.stderr.readline()
        finally:
            child.kill()


def test_a_signal_sets_the_event_also_while_the_event_is_locked(handlers: None) -> None:
    stop = stop_by_signal(signal.SIGUSR1)
    with stop._cond:  # type: ignore[attr-defined]  # as the main thread does on its way to wait
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0)  # the handler has run by now, or we would not get here
        assert not stop.is_set()
    assert stop.wait(10)


class Part:
    """Notes what is done with it; `fails` names the moment at which it raises."""

    def __init__(self, notes: list[str], name: str, fails: str = "") -> None:
        self._notes, self._name, self._fails = notes, name, fails

    def start(self) -> None:
        self._note("start")

    def stop(self) -> None:
        self._note("stop")

    def _note(self, what: str) -> None:
        self._notes.append(f"{self._name} {what}")
        if what == self._fails:
            raise PermanentError(f"{self._name} cannot {what}")


def live(notes: list[str], *, server_fails: str = "") -> None:
    stop = threading.Event()
    stop.set()
    cache, election = Part(notes, "cache"), Part(notes, "election")
    serve_until(
        stop,
        cast("Server", Part(notes, "server", server_fails)),
        cast("ConfigWatcher[Example]", Part(notes, "watcher")),
        structlog.get_logger(),
        begin=[cache.start],
        serving=[election.start],
        stopping=[election.stop],
        end=[cache.stop],
    )


def test_what_answers_are_made_of_starts_first_and_ends_last() -> None:
    notes: list[str] = []

    live(notes)

    assert notes == [
        "cache start",
        "server start",
        "watcher start",
        "election start",
        "election stop",
        "server stop",
        "watcher stop",
        "cache stop",
    ]


def test_when_the_server_cannot_start_all_else_ends() -> None:
    notes: list[str] = []

    with pytest.raises(PermanentError, match="server cannot start"):
        live(notes, server_fails="start")

    assert notes == ["cache start", "server start", "watcher stop", "cache stop"]


@pytest.mark.parametrize(
    ("word", "other", "told"),
    [("a", "x", []), ("b", "x", [["word"]])],
    ids=["a key that a reload takes", "a key that only a start reads"],
)
def test_what_only_a_start_reads_is_told_when_it_changed(
    word: str, other: str, told: list[list[str]]
) -> None:
    with capture_logs() as logs:
        tell_restart_needed(
            structlog.get_logger(), ("word",), Example(word="a"), Example(word=word, other=other)
        )

    assert [each["keys"] for each in logs] == told
