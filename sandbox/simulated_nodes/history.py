"""What really happened at a simulated node: the peer's own log that tests compare others' stories with.

It only grows, and knows nothing of the API.
"""

import threading
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Happening(StrEnum):
    """What can happen at a node."""

    REGISTERED = "registered"
    REBOOT_REQUESTED = "reboot_requested"
    WENT_DOWN = "went_down"
    BOOTED = "booted"
    FAULT_INJECTED = "fault_injected"
    FAULT_CLEARED = "fault_cleared"
    HOST_COMMAND = "host_command"
    REMEDY = "remedy"
    POD_REFUSED = "pod_refused"
    CONTAINER_STARTED = "container_started"
    CONTAINER_ENDED = "container_ended"
    POD_GONE = "pod_gone"
    PROBE_ANSWERED = "probe_answered"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened; `boot_id` is the true one at that moment."""

    at: datetime
    what: Happening
    detail: str
    boot_id: str


class History:
    """The entries of one node, oldest first; any thread may add and read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)

    @property
    def entries(self) -> tuple[Entry, ...]:
        with self._lock:
            return tuple(self._entries)

    def of(self, what: Happening, detail: str = "") -> tuple[Entry, ...]:
        """The entries of a kind whose detail holds this text."""
        return tuple(each for each in self.entries if each.what is what and detail in each.detail)

    def count(self, what: Happening, detail: str = "") -> int:
        return len(self.of(what, detail))

    @property
    def reboots(self) -> int:
        """How often the node really went down and came up or is still down."""
        return self.count(Happening.WENT_DOWN)

    @property
    def commands_run(self) -> tuple[str, ...]:
        """The containers that were started, as `namespace/pod/container`, oldest first."""
        return tuple(each.detail for each in self.of(Happening.CONTAINER_STARTED))
