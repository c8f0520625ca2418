"""Keeps the settings of a running service up to date; a broken file never replaces a good one.

Files are compared by content at a steady pace, so that a rewrite, a rename and the swapped
`..data` link of a Kubernetes volume are all the same thing. No inotify: it misses the latter two.
"""

import hashlib
import queue
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Generic

from prometheus_client import CollectorRegistry, Gauge
from structlog.typing import FilteringBoundLogger

from chassis.config.fields import SecretFile
from chassis.config.loading import M, load_with_secrets
from chassis.errors import ConfigError, NodemendError

_RELOAD = "reload"
_STOP = "stop"
_SETTLE = timedelta(milliseconds=200)


class ConfigWatcher(Generic[M]):
    """Holds the last good settings and replaces them when the file or one of its secrets changes.

    `on_reload` runs in the watcher's thread with the new settings before they become `current`;
    if it raises, the old ones stay. It is not called for the first load.
    """

    def __init__(  # noqa: PLR0913 - composition in __main__, all by name
        self,
        path: Path,
        model: type[M],
        *,
        on_reload: Callable[[M], None],
        registry: CollectorRegistry,
        log: FilteringBoundLogger,
        service: str,
        poll: timedelta = timedelta(seconds=5),
    ) -> None:
        """Load the file for the first time.

        Args:
            path: The YAML file.
            model: What to read it into.
            on_reload: Told about new settings.
            registry: Takes `<service>_config_last_reload_*`.
            log: Takes one line a reload, and one a different reason why it failed.
            service: The metric prefix, such as `alerts2gh`.
            poll: How often the files are compared.

        Raises:
            ConfigError: The file cannot be used.
        """
        self._path = path
        self._model = model
        self._on_reload = on_reload
        self._log = log.bind(config_file=str(path))
        self._poll = poll
        # SimpleQueue.put is reentrant, so a signal handler may call it at any moment;
        # Event.set and Condition.notify are not.
        self._wakeups: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._complaint: str | None = None
        self._mistakes: tuple[str, ...] | None = None
        self._make_metrics(service, registry)
        self._current, self._secrets = load_with_secrets(path, model)
        self._seen = self._looked = self._signature(self._secrets)
        self._settled = True
        self._note_success()

    @property
    def current(self) -> M:
        """The last good settings."""
        return self._current

    @property
    def mistakes(self) -> tuple[str, ...] | None:
        """Why the file as it is now was refused; None while it is the one in use."""
        return self._mistakes

    def start(self) -> None:
        """Begin to watch, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="config-watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it, at most five seconds beyond a running `on_reload`."""
        self._wakeups.put(_STOP)
        if self._thread is not None:
            self._thread.join(timeout=5)

    def request_reload(self) -> None:
        """Ask for a reload now, changed or not. Safe in a signal handler; returns at once."""
        self._wakeups.put(_RELOAD)

    def _make_metrics(self, service: str, registry: CollectorRegistry) -> None:
        prefix = f"{service}_config_last_reload"
        self._successful = Gauge(
            f"{prefix}_successful",
            "Whether the configuration file as it is now is the one in use (1) or was refused (0).",
            registry=registry,
        )
        self._success_time = Gauge(
            f"{prefix}_success_timestamp_seconds",
            "When the configuration in use was loaded.",
            registry=registry,
        )

    def _run(self) -> None:
        while (wakeup := self._next_wakeup()) != _STOP:
            try:
                self._check(forced=wakeup == _RELOAD)
            except Exception:  # noqa: BLE001 - this thread is the only way to new settings
                self._successful.set(0)
                self._mistakes = ("reading it failed inside this program; the log has a traceback",)
                self._log.exception("config_reload_crashed")

    def _next_wakeup(self) -> str | None:
        pause = self._poll if self._settled else min(self._poll, _SETTLE)
        try:
            return self._wakeups.get(timeout=pause.total_seconds())
        except queue.Empty:
            return None

    def _check(self, *, forced: bool) -> None:
        now = self._signature(self._secrets)
        # Half a file may be valid YAML, so a change counts once two looks in a row agree.
        self._settled, self._looked = now == self._looked, now
        # While the file is refused, it is tried each time: what it lacks may be another file.
        changed = self._settled and (now != self._seen or self._complaint is not None)
        if not forced and not changed:
            return
        try:
            self._reload()
        except ConfigError as error:
            self._complain(error.mistakes)
        except NodemendError as error:
            self._complain((str(error),))

    def _reload(self) -> None:
        before = _file_hash(self._path)
        settings, secrets = load_with_secrets(self._path, self._model)
        self._on_reload(settings)
        self._current, self._secrets = settings, secrets
        # The hash from before loading: a write in between is then seen as a change next time.
        self._seen = (before, *self._signature(secrets)[1:])
        self._note_success()
        self._log.info("config_reloaded")

    def _note_success(self) -> None:
        self._complaint = self._mistakes = None
        self._successful.set(1)
        self._success_time.set_to_current_time()

    def _complain(self, mistakes: tuple[str, ...]) -> None:
        self._successful.set(0)
        self._mistakes = mistakes
        complaint = "\n".join(mistakes)
        if complaint != self._complaint:
            self._complaint = complaint
            self._log.error("config_reload_refused", mistakes=list(mistakes))

    def _signature(self, secrets: tuple[SecretFile, ...]) -> tuple[bytes, ...]:
        return (_file_hash(self._path), *(_file_hash(each.path) for each in secrets))


def _file_hash(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""  # a missing file differs from each that can be read
