"""How many accepted parts wait, without counting them for every webhook."""

import time
from collections.abc import Callable
from datetime import timedelta
from threading import Lock

_COUNT_AGAIN = timedelta(seconds=5)


class Backlog:
    """A counter kept beside the table.

    Where other processes write to the table too (`shared`), it is counted anew every few seconds.
    """

    def __init__(self, count: Callable[[], int], *, shared: bool) -> None:
        self._count = count
        self._shared = shared
        self._lock = Lock()
        self._value = count()
        self._counted = time.monotonic()

    def add(self, difference: int) -> None:
        with self._lock:
            self._value += difference

    def value(self) -> int:
        """The number of parts; up to five seconds old where the table is shared."""
        if self._shared and time.monotonic() - self._counted > _COUNT_AGAIN.total_seconds():
            self._counted = time.monotonic()  # before counting: only one caller pays for it
            fresh = self._count()
            with self._lock:
                self._value = fresh
        return self._value
