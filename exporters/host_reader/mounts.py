"""The host's mounts, and whether their file systems answer.

A dead server hangs whoever asks, so each mount is asked by a child of its own, one at a time and never twice; nothing
in this process touches a mounted path.
"""

import re
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from errno import ESTALE
from pathlib import Path
from typing import Protocol

from chassis.errors import TemporaryError
from exporters.killable_child import ChildEnd, EndKind
from exporters.readings import MountAnswer, MountReading, MountSample

NFS = ("nfs", "nfs4")
_FAILED = 3
_STALE = 4
_ASK = f"""
import os, sys
try:
    os.statvfs(sys.argv[1])
except OSError as error:
    sys.stdout.write(error.strerror or "")
    sys.exit({_STALE} if error.errno == {int(ESTALE)} else {_FAILED})
"""
_OCTAL = re.compile(rb"\\([0-7]{3})")
_SEPARATOR = b"-"


class Children(Protocol):
    """What is asked of `exporters.killable_child.ChildPool`."""

    def run(self, key: str, argv: Sequence[str], deadline: timedelta) -> ChildEnd: ...

    @property
    def stuck_keys(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system; `mount_point` as the host's first process sees it."""

    mount_point: str
    source: str
    file_system: str


def list_mounts(root: Path, file_systems: Collection[str] = NFS) -> tuple[Mount, ...]:
    """The mounts of these types in the mount namespace of the host's first process, each point once.

    Raises:
        TemporaryError: The list cannot be read.
    """
    path = root / "proc/1/mountinfo"
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise TemporaryError(f"cannot read {path}: {error.strerror}") from error
    # Of several mounts on one point the last hides the others.
    found = {mount.mount_point: mount for line in lines if (mount := _mount(line)) is not None}
    wanted = (mount for mount in found.values() if mount.file_system in file_systems)
    return tuple(sorted(wanted, key=lambda mount: mount.mount_point))


def _mount(line: bytes) -> Mount | None:
    fields = line.split(b" ")
    try:
        end = fields.index(_SEPARATOR, 6)
        kind, source = fields[end + 1], fields[end + 2]
    except (ValueError, IndexError):
        return None
    return Mount(_unescaped(fields[4]), _unescaped(source), _unescaped(kind))


def _unescaped(raw: bytes) -> str:
    plain = _OCTAL.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), raw)
    return plain.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class AskSettings:
    """How mounts are asked: what stands before their paths, how long one may take, how many may wait at once."""

    prefix: str = ""
    deadline: timedelta = timedelta(seconds=5)
    most: int = 32
    file_systems: tuple[str, ...] = NFS


def ask_mounts(root: Path, children: Children, settings: AskSettings) -> MountReading:
    """Ask every such mount for its size, side by side. Takes as long as the slowest, at most the deadline and a bit."""
    try:
        mounts = list_mounts(root, settings.file_systems)
    except TemporaryError as error:
        return MountReading((), str(error))
    if not mounts:
        return MountReading(())
    stuck = frozenset(children.stuck_keys)
    waiting = [mount for mount in mounts if _key(mount) in stuck]
    rest = [mount for mount in mounts if _key(mount) not in stuck]
    room = max(0, settings.most - len(waiting))
    samples = [_sample(mount, MountAnswer.STILL_WAITING) for mount in waiting]
    samples += [_sample(mount, MountAnswer.NOT_ASKED) for mount in rest[room:]]
    if asked := rest[:room]:
        with ThreadPoolExecutor(len(asked), thread_name_prefix="mounts") as threads:
            samples += threads.map(lambda mount: _ask(mount, children, settings), asked)
    return MountReading(tuple(sorted(samples, key=lambda sample: sample.mount_point)))


def _key(mount: Mount) -> str:
    return f"mount:{mount.mount_point}"


def _ask(mount: Mount, children: Children, settings: AskSettings) -> MountSample:
    argv = (sys.executable, "-I", "-S", "-c", _ASK, settings.prefix + mount.mount_point)
    try:
        end = children.run(_key(mount), argv, settings.deadline)
    except TemporaryError as error:
        return _sample(mount, MountAnswer.FAILED, str(error))
    return _sample(mount, *_answer(end))


def _answer(end: ChildEnd) -> tuple[MountAnswer, str]:
    if end.kind is EndKind.BUSY:
        return MountAnswer.STILL_WAITING, ""
    if end.kind is not EndKind.EXITED:
        return MountAnswer.TIMED_OUT, f"no answer in {end.seconds:.0f} s"
    if end.exit_code == 0:
        return MountAnswer.ANSWERED, ""
    text = end.stdout.decode(errors="replace") or f"exit {end.exit_code}"
    return (MountAnswer.STALE if end.exit_code == _STALE else MountAnswer.FAILED), text


def _sample(mount: Mount, answer: MountAnswer, detail: str = "") -> MountSample:
    point = mount.mount_point.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    source = mount.source.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return MountSample(point, source, answer, detail)
