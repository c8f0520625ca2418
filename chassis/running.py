"""Runs a service in the foreground: log, configuration and its reload, signals, the order of start and end, exit status.

The same for every service. Must not know what a service does, and reads neither environment nor argv.
"""

import gc
import queue
import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO, TypeVar

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from chassis.config import ConfigWatcher, Settings, dump_settings
from chassis.errors import ConfigError, NodemendError
from chassis.serving import Server
from chassis.telemetry import configure_logging, get_logger, new_registry

OK, UNUSABLE = 0, 2

M = TypeVar("M", bound=Settings)


@dataclass(frozen=True, slots=True)
class Program:
    """What runs: `command` as people type it, the prefix of its metrics, its version, where mistakes are told."""

    command: str
    prefix: str
    version: str
    err: TextIO

    @property
    def name(self) -> str:
        """The last word of the command; the log's `component`."""
        return self.command.rpartition(" ")[2]


class Service(Protocol[M]):
    """A service that is made and not yet running."""

    def use(self, settings: M, /) -> None:
        """Take new settings, or raise one of our errors and go on with the old ones."""

    def run(self, stop: threading.Event, watcher: ConfigWatcher[M], /) -> None:
        """Serve until `stop`; starts the watcher and stops it."""


Make = Callable[[M, CollectorRegistry, FilteringBoundLogger], Service[M]]


def run_service(file: Path, model: type[M], make: Make[M], program: Program) -> int:
    """Run until SIGTERM or SIGINT, with a reload on SIGHUP; 0, or 2 when it cannot start.

    Args:
        file: The configuration.
        model: What to read it into; its `log_level`, if it has one, counts.
        make: Makes the service; nothing runs yet. It gives back what it holds if it raises.
        program: What runs.
    """
    try:
        _run(file, model, make, program)
    except ConfigError as error:
        program.err.writelines(f"{mistake}\n" for mistake in error.mistakes)
        return UNUSABLE
    except NodemendError as error:
        program.err.write(f"{program.command}: {error}\n")
        return UNUSABLE
    return OK


def _run(file: Path, model: type[M], make: Make[M], program: Program) -> None:
    configure_logging()
    log = get_logger(program.name)
    registry = new_registry(program.prefix, program.version)
    service: Service[M] | None = None

    def reload(settings: M) -> None:
        if service is not None:
            service.use(settings)

    watcher = ConfigWatcher(
        file, model, on_reload=reload, registry=registry, log=log, service=program.prefix
    )
    configure_logging(level=getattr(watcher.current, "log_level", "info"))
    log.info("starting", version=program.version, config=dump_settings(watcher.current))
    service = make(watcher.current, registry, log)
    signal.signal(signal.SIGHUP, lambda *_: watcher.request_reload())
    stop = stop_by_signal(signal.SIGTERM, signal.SIGINT)
    gc.collect()
    gc.freeze()  # what exists now stays: collections need not walk over all modules each time
    service.run(stop, watcher)


def stop_by_signal(*numbers: signal.Signals) -> threading.Event:
    """An event that is set once one of the signals has come. Called in the main thread."""
    # A handler that set the event itself would wait for ever for the event's lock, should the main
    # thread be about to wait for the event; SimpleQueue.put is safe at any moment.
    came: queue.SimpleQueue[int] = queue.SimpleQueue()
    stop = threading.Event()

    def pass_on() -> None:
        came.get()
        stop.set()

    threading.Thread(target=pass_on, name="signals", daemon=True).start()
    for number in numbers:
        signal.signal(number, lambda number, _frame: came.put(number))
    return stop


def tell_restart_needed(
    log: FilteringBoundLogger, keys: Iterable[str], started_with: Settings, settings: Settings
) -> None:
    """Say which of `keys`, that only a start reads, have changed since then."""
    changed = [key for key in keys if getattr(settings, key) != getattr(started_with, key)]
    if changed:
        log.warning("restart_needed", keys=changed)


Act = Callable[[], object]


def serve_until(  # noqa: PLR0913 - each moment of a service's life by its name
    stop: threading.Event,
    server: Server,
    watcher: ConfigWatcher[M],
    log: FilteringBoundLogger,
    *,
    begin: Iterable[Act] = (),
    serving: Iterable[Act] = (),
    stopping: Iterable[Act] = (),
    end: Iterable[Act] = (),
) -> None:
    """The life of a service from its first thread to its last.

    Args:
        stop: Set when it is to end.
        server: Started after `begin`; drains before `end`.
        watcher: Brings new configurations while the server runs.
        log: Takes one line when the end begins.
        begin: Starts what answers are made of.
        serving: Starts what may act only once we can be asked, such as an election.
        stopping: Ends that again, while the server still answers.
        end: Ends all else; each is called, in this order, however far the start came.

    Raises:
        PermanentError: The address or the certificate cannot be used.
    """
    try:
        _do(begin)
        server.start()
        watcher.start()
        _do(serving)
        stop.wait()
        log.info("stopping")
        _do(stopping)
        server.stop()
    finally:
        watcher.stop()
        _do(end)


def _do(acts: Iterable[Act]) -> None:
    for act in acts:
        act()
