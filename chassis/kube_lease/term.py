"""How long one leadership lasts. Knows neither Lease nor API, only a monotonic clock."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

LEASE_DURATION = timedelta(seconds=15)
RENEW_DEADLINE = timedelta(seconds=10)
RETRY_PERIOD = timedelta(seconds=2)


class Term:
    """One stretch of leadership: over once told so, or when its deadline passes without renewal.

    Looks like a `threading.Event` that is set at the end. A leader that slept through its
    deadline (a paused process) sees the end at its next look, whatever other threads have done.
    """

    def __init__(self, monotonic: Callable[[], float], deadline: float) -> None:
        self._monotonic = monotonic
        self._deadline = deadline
        self._changed = threading.Condition()
        self._over = False

    def is_set(self) -> bool:
        """Whether leadership is over."""
        with self._changed:
            return self._is_over()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most `timeout` seconds; whether leadership is over."""
        until = None if timeout is None else self._monotonic() + timeout
        with self._changed:
            while not self._is_over():
                now = self._monotonic()
                if until is not None and now >= until:
                    return False
                wake = self._deadline if until is None else min(self._deadline, until)
                self._changed.wait(max(0.0, wake - now))
            return True

    def set(self) -> None:
        """End it now."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def extend(self, deadline: float) -> bool:
        """Move the deadline after a renewal; False when it came too late, as the end is final."""
        with self._changed:
            if self._is_over():
                return False
            self._deadline = deadline
            self._changed.notify_all()
            return True

    def remaining(self) -> float:
        """Seconds until the end if no renewal comes; 0 when it is over."""
        with self._changed:
            return 0.0 if self._is_over() else self._deadline - self._monotonic()

    def _is_over(self) -> bool:
        self._over = self._over or self._monotonic() >= self._deadline
        return self._over


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a leader is believed, how long it believes itself, and how often it says so."""

    lease_duration: timedelta = LEASE_DURATION
    renew_deadline: timedelta = RENEW_DEADLINE
    retry_period: timedelta = RETRY_PERIOD

    def __post_init__(self) -> None:
        if not timedelta(0) < self.retry_period < self.renew_deadline < self.lease_duration:
            raise ValueError(
                "retry_period must be below renew_deadline, and that below lease_duration"
            )
        if self.lease_duration < timedelta(seconds=1):
            raise ValueError("lease_duration is told in whole seconds, so at least 1 s")
