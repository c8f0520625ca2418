"""A database that a test of the store's contract runs on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from alerts2gh.config import Database
from alerts2gh.store import SQLStore, open_store
from tests.alerts2gh.store_builders import NOW


@dataclass
class DatabaseUnderTest:
    """An empty database; `open` gives a store on it, closed at the end of the test."""

    settings: Database
    _opened: list[SQLStore]
    now: datetime = NOW

    def open(self, **changes: object) -> SQLStore:
        settings = self.settings.model_copy(update=changes)
        store = open_store(settings, now=lambda: self.now)
        self._opened.append(store)
        return store


@contextmanager
def raw_connection(settings: Database) -> Iterator[sa.Connection]:
    """A transaction on the database behind the store's back."""
    if settings.sqlite_file:
        url = f"sqlite:///{settings.sqlite_file}"
    else:
        assert settings.postgres_url_file
        url = settings.postgres_url_file.read().replace("postgresql:", "postgresql+psycopg:")
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()
