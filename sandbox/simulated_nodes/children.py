"""Child processes that stand for containers whose command is really run: started, served, ended.

One thread looks after all of them. Each child is a session of its own, so that what it starts ends with it.
It must not decide what to run.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sandbox.simulated_nodes.behaviours import Ended
from sandbox.simulated_nodes.host_commands import Answer, Host
from sandbox.simulated_nodes.pod_objects import MAX_MESSAGE

_LOOK_SECONDS = 0.02
_MAX_LOG = 1 << 20
_CANNOT_START = 128


class Child:
    """A running command. `ended` is called once, from the thread of Children."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        folder: Path,
        host: Host,
        root: Path,
        ended: Callable[[Ended], None],
    ) -> None:
        self._process = process
        self._folder = folder
        self._host = host
        self._sysrq = root / "proc/sysrq-trigger"
        self._ended = ended

    def terminate(self) -> None:
        """Ask the command itself to end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the command and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def look(self) -> bool:
        """Answer what it asks; whether it still runs."""
        self._answer()
        code = self._process.poll()
        if code is None:
            return True
        self.kill()  # what it left behind goes with the container
        self._answer()
        with (self._folder / "log").open("rb") as file:
            log = file.read(_MAX_LOG).decode(errors="replace")
        message = (self._folder / "termination-log").read_text("utf-8", errors="replace")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._ended(Ended(code if code >= 0 else 128 - code, log, message[:MAX_MESSAGE]))
        return False

    def _answer(self) -> None:
        for request in sorted((self._folder / "commands").glob("*.request")):
            argv = request.read_text("utf-8").splitlines()
            request.unlink()
            try:
                answer = self._host.run(argv)
            except Exception as error:  # noqa: BLE001  (a test's own command must not end our thread)
                answer = Answer(1, f"{error!r}\n")
            if answer is not None:
                request.with_suffix(".output").write_text(answer.output, "utf-8")
                part = request.with_suffix(".answering")
                part.write_text(str(answer.exit_code))
                part.rename(request.with_suffix(".answer"))
        self._see_sysrq()

    def _see_sysrq(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if letters := self._sysrq.read_text("utf-8").strip():
                self._sysrq.write_text("")
                self._host.sysrq(letters)


class Children:
    """Starts the children and looks after them until they have ended."""

    def __init__(self, programs: Path) -> None:
        """`programs` is the folder that comes first in the children's PATH."""
        self._programs = programs
        self._children: list[Child] = []
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="simulated-children", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Kill all of them; returns when the last has been seen to end."""
        with self._wake:
            self._stopping = True
            for child in self._children:
                child.kill()
            self._wake.notify()
        self._thread.join()

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        folder: Path,
        root: Path,
        host: Host,
        ended: Callable[[Ended], None],
    ) -> Child | None:
        """Start a command in `folder`, a new one of its own; None, and `ended` called, if it cannot be started."""
        (folder / "commands").mkdir(parents=True)
        (folder / "termination-log").touch()
        try:
            with (folder / "log").open("wb") as log:
                process = subprocess.Popen(
                    argv,
                    cwd=folder,
                    env=self._environment(env, folder, root),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            ended(Ended(_CANNOT_START, "", f"{argv[0]}: {error.strerror}"))
            return None
        child = Child(process, folder, host, root, ended)
        with self._wake:
            self._children.append(child)
            if self._stopping:
                child.kill()
            self._wake.notify()
        return child

    def _environment(self, env: Mapping[str, str], folder: Path, root: Path) -> dict[str, str]:
        return {
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            **env,
            "PATH": f"{self._programs}:/usr/local/bin:/usr/bin:/bin",
            "NODEMEND_ROOT": str(root),
            "NODEMEND_HOST_COMMANDS": str(folder / "commands"),
            "NODEMEND_TERMINATION_LOG": str(folder / "termination-log"),
        }

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._children and not self._stopping:
                    self._wake.wait()
                children = list(self._children)
                if self._stopping and not children:
                    return
            over = [child for child in children if not child.look()]
            with self._wake:
                self._children = [each for each in self._children if each not in over]
                if not self._stopping or self._children:
                    self._wake.wait(_LOOK_SECONDS)
