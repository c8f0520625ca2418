"""What is to be looked at, and when: names that were woken, and names whose time comes.

Any thread wakes, one takes. A name that is woken ten times before it is taken is looked at once.
"""

import heapq
import threading
from collections.abc import Callable, Collection
from datetime import datetime


class Agenda:
    """Names with the time of their next look; None of a time is never."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._woken: dict[str, None] = {}  # in the order in which they came
        self._times: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []

    def wake(self, names: Collection[str]) -> None:
        """Look at these at once."""
        with self._changed:
            self._woken.update(dict.fromkeys(names))
            self._changed.notify()

    def nudge(self) -> None:
        """Let whoever waits look around."""
        with self._changed:
            self._changed.notify()

    def later(self, name: str, at: datetime | None) -> None:
        """Look at this one then at the latest, in place of what was set before."""
        with self._changed:
            if at is None:
                self._times.pop(name, None)
                return
            self._times[name] = at
            heapq.heappush(self._heap, (at, name))

    def take(self, at_most: float) -> str | None:
        """The next name, waiting for one up to `at_most` seconds."""
        with self._changed:
            if (name := self._due()) is not None:
                return name
            self._changed.wait(self._pause(at_most))
            return self._due()

    def clear(self) -> None:
        """Forget everything."""
        with self._changed:
            self._woken.clear()
            self._times.clear()
            self._heap.clear()

    def _due(self) -> str | None:
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            at, name = heapq.heappop(self._heap)
            if self._times.get(name) == at:
                del self._times[name]
                self._woken.setdefault(name)
        if not self._woken:
            return None
        name = next(iter(self._woken))
        del self._woken[name]
        return name

    def _pause(self, at_most: float) -> float:
        if not self._heap:
            return at_most
        return min(at_most, max(0.0, (self._heap[0][0] - self._clock()).total_seconds()))
