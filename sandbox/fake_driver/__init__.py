"""A fake NVIDIA driver for machines without one: libcuda.so.1 and libnvidia-ml.so.1, written in C, compiled on demand.

It answers the calls that Nodemend makes as a scenario says: fails at a step, hangs, loses a GPU, computes wrong. It is
no emulator: nothing else than Nodemend runs on it, and it says nothing about a real driver.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chassis.errors import PermanentError

SOURCES = Path(__file__).parent
COMPILERS = ("cc", "gcc", "clang")
HOW_TO_GET = "a C compiler (cc, gcc or clang; on Debian: apt-get install gcc libc6-dev)"
_LIBRARIES = {"libcuda.c": "libcuda.so.1", "libnvidia_ml.c": "libnvidia-ml.so.1"}


@dataclass(frozen=True, slots=True)
class FakeDriver:
    """A folder with the two libraries."""

    folder: Path

    def environment(
        self, scenario: Mapping[str, object], file: Path, *, without: str | None = None
    ) -> dict[str, str]:
        """What a child needs to find the libraries and the scenario, which is written to `file`.

        The keys of a scenario are in scenario.h and where the sources read them: `{"gpus": 2, "cuInit": 999}`.
        `without` names a library that this node does not have; a folder beside `file` is made without it.
        """
        file.write_text("".join(f"{key}={value}\n" for key, value in scenario.items()), "utf-8")
        folder = self.folder
        if without is not None:
            folder = file.with_suffix(".libraries")
            folder.mkdir(exist_ok=True)
            for name in set(_LIBRARIES.values()) - {without}:
                (folder / name).symlink_to(self.folder / name)
        return {"LD_LIBRARY_PATH": str(folder), "NODEMEND_FAKE_DRIVER": str(file)}


def compiler() -> str | None:
    """The path of a C compiler on this machine, None without one."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)


def build(folder: Path, *, old: bool = False) -> FakeDriver:
    """Compile both libraries into `folder`, or take those that are there and newer than their sources.

    `old` leaves out what came late to NVIDIA's interfaces. Processes may build into one folder at the same time.

    Raises:
        PermanentError: no compiler, or it refused.
    """
    command = compiler()
    if command is None:
        raise PermanentError(f"the fake driver needs {HOW_TO_GET}")
    target = folder / ("old" if old else "current")
    target.mkdir(parents=True, exist_ok=True)
    changed = max(path.stat().st_mtime for path in SOURCES.glob("*.[ch]"))
    for source, library in _LIBRARIES.items():
        path = target / library
        if not path.exists() or path.stat().st_mtime < changed:
            _compile(command, SOURCES / source, path, ["-DOLD_DRIVER"] if old else [])
    return FakeDriver(target)


def _compile(command: str, source: Path, path: Path, options: list[str]) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    done = subprocess.run(
        [
            *(command, "-O1", "-shared", "-fPIC"),
            *(f"-Wl,-soname,{path.name}", *options, str(source), "-o", str(unfinished)),
        ],
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode != 0:
        raise PermanentError(f"{command} refused {source.name}:\n{done.stderr}")
    unfinished.replace(path)
