"""Tables of records in memory, written through to an SQLite file when there is one.

Not for sharing: one process, and the caller holds the lock.
"""

import sqlite3
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

import orjson
from pydantic import TypeAdapter

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS records "
    "(kind TEXT, grp TEXT, key TEXT, body BLOB, PRIMARY KEY (kind, grp, key)) WITHOUT ROWID"
)


class Record(Protocol):
    @property
    def group(self) -> str: ...
    @property
    def key(self) -> str: ...


class SQLiteFile:
    """All records as JSON rows; a write is durable against a killed process, not a lost machine."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=OFF")
        self._connection.execute(SCHEMA)

    def load(self, kind: str) -> Iterator[bytes]:
        rows = self._connection.execute("SELECT body FROM records WHERE kind = ?", (kind,))
        return (row[0] for row in rows)

    def put(self, kind: str, record: Record) -> None:
        row = (kind, record.group, record.key, orjson.dumps(record, option=orjson.OPT_NON_STR_KEYS))
        self._connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", row)

    def delete(self, kind: str, record: Record) -> None:
        self._connection.execute(
            "DELETE FROM records WHERE kind = ? AND grp = ? AND key = ?",
            (kind, record.group, record.key),
        )

    def begin(self) -> None:
        self._connection.execute("BEGIN")

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


R = TypeVar("R", bound=Record)


class Table(Generic[R]):
    """Records by group and key, in order of first insertion."""

    def __init__(self, model: type[R], file: SQLiteFile | None) -> None:
        self._kind = model.__name__
        self._file = file
        self._groups: dict[str, dict[str, R]] = {}
        if file is not None:
            self._restore(file, TypeAdapter(model))

    def get(self, group: str, key: str) -> R | None:
        return self._groups.get(group, {}).get(key)

    def in_group(self, group: str = "") -> list[R]:
        return list(self._groups.get(group, {}).values())

    def all(self) -> list[R]:
        return [record for group in self._groups.values() for record in group.values()]

    def put(self, record: R) -> R:
        self._groups.setdefault(record.group, {})[record.key] = record
        if self._file is not None:
            self._file.put(self._kind, record)
        return record

    def delete(self, record: R) -> None:
        self._groups.get(record.group, {}).pop(record.key, None)
        if self._file is not None:
            self._file.delete(self._kind, record)

    def _restore(self, file: SQLiteFile, adapter: TypeAdapter[R]) -> None:
        records = [adapter.validate_json(body) for body in file.load(self._kind)]
        for record in sorted(records, key=lambda record: int(getattr(record, "id", 0))):
            self._groups.setdefault(record.group, {})[record.key] = record
