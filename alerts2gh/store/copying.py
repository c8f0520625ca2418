"""A copy of the database for a dry run: a SQLite file of its own, made while the service goes on.

The original is only read. Leases are left out, for the copy belongs to whoever made it.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

from alerts2gh.config import Database
from alerts2gh.store.engines import postgres_engine
from alerts2gh.store.failures import translated
from alerts2gh.store.opening import open_store
from alerts2gh.store.schema import metadata
from alerts2gh.store.sql_store import SQLStore
from chassis.errors import PermanentError

_LEFT_OUT = frozenset({"leases"})
_ROWS = 500


def open_copy(database: Database, folder: Path, *, now: Callable[[], datetime]) -> SQLStore:
    """Copy what `database` names into `folder` and open the copy; empty when there is nothing yet.

    Raises:
        PermanentError: The database cannot be read.
        TemporaryError: The server does not answer.
    """
    file = folder / "copy.db"
    copy = Database(sqlite_file=file, max_backlog=database.max_backlog)
    if database.sqlite_file is not None:
        _copy_file(database.sqlite_file.resolve(), file)
        return open_store(copy, now=now)
    open_store(copy, now=now).close()
    _copy_rows(database, file)
    return open_store(copy, now=now)


def _copy_file(source: Path, file: Path) -> None:
    """By SQLite's backup, which takes one consistent state while others write."""
    if not source.is_file():
        return
    try:
        with (
            closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)) as original,
            closing(sqlite3.connect(file)) as copy,
        ):
            original.backup(copy)
            if copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'leases'").fetchone():
                copy.execute("DELETE FROM leases")
            copy.commit()
    except sqlite3.Error as error:
        raise PermanentError(f"{source} cannot be copied: {error}") from error


def _copy_rows(database: Database, file: Path) -> None:
    if database.postgres_url_file is None:
        raise PermanentError("database: give exactly one of sqlite_file and postgres_url_file")
    source = postgres_engine(database.postgres_url_file)
    target = sa.create_engine(sa.URL.create("sqlite", database=str(file)))
    try:
        with translated("copying the database"), source.connect() as connection:
            original = connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            with original.begin(), target.begin() as copy:
                for table in metadata.sorted_tables:
                    _copy_table(table, original, copy)
    finally:
        source.dispose()
        target.dispose()


def _copy_table(table: sa.Table, original: Connection, copy: Connection) -> None:
    if table.name in _LEFT_OUT:
        return
    rows = original.execution_options(yield_per=_ROWS).execute(sa.select(table))
    for some in rows.mappings().partitions():
        copy.execute(sa.insert(table), [dict(row) for row in some])
