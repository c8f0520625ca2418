"""The kernel's own messages, from /dev/kmsg (Documentation/ABI/testing/dev-kmsg).

User space can write into that log too, but not in the kernel's name: only facility 0 is taken. The ring is read at the
pace of the kernel, so no flood of user logs can push a message out before it is read, short of an overrun, which is
told. A plain file in the same format serves as well.
"""

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from exporters.readings import KernelLogReading, KernelMessage

_RECORD_BYTES = 16384  # the kernel's longest record is 8 KiB; a smaller buffer gets EINVAL
_FILE_BYTES = 64 << 20
_MOST = 50_000  # records in one reading; the rest comes with the next
_RECORD = re.compile(rb"([0-9]{1,10}),([0-9]{1,20}),([0-9]{1,20}),([^;]{0,64});([^\n]*)")
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")
_LEVEL_BITS = 3
_LONGEST = timedelta(days=36500)


class KernelLog:
    """Reads on from where the last reading ended. Not for several threads."""

    def __init__(
        self, path: Path, *, read: Callable[[int, int], bytes] = os.read, most: int = _MOST
    ) -> None:
        self._path = path
        self._read = read
        self._most = most
        self._descriptor: int | None = None

    def read(self, boot_id: str, boot_time: datetime, next_sequence: int) -> KernelLogReading:
        """The messages from `next_sequence` on; 0 reads from the start of the boot.

        `boot_id` goes into the reading. A log that cannot be read is told in it, and opened anew the next time.
        """
        try:
            records, lost = self._records(next_sequence)
        except OSError as error:
            self.close()
            text = f"cannot read {self._path}: {error.strerror}"
            return KernelLogReading(boot_id, (), next_sequence, unreadable=text)
        messages, after = _messages(records, boot_time, next_sequence)
        return KernelLogReading(boot_id, messages, after, lost)

    def close(self) -> None:
        """Let go of the device."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None

    def _records(self, next_sequence: int) -> tuple[list[bytes], bool]:
        fresh = self._descriptor is None
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            self.close()
            return _file_records(self._path), False
        records, lost = self._device_records(self._descriptor, next_sequence)
        # A fresh descriptor stands at the oldest record that there still is.
        gap = fresh and bool(records) and _sequence(records[0]) > next_sequence
        return records, lost or gap

    def _device_records(self, descriptor: int, next_sequence: int) -> tuple[list[bytes], bool]:
        """One record a read until there is none; EPIPE tells that some were overwritten before they were read."""
        records: list[bytes] = []
        lost = False
        while len(records) < self._most:
            try:
                record = self._read(descriptor, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                lost = True
                continue
            if not record:
                break
            # The position is the device's; what was read before a restart is passed over here.
            if _sequence(record) >= next_sequence:
                records.append(record)
        return records, lost


def _file_records(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        raw = file.read(_FILE_BYTES)
    whole = raw[: raw.rfind(b"\n") + 1]  # a last line without its end is still being written
    return [line for line in whole.split(b"\n") if line and not line.startswith(b" ")]


def _sequence(record: bytes) -> int:
    found = _RECORD.match(record)
    return int(found[2]) if found else -1


def _messages(
    records: list[bytes], boot_time: datetime, next_sequence: int
) -> tuple[tuple[KernelMessage, ...], int]:
    after = next_sequence
    found: list[KernelMessage] = []
    for sequence, prefix, raw in _parsed(records):
        if sequence < next_sequence:
            continue
        after = max(after, sequence + 1)
        priority, microseconds, flags = prefix
        if priority >> _LEVEL_BITS:
            continue
        text = _text(raw)
        if b"+" in flags and found:
            # Older kernels tell the rest of a line as a record of its own.
            last = found[-1]
            found[-1] = KernelMessage(last.sequence, last.at, last.text + text)
            continue
        found.append(KernelMessage(sequence, _moment(boot_time, microseconds), text))
    return tuple(found), after


def _parsed(records: list[bytes]) -> Iterator[tuple[int, tuple[int, int, bytes], bytes]]:
    for record in records:
        match = _RECORD.match(record)
        if match:
            yield int(match[2]), (int(match[1]), int(match[3]), match[4]), match[5]


def _moment(boot_time: datetime, microseconds: int) -> datetime:
    try:
        return boot_time + min(timedelta(microseconds=microseconds), _LONGEST)
    except OverflowError:
        return boot_time


def _text(raw: bytes) -> str:
    plain = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), raw)
    return plain.decode("utf-8", "replace")
