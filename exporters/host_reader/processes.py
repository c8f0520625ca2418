"""Processes that wait in the kernel, from /proc.

Reads only what cannot block: never cmdline or environ, which wait for the memory of a process that may hang. Of the
many processes that do not wait nothing is kept: an agent looks at ten thousand of them every minute.
"""

import os
from collections.abc import Collection
from pathlib import Path

from exporters.readings import ProcessReading, ProcessSample

_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, linux/sched.h
_WAITING = b"D"
_MOST = 4096
_STAT_BYTES = 2048
_FLAGS, _START = 6, 19  # places after the command: fields 9 and 22 of proc(5)


def read_processes(root: Path, threads_of: Collection[int] = ()) -> ProcessReading:
    """All processes in state D, at most 4,096 of them.

    A process is judged by its first thread. Of those in `threads_of` (the users of a GPU) every thread is looked at,
    because what hangs there is rarely the first.
    """
    proc = root / "proc"
    found: list[ProcessSample] = []
    try:
        names = [name for name in _names(str(proc)) if name.isdigit()]
    except OSError as error:
        return ProcessReading((), f"cannot list {proc}: {error.strerror}")
    if not names:
        return ProcessReading((), f"{proc} shows no process")
    base = str(proc)
    for name in names:
        folder = f"{base}/{name}"
        sample = _waiting(folder, int(name))
        if sample is not None:
            found.append(sample)
        if int(name) in threads_of:
            found += _waiting_threads(folder, int(name))
    return ProcessReading(tuple(found[:_MOST]))


def _waiting_threads(folder: str, leader: int) -> list[ProcessSample]:
    try:
        threads = [name for name in _names(f"{folder}/task") if name.isdigit()]
    except OSError:
        return []
    samples = (
        _waiting(f"{folder}/task/{name}", int(name)) for name in threads if int(name) != leader
    )
    return [sample for sample in samples if sample is not None]


def _waiting(folder: str, pid: int) -> ProcessSample | None:
    stat = _read(f"{folder}/stat")
    # The command is in parentheses and may hold any byte, parentheses and spaces among them.
    end = stat.rfind(b")")
    if stat[end + 2 : end + 3] != _WAITING or end < 0:
        return None
    return _sample(folder, pid, stat[stat.find(b"(") + 1 : end], stat[end + 2 :].split())


def _sample(folder: str, pid: int, command: bytes, fields: list[bytes]) -> ProcessSample | None:
    try:
        flags, start = int(fields[_FLAGS]), int(fields[_START])
    except (IndexError, ValueError):
        return None
    return ProcessSample(
        pid=pid,
        start_ticks=start,
        state=_WAITING.decode(),
        command=_text(command),
        kernel_thread=bool(flags & _KERNEL_THREAD),
        wait_channel=_text(_read(f"{folder}/wchan")).strip().removeprefix("0"),
        holds_gpu=_holds_gpu(folder),
    )


def _holds_gpu(folder: str) -> bool:
    descriptors = f"{folder}/fd"
    try:
        return any(
            os.readlink(f"{descriptors}/{name}").startswith("/dev/nvidia")  # noqa: PTH115 -- as in _names
            for name in _names(descriptors)
        )
    except OSError:
        return False


def _names(folder: str) -> list[str]:
    return os.listdir(folder)  # noqa: PTH208 -- ten thousand Path objects a round cost more than the reading


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _STAT_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
