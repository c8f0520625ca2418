"""Rounds of checks, each in a thread of its own at its own pace, and a watchdog over them.

A round that raises, or does not come back, is a round without a verdict: it is told as such, and holds up no other.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from chassis.contracts import ConditionReason

_LEAST_PAUSE = 2.0  # seconds between rounds, however often one is woken
_LOOK = 1.0


class Round(Protocol):
    """Some checks that are done together."""

    @property
    def name(self) -> str: ...

    @property
    def checks(self) -> Sequence[str]: ...

    def run(self) -> None:
        """Do them, and report."""


Failed = Callable[[Sequence[str], ConditionReason, str], None]
"""Told about checks that gave no verdict: their names, why, and a text."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often, and how long a round may take before it counts as not coming back."""

    interval: timedelta
    patience: timedelta


class Loop:
    """Runs one round again and again."""

    def __init__(
        self,
        doing: Round,
        pace: Pace,
        failed: Failed,
        log: FilteringBoundLogger,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.doing = doing
        self._pace = pace
        self._failed = failed
        self._log = log.bind(round=doing.name)
        self._monotonic = monotonic
        self._started: float | None = None
        self._told: float | None = None
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"round-{doing.name}", daemon=True)
        self.rounds = 0

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Have the next round soon."""
        self._wake.set()

    def ask_to_stop(self) -> None:
        self._stopping.set()
        self._wake.set()

    def join(self, seconds: float) -> None:
        if self._thread.is_alive():
            self._thread.join(seconds)

    def look(self) -> None:
        """Tell that a round does not come back, once an interval."""
        started, now = self._started, self._monotonic()
        if started is None or now - started < self._pace.patience.total_seconds():
            return
        if self._told is not None and now - self._told < self._pace.interval.total_seconds():
            return
        if self._told is None:
            self._log.warning("round_does_not_end", seconds=round(now - started))
        self._told = now
        text = f"the check has not come back for {now - started:.0f} s"
        self._failed(self.doing.checks, ConditionReason.TIMEOUT, text)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._started = started = self._monotonic()
            try:
                self.doing.run()
            except Exception as error:  # noqa: BLE001 - a dead thread would look like a healthy node
                self._log.exception("round_failed")
                text = f"the check itself failed ({type(error).__name__})"
                self._failed(self.doing.checks, ConditionReason.OTHER, text)
            self._started = self._told = None
            self.rounds += 1
            self._pause(started)

    def _pause(self, started: float) -> None:
        passed = self._monotonic() - started
        self._wake.wait(max(0.0, self._pace.interval.total_seconds() - passed))
        if self._stopping.is_set():
            return
        if self._wake.is_set():
            least = min(_LEAST_PAUSE, self._pace.interval.total_seconds())
            self._stopping.wait(max(0.0, least - (self._monotonic() - started)))
        self._wake.clear()


class Watchdog:
    """Looks after the loops, and calls `tick` now and then."""

    def __init__(
        self, loops: Sequence[Loop], tick: Callable[[], None], log: FilteringBoundLogger
    ) -> None:
        self._loops = loops
        self._tick = tick
        self._log = log
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK):
            try:
                for loop in self._loops:
                    loop.look()
                self._tick()
            except Exception:  # noqa: BLE001 - without it a hung check would look fresh for ever
                self._log.exception("watchdog_failed")
