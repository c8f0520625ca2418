"""The catalogue that requests are decided by: read from its file, kept through bad edits, told in metrics.

A file that cannot be read at the start does not end the process: it is not ready and says why, so
that a catalogue that is mounted later, or mended, is taken without a restart.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from chassis.config import ConfigWatcher
from chassis.errors import ConfigError
from gpu_admission.catalogue import Catalogue, CatalogueSettings, compile_catalogue
from gpu_admission.metrics import CatalogueMetrics

_AGAIN_SECONDS = 2.0
_METRICS = "gpu_admission_catalogue"


class CatalogueInUse:
    """Holds the last good catalogue."""

    def __init__(
        self,
        file: Path,
        *,
        changed: Callable[[], None],
        registry: CollectorRegistry,
        log: FilteringBoundLogger,
    ) -> None:
        """Nothing is read yet; `changed` is called after each new catalogue, from another thread."""
        self._file = file
        self._changed = changed
        self._registry = registry
        self._log = log
        self._metrics = CatalogueMetrics(registry)
        self._current: Catalogue | None = None
        self._problem = "not read yet"
        self._watcher: ConfigWatcher[CatalogueSettings] | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def current(self) -> Catalogue | None:
        """The catalogue, None until one could be read."""
        return self._current

    @property
    def why_not_ready(self) -> str | None:
        """Why there is none."""
        return None if self._current is not None else f"no catalogue yet: {self._problem}"

    def start(self) -> None:
        """Read the file, and go on trying in a thread if it cannot be used."""
        if not self._first():
            self._thread = threading.Thread(target=self._run, name="catalogue", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the threads."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        if self._watcher is not None:
            self._watcher.stop()

    def request_reload(self) -> None:
        """Ask for a reload now. Safe in a signal handler."""
        if self._watcher is not None:
            self._watcher.request_reload()

    def _run(self) -> None:
        while not self._stopping.wait(_AGAIN_SECONDS):
            if self._first():
                return

    def _first(self) -> bool:
        registry = CollectorRegistry()  # a watcher registers its metrics even if it then fails
        try:
            watcher = ConfigWatcher(
                self._file,
                CatalogueSettings,
                on_reload=self._use,
                registry=registry,
                log=self._log,
                service=_METRICS,
            )
        except ConfigError as error:
            problem = "; ".join(str(mistake) for mistake in error.mistakes)
            if problem != self._problem:
                self._log.error("catalogue_refused", problem=problem, kept="none")
            self._problem = problem
            return False
        self._registry.register(registry)
        self._use(watcher.current)
        watcher.start()
        self._watcher = watcher
        return True

    def _use(self, settings: CatalogueSettings) -> None:
        catalogue = compile_catalogue(settings)
        self._current = catalogue
        self._metrics.use(catalogue.generation, len(catalogue.models))
        self._log.info(
            "catalogue_in_use", generation=catalogue.generation, models=len(catalogue.models)
        )
        self._changed()
