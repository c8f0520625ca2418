"""Starts services by forking a process that has imported everything: a start costs milliseconds, not seconds."""

import os
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BEFORE = """
import os, signal, sys

def begin(config, log):
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(os.path.dirname(config))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
"""
_AFTER = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a service ended
print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        serve(*line.rstrip("\\n").split("\\t"))
    print(pid, flush=True)
"""


class Forker:
    """Starts services.

    `serving` is Python that imports the service and defines `serve`, called in the child with the words of
    `fork`. It calls `begin(config, log)` first and never returns.
    """

    def __init__(self, folder: Path, serving: str) -> None:
        script = folder / "forker.py"
        script.write_text(_BEFORE + serving + _AFTER)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._ask(None)

    def fork(self, *words: object) -> int:
        """The process id of another child."""
        return int(self._ask("\t".join(str(word) for word in words)))

    def _ask(self, line: str | None) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            if line is not None:
                self._process.stdin.write(f"{line}\n")
                self._process.stdin.flush()
            return self._process.stdout.readline()

    def stop(self) -> None:
        with self._process:
            self._process.kill()
