"""What is to be looked at, and when: names that were woken, and names whose time comes.

Any thread wakes, one takes. A name that is woken ten times before it is taken is looked at once. What comes
first is taken before the rest, but does not keep the rest waiting for ever.
"""

import heapq
import threading
from collections.abc import Callable, Collection
from datetime import datetime

_FIRST_IN_A_ROW = 8


class Agenda:
    """Names with the time of their next look; None of a time is never."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._first: dict[str, None] = {}  # in the order in which they came
        self._woken: dict[str, None] = {}
        self._in_a_row = 0  # how many of the first were taken while others waited
        self._times: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []

    def wake(self, names: Collection[str], *, first: bool = False) -> None:
        """Look at these at once; `first`: before those that are not."""
        with self._changed:
            names = [name for name in names if name not in self._first]
            for name in names if first else ():
                self._woken.pop(name, None)
            (self._first if first else self._woken).update(dict.fromkeys(names))
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
            self._first.clear()
            self._woken.clear()
            self._times.clear()
            self._heap.clear()

    def _due(self) -> str | None:
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            at, name = heapq.heappop(self._heap)
            if self._times.get(name) == at:
                del self._times[name]
                if name not in self._first:
                    self._woken.setdefault(name)
        return self._taken()

    def _taken(self) -> str | None:
        turn_of_the_rest = self._woken and self._in_a_row >= _FIRST_IN_A_ROW
        lane = self._woken if turn_of_the_rest or not self._first else self._first
        if not lane:
            return None
        self._in_a_row = self._in_a_row + 1 if lane is self._first else 0
        name = next(iter(lane))
        del lane[name]
        return name

    def _pause(self, at_most: float) -> float:
        if not self._heap:
            return at_most
        return min(at_most, max(0.0, (self._heap[0][0] - self._clock()).total_seconds()))
