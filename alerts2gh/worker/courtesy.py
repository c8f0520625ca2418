"""Lets webhooks pass before the worker goes on: their senders wait for an answer, nobody waits for the worker.

Python runs one thread at a time and does not know who is in a hurry. So the worker asks between its steps, while it holds
nothing, and waits a moment where a webhook is under way; it is never held up for good.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

_AT_MOST = timedelta(milliseconds=4)
"""What a webhook computes, mostly; one that waits for the database longer needs no thread of ours to stand aside."""


class Courtesy:
    """Counts the webhooks under way. `at_most` is how long one step of the worker waits for them."""

    def __init__(self, at_most: timedelta = _AT_MOST) -> None:
        self._at_most = at_most.total_seconds()
        self._changed = threading.Condition()
        self._under_way = 0
        self._waiting = 0

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Around the handling of a webhook."""
        with self._changed:
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                if self._waiting and not self._under_way:
                    self._changed.notify_all()

    def give_way(self) -> None:
        """Return when no webhook is under way, or after `at_most`."""
        if not self._under_way:  # without the lock: it may be over or begin any moment anyway
            return
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._under_way, self._at_most)
            self._waiting -= 1
