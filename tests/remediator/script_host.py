"""A host for repair scripts: a root folder, and programs in PATH that write down how they were called."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remediator.repairs import script

BOOT = "6b1c9d1e-0000-4000-8000-000000000001"
_NSENTER = """#!/bin/sh
echo "nsenter $*" >>"$CALLS"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
_PROGRAM = """#!/bin/sh
echo "{name} $*" >>"$CALLS"
{text}
"""


@dataclass(frozen=True)
class Ended:
    """How a script ended; `said` is its one line of JSON."""

    code: int
    said: dict[str, Any]
    output: str

    @property
    def result(self) -> str:
        return str(self.said["result"])

    @property
    def detail(self) -> str:
        return str(self.said["detail"])


class ScriptHost:
    """One host; `program` gives it a program of this text, `run` runs a repair there."""

    def __init__(self, folder: Path, shell: tuple[str, ...] = ("sh",)) -> None:
        self._folder = folder
        self._shell = shell
        self._bin = folder / "bin"
        self._bin.mkdir(parents=True)
        self._temporary = folder / "temporary"
        self._temporary.mkdir()
        self.root = folder / "root"
        self.write("proc/sys/kernel/random/boot_id", BOOT + "\n")
        self.write("proc/sysrq-trigger", "")
        (self.root / "run").mkdir()
        self._put("nsenter", _NSENTER)
        (folder / "calls").touch()

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")

    def program(self, name: str, text: str = "exit 0") -> None:
        self._put(name, _PROGRAM.format(name=name, text=text))

    def _put(self, name: str, text: str) -> None:
        (self._bin / name).write_text(text, "utf-8")
        (self._bin / name).chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """What was called in the host's namespace, without the entering."""
        lines = (self._folder / "calls").read_text("utf-8").splitlines()
        return [line for line in lines if not line.startswith("nsenter ")]

    @property
    def left_behind(self) -> list[str]:
        """Temporary files that are still there."""
        return [each.name for each in self._temporary.iterdir()]

    def start(self, repair: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        env = {
            "PATH": f"{self._bin}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "CALLS": str(self._folder / "calls"),
            "STATE": str(self._folder),
            "TMPDIR": str(self._temporary),
            "NODEMEND_ROOT": str(self.root),
            "NODEMEND_BOOT_ID": BOOT,
            "NODEMEND_ATTEMPT": "op-1-0-1",
            "NODEMEND_TERMINATION_LOG": str(self._folder / "termination-log"),
            "NODEMEND_WAIT_SECONDS": "1",
            "NODEMEND_SETTLE_SECONDS": "0",
            **environment,
        }
        argv = [*self._shell, "-c", script(repair), repair, *arguments]
        return subprocess.Popen(
            argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, repair: str, *arguments: str, **environment: str) -> Ended:
        process = self.start(repair, *arguments, **environment)
        output, _ = process.communicate(timeout=60)
        lines = output.splitlines()
        assert len(lines) == 1, output
        logged = (self._folder / "termination-log").read_text("utf-8")
        assert logged == output
        return Ended(process.returncode, json.loads(lines[0]), output)
