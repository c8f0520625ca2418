"""Runs a service in the foreground: log, configuration and its reload, signals, exit status.

The same for every service of exporters. Must not know what a service does.
"""

import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, TextIO, TypeVar

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from chassis.config import ConfigWatcher, Settings, dump_settings
from chassis.errors import ConfigError, NodemendError
from chassis.telemetry import configure_logging, get_logger, new_registry

PREFIX = "nodemend"
"""The metric prefix of all services of exporters; the job tells them apart."""
_OK, _UNUSABLE = 0, 2

M = TypeVar("M", bound=Settings)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What only `__main__` may look up, handed on."""

    clock: Callable[[], datetime]
    version: str
    err: TextIO


class Service(Protocol[M]):
    """A service that is made and not yet running."""

    def use(self, settings: M, /) -> None:
        """Take new settings, or raise one of our errors and go on with the old ones."""

    def run(self, stop: threading.Event, watcher: ConfigWatcher[M], /) -> None:
        """Serve until `stop`; starts the watcher and stops it."""


Make = Callable[[M, CollectorRegistry, FilteringBoundLogger], Service[M]]


def tell_restart_needed(
    log: FilteringBoundLogger, keys: Iterable[str], started_with: Settings, settings: Settings
) -> None:
    """Say which of `keys`, that only a start reads, have changed since then."""
    changed = [key for key in keys if getattr(settings, key) != getattr(started_with, key)]
    if changed:
        log.warning("restart_needed", keys=changed)


def run_service(
    name: str, file: Path, model: type[M], make: Make[M], surroundings: Surroundings
) -> int:
    """Run until SIGTERM or SIGINT, with a reload on SIGHUP; 0, or 2 when it cannot start.

    Args:
        name: The sub-command, for the log.
        file: The configuration.
        model: What to read it into.
        make: Makes the service; nothing runs yet.
        surroundings: Clock, version and standard error.
    """
    try:
        _run(name, file, model, make, surroundings)
    except ConfigError as error:
        surroundings.err.writelines(f"{mistake}\n" for mistake in error.mistakes)
        return _UNUSABLE
    except NodemendError as error:
        surroundings.err.write(f"exporters {name}: {error}\n")
        return _UNUSABLE
    return _OK


def _run(name: str, file: Path, model: type[M], make: Make[M], surroundings: Surroundings) -> None:
    configure_logging()
    log = get_logger(name)
    registry = new_registry(PREFIX, surroundings.version)
    service: Service[M] | None = None

    def reload(settings: M) -> None:
        if service is not None:
            service.use(settings)

    watcher = ConfigWatcher(
        file, model, on_reload=reload, registry=registry, log=log, service=PREFIX
    )
    configure_logging(level=getattr(watcher.current, "log_level", "info"))
    log.info("starting", version=surroundings.version, config=dump_settings(watcher.current))
    service = make(watcher.current, registry, log)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    signal.signal(signal.SIGHUP, lambda *_: watcher.request_reload())
    service.run(stop, watcher)
