"""Keeps the objects of the sandbox Kubernetes and the history of their changes. Knows no HTTP and no kinds.

Every object is kept twice: as a mapping for decisions and as JSON bytes for answers, so that a list
of thousands is a join of bytes. A stored mapping is never changed afterwards; whoever wants another
one takes a copy from the bytes. One counter numbers all changes, as etcd's revision does.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

Body = dict[str, Any]
Key = tuple[str, str]
"""Namespace ("" for cluster-scoped kinds) and name: the order in which lists come."""

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"

_LIVE_WINDOWS = 3
"""A watch that is open may lag behind by so many times the history that a new watch can start in."""


class ChangedMeanwhileError(Exception):
    """Somebody else wrote, made or deleted the object between read and write."""


class ForgottenError(Exception):
    """The history does not reach back to the version that was asked for."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history starts after {oldest}")
        self.oldest = oldest


@dataclass(frozen=True, slots=True)
class Record:
    """One object at one version. `body` is not to be changed; `copy` gives one that may be."""

    key: Key
    body: Body
    data: bytes
    version: int

    def copy(self) -> Body:
        body: Body = orjson.loads(self.data)
        return body


@dataclass(frozen=True, slots=True)
class Event:
    """A change; `record` of a deletion is the last state, under the version of the deletion."""

    version: int
    kind: str
    record: Record
    previous: Record | None


class Collection:
    """All objects of one kind, and the last changes to them."""

    def __init__(self, lock: threading.RLock, history: int) -> None:
        self.changed = threading.Condition(lock)
        self._lock = lock
        self._records: dict[Key, Record] = {}
        self._sorted: list[Key] | None = []
        self._events: list[Event] = []
        self._history = history
        self._forgotten = 0
        self._forgotten_live = 0

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: Key) -> Record | None:
        return self._records.get(key)

    def records(self, namespace: str = "") -> list[Record]:
        """In the order of their keys; of one namespace if it is given."""
        with self._lock:
            if self._sorted is None:
                self._sorted = sorted(self._records)
            keys = _of_namespace(self._sorted, namespace)
            return [self._records[key] for key in keys]

    def records_at(self, version: int, namespace: str = "") -> list[Record]:
        """As they were at an earlier version.

        Raises:
            ForgottenError: Changes since then are no longer known.
        """
        with self._lock:
            later = self.events_after(version)
            if not later:
                return self.records(namespace)
            past = dict(self._records)
            for event in reversed(later):
                if event.previous is None:
                    past.pop(event.record.key, None)
                else:
                    past[event.record.key] = event.previous
            return [past[key] for key in _of_namespace(sorted(past), namespace)]

    def events_after(self, version: int, *, live: bool = False) -> list[Event]:
        """The changes after `version`; an open watch (`live`) may lag further behind than a new one.

        Raises:
            ForgottenError: They are no longer all known.
        """
        with self._lock:
            oldest = self._forgotten_live if live else self._forgotten
            if version < oldest:
                raise ForgottenError(oldest)
            if not self._events or self._events[-1].version <= version:
                return []
            start = bisect_right(self._events, version, key=_version)
            return self._events[start:]

    def put(self, event: Event) -> None:
        """Apply a change. The caller holds the lock."""
        key = event.record.key
        if event.kind == DELETED:
            del self._records[key]
            self._sorted = None
        else:
            if event.kind == ADDED:
                self._sorted = None
            self._records[key] = event.record
        self._events.append(event)
        self._trim()
        self.changed.notify_all()

    def forget(self, version: int) -> None:
        """Drop the whole history: watches from before `version` must list anew."""
        with self._lock:
            self._events.clear()
            self._forgotten = self._forgotten_live = version
            self.changed.notify_all()

    def wake(self) -> None:
        with self._lock:
            self.changed.notify_all()

    def _trim(self) -> None:
        events = self._events
        if len(events) > self._history:
            self._forgotten = max(self._forgotten, events[-self._history - 1].version)
        if len(events) > (_LIVE_WINDOWS + 1) * self._history:
            keep = _LIVE_WINDOWS * self._history
            self._forgotten_live = events[-keep - 1].version
            del events[:-keep]


Listener = Callable[[str, Event], None]


class Store:
    """The collections by name, and the counter. Writes are compared with what the writer had read."""

    def __init__(self, history: int) -> None:
        self.lock = threading.RLock()
        self.version = 1
        self._history = history
        self._collections: dict[str, Collection] = {}
        self._listeners: tuple[Listener, ...] = ()

    def listen(self, listener: Listener) -> None:
        """Tell `listener` of each change while the lock is held: it must only take note of it."""
        with self.lock:
            self._listeners = (*self._listeners, listener)

    def unlisten(self, listener: Listener) -> None:
        with self.lock:
            self._listeners = tuple(each for each in self._listeners if each != listener)

    def collection(self, name: str) -> Collection:
        with self.lock:
            found = self._collections.get(name)
            if found is None:
                found = self._collections[name] = Collection(self.lock, self._history)
            return found

    def create(self, name: str, key: Key, body: Body) -> Record:
        """Keep a new object; `body` is the store's from here on.

        Raises:
            ChangedMeanwhileError: There is one with this key.
        """
        return self._write(name, key, None, body)

    def replace(self, name: str, read: Record, body: Body) -> Record:
        """Keep `body` in place of the record that was read.

        Raises:
            ChangedMeanwhileError: It is no longer the current one.
        """
        return self._write(name, read.key, read, body)

    def delete(self, name: str, read: Record, last: Body | None = None) -> Record:
        """Remove the record that was read; the answer is its last state, `last` if that differs.

        Raises:
            ChangedMeanwhileError: It is no longer the current one.
        """
        with self.lock:
            _check(self.collection(name), read.key, read)
            record = self._stamped(read.key, read.copy() if last is None else last)
            self._put(name, Event(record.version, DELETED, record, read))
            return record

    def forget_history(self) -> None:
        with self.lock:
            self.version += 1
            for collection in self._collections.values():
                collection.forget(self.version)

    def wake(self) -> None:
        for collection in self.collections():
            collection.wake()

    def collections(self) -> list[Collection]:
        with self.lock:
            return list(self._collections.values())

    def items(self) -> Iterator[tuple[str, Collection]]:
        with self.lock:
            known = list(self._collections.items())
        yield from known

    def clear(self) -> None:
        """Lose everything and count from the start again, as a server with a new database."""
        with self.lock:
            for name in list(self._collections):
                self._collections.pop(name).forget(self.version + 1)
            self.version = 1

    def _write(self, name: str, key: Key, read: Record | None, body: Body) -> Record:
        with self.lock:
            _check(self.collection(name), key, read)
            record = self._stamped(key, body)
            kind = ADDED if read is None else MODIFIED
            self._put(name, Event(record.version, kind, record, read))
            return record

    def _put(self, name: str, event: Event) -> None:
        self.collection(name).put(event)
        for listener in self._listeners:
            listener(name, event)

    def _stamped(self, key: Key, body: Body) -> Record:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        return Record(key, body, orjson.dumps(body), self.version)


def _check(collection: Collection, key: Key, read: Record | None) -> None:
    if collection.get(key) is not read:
        raise ChangedMeanwhileError


def _version(event: Event) -> int:
    return event.version


def _of_namespace(keys: list[Key], namespace: str) -> list[Key]:
    if not namespace:
        return keys
    start = bisect_left(keys, (namespace, ""))
    end = bisect_left(keys, (namespace + "\0", ""))
    return keys[start:end]
