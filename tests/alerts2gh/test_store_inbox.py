"""Group commit: one write for what has queued, and every caller learns of its own."""

import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import event

from alerts2gh.config import Database
from alerts2gh.incident import DeliveryPart
from alerts2gh.store import SQLStore, open_store
from alerts2gh.store.inbox import Inbox
from chassis.errors import TemporaryError
from tests.alerts2gh.store_builders import NOW, TARGET, a_part, an_alert

Row = dict[str, int]


class Slow:
    """A write that waits until it is let go, and keeps what came."""

    def __init__(self) -> None:
        self.writes: list[list[int]] = []
        self.started, self.let_go = Event(), Event()
        self.error: BaseException | None = None

    def __call__(self, rows: Sequence[Row]) -> None:
        self.started.set()
        assert self.let_go.wait(10)
        if self.error is not None:
            raise self.error
        self.writes.append([row["n"] for row in rows])


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def inbox(slow: Slow) -> Iterator[Inbox[Row]]:
    inbox = Inbox(slow)
    yield inbox
    slow.let_go.set()
    inbox.close()


def wait_until_queued(inbox: Inbox[Row], count: int) -> None:
    with inbox._changed:
        assert inbox._changed.wait_for(lambda: len(inbox._waiting) >= count, 10)


def test_what_queues_during_a_write_is_written_together(inbox: Inbox[Row], slow: Slow) -> None:
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(inbox.commit, [{"n": 0}], 1)
        assert slow.started.wait(10)
        others = [pool.submit(inbox.commit, [{"n": n}, {"n": -n}], 1) for n in (1, 2, 3)]
        wait_until_queued(inbox, 3)
        assert not first.done()
        slow.let_go.set()
        for each in (first, *others):
            each.result(10)

    assert len(slow.writes) == 2
    assert sorted(slow.writes[1]) == [-3, -2, -1, 1, 2, 3]


def test_a_write_is_not_larger_than_its_limit(inbox: Inbox[Row], slow: Slow) -> None:
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(inbox.commit, [{"n": 0}], 1)
        assert slow.started.wait(10)
        others = [pool.submit(inbox.commit, [{"n": n}], 10_000_000) for n in (1, 2)]
        wait_until_queued(inbox, 2)
        slow.let_go.set()
        for each in (first, *others):
            each.result(10)

    assert sorted(slow.writes) == [[0], [1], [2]]


@pytest.mark.parametrize("error", [TemporaryError("disk full"), MemoryError("disk full")])
def test_a_failed_write_reaches_each_caller_and_the_next_is_written(
    inbox: Inbox[Row], slow: Slow, error: BaseException
) -> None:
    slow.error = error
    slow.let_go.set()
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(inbox.commit, [{"n": n}], 1) for n in range(2)]
        told = [job.exception(10) for job in jobs]
    assert [type(each) for each in told] == [TemporaryError, TemporaryError]
    assert {str(each) for each in told} == {"disk full"}
    assert told[0] is not told[1]

    slow.error = None
    inbox.commit([{"n": 2}], 1)

    assert slow.writes == [[2]]


def test_a_write_without_end_is_told_as_temporary(
    inbox: Inbox[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alerts2gh.store.inbox._PATIENCE", timedelta(milliseconds=10))

    with pytest.raises(TemporaryError, match="takes too long"):
        inbox.commit([{"n": 1}], 1)


def test_closing_writes_what_has_queued(inbox: Inbox[Row], slow: Slow) -> None:
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(inbox.commit, [{"n": 0}], 1)
        assert slow.started.wait(10)
        second = pool.submit(inbox.commit, [{"n": 1}], 1)
        wait_until_queued(inbox, 1)
        slow.let_go.set()
        inbox.close()
        first.result(10)
        second.result(10)

    assert slow.writes == [[0], [1]]
    with pytest.raises(TemporaryError, match="closed"):
        inbox.commit([{"n": 2}], 1)


def limited_to(store: SQLStore, pages: int) -> None:
    """Make SQLite say that the disk is full once the file has so many pages."""
    engine = store._connections.engine

    def limit(connection: object, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")  # type: ignore[attr-defined]  # sqlite3's

    event.listen(engine, "connect", limit)
    engine.dispose()


def a_large_part(name: str) -> DeliveryPart:
    return a_part(name, an_alert(annotations={"text": "x" * 20_000}))


def accepted_until_refused(store: SQLStore) -> tuple[list[DeliveryPart], TemporaryError]:
    taken: list[DeliveryPart] = []
    while True:
        part = a_large_part(f"A{len(taken)}")
        try:
            store.accept([part])
        except TemporaryError as error:
            return taken, error
        taken.append(part)


def test_a_full_disk_is_temporary_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    settings = Database(sqlite_file=tmp_path / "a.db")
    store = open_store(settings, now=lambda: NOW)
    limited_to(store, 200)

    taken, error = accepted_until_refused(store)

    assert re.search(r"disk is full \(SQLITE_FULL\)", str(error))
    with pytest.raises(TemporaryError, match="full"):
        store.accept([a_large_part("again")])
    assert store.backlog() == len(taken) > 10
    limited_to(store, 100_000)
    after = a_part("after")
    store.accept([after])
    store.close()
    again = open_store(settings, now=lambda: NOW)
    expected = {part.incident_id for part in (*taken, after)}
    assert set(again.due(TARGET.key, NOW, 1000)) == expected
    again.close()


def test_the_write_ahead_log_does_not_grow_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alerts2gh.store.checkpoints._EVERY", timedelta(milliseconds=1))
    store = open_store(Database(sqlite_file=tmp_path / "a.db"), now=lambda: NOW)
    wal = tmp_path / "a.db-wal"
    deadline = time.monotonic() + 30
    accepted = 0
    while accepted < 100 or accepted * 20_000 < 3 * wal.stat().st_size:
        store.accept([a_large_part("A")])
        accepted += 1
        assert time.monotonic() < deadline, "the log only grows"
    store.close()

    again = open_store(Database(sqlite_file=tmp_path / "a.db"), now=lambda: NOW)
    assert again.backlog() == accepted
    again.close()
