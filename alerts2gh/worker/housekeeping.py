"""Once an hour: lets go of what nobody will ask for again. One thread; a missed turn does no harm."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from structlog.typing import FilteringBoundLogger

from alerts2gh.config import Config, walk
from alerts2gh.node_operations import EARLY_FOR
from alerts2gh.ports import Store
from chassis.errors import TemporaryError

_EVERY = timedelta(hours=1)
_MARGIN = timedelta(days=1)


def longest_window(config: Config) -> timedelta:
    """How far back any route looks: what is over for longer can never matter again."""
    changes = [route.policy for _, route in walk(config.route)]
    windows = [config.policy.reopen_window, config.policy.suppress_for]
    windows += [each.reopen_window for each in changes if each.reopen_window is not None]
    windows += [each.suppress_for for each in changes if each.suppress_for is not None]
    return max(windows) + _MARGIN


class Housekeeper:
    """`keep_for` gives how long what is over is remembered, by the present configuration."""

    def __init__(
        self,
        store: Store,
        keep_for: Callable[[], timedelta],
        *,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
    ) -> None:
        self._store = store
        self._keep_for = keep_for
        self._clock = clock
        self._log = log
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.turn()
            except TemporaryError as error:
                self._log.warning("housekeeping_failed", error=str(error))
            except Exception:  # noqa: BLE001 -- the next turn may do better, and the log says what happened
                self._log.exception("housekeeping_broke")
            self._stopping.wait(_EVERY.total_seconds())

    def turn(self) -> tuple[int, int]:
        """Drop old incidents, and entries of operations whose alert never came; how many of each."""
        now = self._clock()
        incidents = self._store.prune(now - self._keep_for())
        entries = self._store.expire_timeline(now - EARLY_FOR)
        if incidents or entries:
            self._log.info("housekeeping_done", incidents=incidents, entries=entries)
        return incidents, entries
