"""Gives every reader each kernel message once. Reads the log once for all of them.

Where a reader stands is its own to keep, beside what it made of the messages: only so no crash can lose one.
"""

import threading
from collections.abc import Mapping
from datetime import datetime

from exporters.host_reader import KernelLog
from exporters.readings import KernelLogReading, KernelMessage

_MOST_HELD = 100_000


class KernelFeed:
    """Messages for several readers, each at its own place. Safe to use from several threads."""

    def __init__(
        self,
        log: KernelLog,
        boot_id: str,
        boot_time: datetime,
        readers: tuple[str, ...],
        positions: Mapping[str, int],
    ) -> None:
        """`positions` are where the readers stood in this boot; a new reader begins at the start of the boot."""
        self._log = log
        self._boot_id = boot_id
        self._boot_time = boot_time
        self._positions = {name: positions.get(name, 0) for name in readers}
        self._next = min(self._positions.values(), default=0)
        self._lost = dict.fromkeys(readers, False)
        self._unreadable: str | None = None
        self._held: list[KernelMessage] = []
        self._lock = threading.Lock()

    def poll(self) -> tuple[KernelMessage, ...]:
        """Read on; what was new."""
        with self._lock:
            return self._poll()

    def take(self, reader: str) -> KernelLogReading:
        """What is new for this reader, now."""
        with self._lock:
            self._poll()
            position = self._positions[reader]
            messages = tuple(each for each in self._held if each.sequence >= position)
            reading = KernelLogReading(
                self._boot_id, messages, self._next, self._lost[reader], self._unreadable
            )
            self._lost[reader] = False
            self._positions[reader] = max(position, self._next)
            self._forget()
            return reading

    def close(self) -> None:
        with self._lock:
            self._log.close()

    def _poll(self) -> tuple[KernelMessage, ...]:
        reading = self._log.read(self._boot_id, self._boot_time, self._next)
        self._unreadable = reading.unreadable
        self._next = reading.next_sequence
        if reading.lost:
            self._lost = dict.fromkeys(self._lost, True)
        self._held += reading.messages
        if len(self._held) > _MOST_HELD:  # a reader that hangs must not fill the memory
            self._held = self._held[-_MOST_HELD:]
            self._lost = dict.fromkeys(self._lost, True)
        return reading.messages

    def _forget(self) -> None:
        oldest = min(self._positions.values())
        self._held = [each for each in self._held if each.sequence >= oldest]
