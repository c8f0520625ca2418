"""How long to wait before the next try. Pure but for the dice, which can be handed in.

Knows nothing of what is tried.
"""

import random
from collections.abc import Callable
from datetime import timedelta

_FIRST = timedelta(milliseconds=500)
_LIMIT = timedelta(seconds=30)
_HEALTHY = timedelta(seconds=30)


class Backoff:
    """Doubles from `first` to `limit`, half of it by chance so that many clients do not march in step.

    A stretch of at least `healthy` that went well makes the next failure count as the first.
    """

    def __init__(
        self,
        *,
        first: timedelta = _FIRST,
        limit: timedelta = _LIMIT,
        healthy: timedelta = _HEALTHY,
        dice: Callable[[], float] = random.random,
    ) -> None:
        """Args: the waits, and `dice` giving numbers from 0 to below 1."""
        self._first = first
        self._limit = limit
        self._healthy = healthy
        self._dice = dice
        self._failures = 0

    @property
    def failures(self) -> int:
        """How many failures there were since the last healthy stretch."""
        return self._failures

    def went_well_for(self, stretch: timedelta) -> None:
        """Tell how long the last try worked before it ended."""
        if stretch >= self._healthy:
            self._failures = 0

    def next_wait(self, asked: timedelta | None = None) -> timedelta:
        """The wait after one more failure, at least what the other side asked for.

        It is at most `limit`, unless more was asked.
        """
        # The exponent is bounded: a long outage must not make a number that overflows.
        whole = min(self._limit, self._first * (1 << min(self._failures, 20)))
        self._failures += 1
        wait = whole / 2 + whole / 2 * self._dice()
        return max(wait, asked or timedelta(0))
