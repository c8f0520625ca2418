"""The peers that contracts are checked on: databases for the store, APIs for Kubernetes."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from alerts2gh.config import Database
from alerts2gh.store import SQLStore
from chassis.config import SecretFile
from tests.contracts.kubernetes_peers import kube, kubernetes_peer
from tests.contracts.postgres_server import HOW_TO_GET_IT, PostgresServer, binaries
from tests.contracts.store_databases import DatabaseUnderTest

__all__ = ["kube", "kubernetes_peer"]  # fixtures that are made elsewhere


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    programs = binaries()
    if programs is None:
        pytest.skip(HOW_TO_GET_IT)
    server = PostgresServer(programs)
    yield server
    server.remove()


@pytest.fixture
def postgres_database(postgres: PostgresServer, tmp_path: Path) -> Database:
    file = tmp_path / "postgres-url"
    file.write_text(postgres.new_database())
    return Database(postgres_url_file=SecretFile(file))


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Database:
    return Database(sqlite_file=tmp_path / "alerts2gh.db")


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[DatabaseUnderTest]:
    name = {"sqlite": "sqlite_database", "postgresql": "postgres_database"}[request.param]
    opened: list[SQLStore] = []
    yield DatabaseUnderTest(request.getfixturevalue(name), opened)
    for store in opened:
        store.close()


@pytest.fixture
def shared_database(postgres_database: Database) -> Iterator[DatabaseUnderTest]:
    """One that several processes may use, so PostgreSQL."""
    opened: list[SQLStore] = []
    yield DatabaseUnderTest(postgres_database, opened)
    for store in opened:
        store.close()


@pytest.fixture
def store(database: DatabaseUnderTest) -> SQLStore:
    return database.open()


@pytest.fixture
def in_parallel() -> Callable[[list[Callable[[], object]]], list[object]]:
    """Runs functions at the same time in threads; their results in order."""

    def run(jobs: list[Callable[[], object]]) -> list[object]:
        gate = Barrier(len(jobs))

        def one(job: Callable[[], object]) -> object:
            gate.wait(10)
            return job()

        with ThreadPoolExecutor(len(jobs)) as pool:
            return list(pool.map(one, jobs))

    return run
