"""Asks the Alertmanagers what still fires, and delivers what reconciliation makes up; one thread."""

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from alerts2gh.metrics import ReconcileMetrics
from alerts2gh.ports import Store
from alerts2gh.reconciliation import Key, Sight, SightReason, View, reconcile, see
from chassis.alertmanager import Alert
from chassis.errors import NodemendError, TemporaryError


class AlertSource(Protocol):
    """An Alertmanager. Raises TemporaryError or PermanentError when it cannot be asked."""

    def alerts(self) -> tuple[Alert, ...]: ...

    def started_at(self) -> datetime: ...


class Reconciler:
    """`sources` gives the Alertmanagers of the present configuration by URL; without any it does nothing."""

    def __init__(  # noqa: PLR0913 -- composition: each is a part of its own
        self,
        store: Store,
        sources: Callable[[], Mapping[str, AlertSource]],
        *,
        every: Callable[[], timedelta],
        poke: Callable[[], None],
        clock: Callable[[], datetime],
        metrics: ReconcileMetrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._store = store
        self._sources = sources
        self._every = every
        self._poke = poke
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._absent_since: Mapping[Key, datetime] = {}
        self._said: SightReason | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconcile")

    @property
    def sight(self) -> SightReason | None:
        """Whether the Alertmanagers could be relied on last; None before the first comparison."""
        return self._said

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._every().total_seconds()):
            try:
                self.turn()
            except TemporaryError as error:
                self._log.warning("reconcile_failed", error=str(error))
            except Exception:  # noqa: BLE001 -- the next turn may do better, and the log says what happened
                self._log.exception("reconcile_broke")

    def turn(self) -> SightReason:
        """One comparison; why it could or could not be relied on."""
        views = self._views()
        sight = see(views, self._clock())
        self._tell(sight)
        if sight.reason is not SightReason.COMPLETE:
            self._absent_since = {}
            return sight.reason
        incidents = self._store.open_and_firing()
        done = reconcile(incidents, sight, self._absent_since, self._clock())
        self._absent_since = done.absent_since
        if done.parts:
            self._store.accept(done.parts)
            self._metrics.made_up(sum(len(p.alerts) for p in done.parts))
            self._poke()
        return sight.reason

    def _views(self) -> Sequence[View]:
        return [self._view(url, source) for url, source in self._sources().items()]

    def _view(self, url: str, source: AlertSource) -> View:
        try:
            return View(url, source.alerts(), source.started_at())
        except NodemendError as error:
            self._log.info("alertmanager_unreachable", url=url, error=str(error))
            return View(url, None, None)

    def _tell(self, sight: Sight) -> None:
        self._metrics.turned(sight.reason)
        if sight.reason is not self._said:
            self._log.info("reconcile_sight", reason=sight.reason.value)
            self._said = sight.reason
