"""A token bucket before the API, so that one process of ours cannot crowd out the others.

Knows no HTTP. The wait is computed under a lock and spent outside of it.
"""

import threading
import time
from collections.abc import Callable


class RateLimiter:
    """Lets `burst` calls through at once and `qps` a second after that; a `qps` of 0 is no limit."""

    def __init__(
        self,
        qps: float,
        burst: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._tokens = float(burst)
        self._counted_at = monotonic()

    def acquire(self) -> None:
        """Wait for this call's turn, first come first served."""
        if self._qps <= 0:
            return
        wait = self._reserve()
        if wait > 0:
            self._sleep(wait)

    def _reserve(self) -> float:
        with self._lock:
            now = self._monotonic()
            refilled = self._tokens + (now - self._counted_at) * self._qps
            self._tokens = min(self._burst, refilled) - 1
            self._counted_at = now
            return max(0.0, -self._tokens / self._qps)
