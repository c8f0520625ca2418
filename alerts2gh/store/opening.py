"""Opens the store: checks the place, connects, brings the tables up to date."""

from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import alembic.command
import alembic.util
import sqlalchemy as sa
from alembic.config import Config
from sqlalchemy import Connection

from alerts2gh.config import Database
from alerts2gh.store.engines import (
    Connections,
    check_postgres,
    postgres_engine,
    sqlite_engine,
    use_write_ahead_log,
)
from alerts2gh.store.schema import leases, metadata
from alerts2gh.store.sql_store import SQLStore
from alerts2gh.store.sqlite_guard import check_place, hold_lock
from chassis.errors import PermanentError

_MIGRATIONS = Path(__file__).parent.parent / "migrations"
_MIGRATION_LOCK = (
    0x6E6F6465  # any number that nobody else on that server uses for pg_advisory locks
)


def open_store(database: Database, *, now: Callable[[], datetime]) -> SQLStore:
    """Open what `database` names, and make or upgrade its tables.

    Args:
        database: The `database` section of the configuration.
        now: The clock, for the time that rows were changed at.

    Raises:
        PermanentError: The place is unusable, in use, or written by a newer version; the message says what to do.
        TemporaryError: The server does not answer, or the disk is full.
    """
    with ExitStack() as undo:
        connections = _connect(database, undo)
        undo.callback(connections.close)
        with connections.write("preparing the database") as connection:
            if connections.shared:
                _wait_for_turn(connection)
            migrate(connection)
            if not connections.shared:
                # The lock of the file proves that whoever held a lease is gone.
                connection.execute(sa.delete(leases))
        held = ExitStack()
        store = SQLStore(connections, now=now, max_backlog=database.max_backlog, held=held.close)
        held.enter_context(undo.pop_all())
        return store


def _connect(database: Database, undo: ExitStack) -> Connections:
    if database.sqlite_file is None:
        if database.postgres_url_file is None:
            raise PermanentError("database: give exactly one of sqlite_file and postgres_url_file")
        return Connections(postgres_engine(database.postgres_url_file))
    file = database.sqlite_file.resolve()
    check_place(file)
    undo.enter_context(hold_lock(file))
    use_write_ahead_log(file)
    return Connections(sqlite_engine(file), file)


def _wait_for_turn(connection: Connection) -> None:
    """Let one replica migrate while the others wait."""
    check_postgres(connection)
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))


def migrate(connection: Connection) -> None:
    """Bring the tables up to date, in the transaction of `connection`.

    Raises:
        PermanentError: The database is newer than this program.
    """
    try:
        alembic.command.upgrade(alembic_config(connection), "head")
    except alembic.util.CommandError as error:
        raise PermanentError(
            f"the database was written by a newer version of alerts2gh ({error});"
            " run that version, or restore the backup made before the upgrade"
        ) from error


def alembic_config(connection: Connection) -> Config:
    """What Alembic's commands need, without an alembic.ini."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["metadata"] = metadata
    return config
