"""Connections to SQLite and PostgreSQL, set so that a commit means durable.

It knows no tables. Passwords stay inside: the URL is never in a message or a log.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from threading import Condition
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event, make_url
from sqlalchemy.exc import ArgumentError

from alerts2gh.store.checkpoints import Checkpointer
from alerts2gh.store.failures import translated
from chassis.config import SecretFile
from chassis.errors import PermanentError

_WRITES = "alerts2gh_writes"
_POOL = {"pool_size": 8, "max_overflow": 24, "pool_timeout": 10}
_SQLITE_PRAGMAS = (
    "PRAGMA busy_timeout = 5000",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA wal_autocheckpoint = 25000",  # pages; a safety net, see checkpoints.py
)
_POSTGRES_CONNECT = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
# A server may be set to acknowledge before it has written; our acknowledgement must mean durable.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') = 'off'"
)
_POSTGRES_SETTINGS = (
    "SET statement_timeout = '20s'",
    "SET lock_timeout = '10s'",
    "SET idle_in_transaction_session_timeout = '30s'",
    _DURABLE,
)


class Turns:
    """One writer at a time; those that are `first` and the others alternate while both wait.

    A plain lock is not fair: the worker's threads, which take it again and again, would keep webhooks waiting.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._busy = False
        self._waiting = {True: 0, False: 0}
        self._last_was_first = False

    @contextmanager
    def take(self, *, first: bool = False) -> Iterator[None]:
        with self._changed:
            self._waiting[first] += 1
            self._changed.wait_for(lambda: self._is_turn_of(first=first))
            self._waiting[first] -= 1
            self._busy, self._last_was_first = True, first
        try:
            yield
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _is_turn_of(self, *, first: bool) -> bool:
        others_turn = first is self._last_was_first
        return not self._busy and not (others_turn and self._waiting[not first])


class Connections:
    """Transactions on one database. SQLite's writers queue on a lock of ours: its own waiting is a sleep."""

    def __init__(self, engine: Engine, sqlite_file: Path | None = None) -> None:
        self.engine = engine
        self.shared = engine.dialect.name == "postgresql"
        """Whether other processes may write here, too."""
        self._writer = engine.execution_options(**{_WRITES: True})
        self._turns = None if self.shared else Turns()
        self._checkpoints = None
        if sqlite_file is not None:
            self._checkpoints = Checkpointer(sqlite_file, self._turn)

    @contextmanager
    def read(self, doing: str) -> Iterator[Connection]:
        """A transaction that only reads. Raises TemporaryError for the database's failures."""
        with translated(doing), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self, doing: str, *, first: bool = False) -> Iterator[Connection]:
        """A transaction, committed and durable at the end; `first`: a sender waits for it, see Turns.

        Raises:
            TemporaryError: It is not durable.
        """
        with translated(doing), self._turn(first=first), self._writer.begin() as connection:
            yield connection
        if self._checkpoints is not None:
            self._checkpoints.written()

    def _turn(self, *, first: bool = False) -> AbstractContextManager[None]:
        return nullcontext() if self._turns is None else self._turns.take(first=first)

    def close(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.close()
        self.engine.dispose()


def sqlite_engine(file: Path) -> Engine:
    """An engine on a SQLite file, in WAL mode with an fsync at each commit."""
    url = sa.URL.create("sqlite", database=str(file))
    engine = sa.create_engine(url, hide_parameters=True, **_POOL)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we say BEGIN; the driver's own way leaves DDL outside
    cursor = connection.cursor()
    for pragma in _SQLITE_PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def use_write_ahead_log(file: Path) -> None:
    """Switch the file to WAL, make it if there is none; it stays so.

    Raises:
        PermanentError: The file is no database, or its file system cannot do it.
    """
    try:
        with closing(sqlite3.connect(file)) as connection:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    except sqlite3.Error as error:
        raise PermanentError(
            f"database.sqlite_file: {file} cannot be used: {error}; put it right or move it away"
        ) from error
    if mode != "wal":
        raise PermanentError(
            f"database.sqlite_file: the file system of {file} has no write-ahead log (got {mode});"
            " use a local volume"
        )


def postgres_engine(secret: SecretFile) -> Engine:
    """An engine on PostgreSQL. The URL is read anew for each connection, so that a password may rotate.

    Raises:
        PermanentError: The URL is not one of PostgreSQL, or the driver is missing.
    """
    _postgres_url(secret)
    try:
        engine = sa.create_engine(
            "postgresql+psycopg://", hide_parameters=True, pool_pre_ping=True, **_POOL
        )
    except ImportError as error:
        raise PermanentError(
            "database.postgres_url_file: the PostgreSQL driver is missing;"
            " install the extra `postgres` (nodemend[postgres])"
        ) from error

    def connect_arguments(
        dialect: sa.Dialect, _record: object, arguments: list[Any], options: dict[str, Any]
    ) -> None:
        found, named = dialect.create_connect_args(_postgres_url(secret))
        arguments[:] = found
        options.update({**_POSTGRES_CONNECT, **named})

    event.listen(engine, "do_connect", connect_arguments)
    event.listen(engine, "connect", _prepare_postgres)
    return engine


def _postgres_url(secret: SecretFile) -> sa.URL:
    try:
        url = make_url(secret.read())
    except (ArgumentError, ValueError):
        # Not chained: the error holds the URL, and that a password.
        raise _not_a_url(secret) from None
    if url.get_backend_name() not in {"postgresql", "postgres"}:
        raise _not_a_url(secret)
    return url.set(drivername="postgresql+psycopg")


def _not_a_url(secret: SecretFile) -> PermanentError:
    return PermanentError(
        f"database.postgres_url_file: {secret.path} must hold a URL like"
        " postgresql://USER:PASSWORD@HOST:5432/DATABASE"
    )


def _prepare_postgres(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        for statement in _POSTGRES_SETTINGS:
            cursor.execute(statement)
    connection.commit()


def check_postgres(connection: Connection) -> None:
    """Refuse a database that cannot hold every text.

    Raises:
        PermanentError: Its encoding is not UTF-8.
    """
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise PermanentError(
            f"database.postgres_url_file: the database's encoding is {encoding};"
            " create it with ENCODING 'UTF8'"
        )
