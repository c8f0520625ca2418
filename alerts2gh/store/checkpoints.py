"""Moves SQLite's write-ahead log into the database beside the writers, so that no commit waits for it.

Left to itself SQLite does it inside whichever commit makes the log too long, and a webhook waits for that.
"""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

from chassis.telemetry import get_logger

_EVERY = timedelta(seconds=5)

log = get_logger("store")


class Checkpointer:
    """One thread, at work every few seconds while there are commits; `written` tells it of one."""

    def __init__(
        self, file: Path, writers_held: Callable[[], AbstractContextManager[object]]
    ) -> None:
        """`writers_held` keeps all writers waiting while it is entered."""
        self._file = file
        self._writers_held = writers_held
        self._wanted = Event()
        self._closed = Event()
        self._thread = Thread(target=self._run, name="store-checkpoint", daemon=True)
        self._thread.start()

    def written(self) -> None:
        self._wanted.set()

    def close(self) -> None:
        self._closed.set()
        self._wanted.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(_EVERY.total_seconds()):
            self._wanted.wait()
            self._wanted.clear()
            if self._closed.is_set():
                return
            try:
                self._checkpoint()
            except sqlite3.Error as error:  # nothing is lost: SQLite still does it at its own limit
                log.warning("checkpoint_failed", error=str(error))

    def _checkpoint(self) -> None:
        """Bring most of the log over while others write, and the little rest while they wait.

        Only a log that was brought over whole is begun anew, else it would grow under a steady load.
        """
        with closing(sqlite3.connect(self._file, isolation_level=None)) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            with self._writers_held():
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
