"""Turns the history of a collection into the lines of a watch: selectors, first events, bookmarks, expiry.

A watch has no queue of its own: its thread reads the shared history from where it stopped, so a
hundred watches cost a write nothing but a wake-up.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from sandbox.kubernetes_rules.statuses import too_old
from sandbox.kubernetes_server.storage import (
    ADDED,
    DELETED,
    MODIFIED,
    Collection,
    Event,
    ForgottenError,
    Record,
)

Matches = Callable[[dict[str, Any]], bool]
Encode = Callable[[Record], bytes]
_GLANCE_SECONDS = 1.0
_INITIAL_END = "k8s.io/initial-events-end"
_BATCH = 500


@dataclass(frozen=True, slots=True)
class WatchOrder:
    """What a watch wants; `start` None is from now on.

    `initial`: first the objects that there are, closed by a bookmark (`initial_bookmark`) as with
    sendInitialEvents, or without one as with version 0.
    """

    matches: Matches | None
    start: int | None
    initial: bool
    initial_bookmark: bool
    bookmarks: bool
    seconds: float
    namespace: str
    api_version: str
    kind: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a watch asks of the server around it. `gone`: nobody reads any more."""

    version: Callable[[], int]
    wait_if_paused: Callable[[], None]
    gone: Callable[[], bool]
    bookmark_seconds: float


def check_start(collection: Collection, order: WatchOrder) -> None:
    """See that the history reaches back to where the watch wants to start.

    Raises:
        Refusal: It does not (410).
    """
    if order.start is not None and not order.initial:
        try:
            collection.events_after(order.start)
        except ForgottenError as error:
            raise too_old(order.start, error.oldest) from error


def lines(
    collection: Collection, order: WatchOrder, encode: Encode, around: Surroundings
) -> Iterator[bytes]:
    """The stream of a watch in pieces of whole lines, until its time is over or nobody reads it.

    It starts from what there is when this is called, not when its first piece is asked for: who has
    the head of the answer sees all that happens from then on.
    """
    ends = time.monotonic() + order.seconds
    with collection.changed:
        present = collection.records(order.namespace) if order.initial else []
        at = around.version() if order.start is None or order.initial else order.start
    return _lines(collection, order, encode, around, (present, at, ends))


def _lines(
    collection: Collection,
    order: WatchOrder,
    encode: Encode,
    around: Surroundings,
    start: tuple[list[Record], int, float],
) -> Iterator[bytes]:
    present, at, ends = start
    yield from _first(present, order, encode, at)
    next_bookmark = time.monotonic() + around.bookmark_seconds
    while (now := time.monotonic()) < ends and not around.gone():
        around.wait_if_paused()
        try:
            events, at = _next_events(collection, at, around, min(_GLANCE_SECONDS, ends - now))
        except ForgottenError as error:
            yield _line(b"ERROR", orjson.dumps(too_old(at, error.oldest).status))
            return
        piece = b"".join(_event_line(event, order, encode) for event in events)
        if piece:
            around.wait_if_paused()
            yield piece
        if order.bookmarks and time.monotonic() >= next_bookmark:
            next_bookmark = time.monotonic() + around.bookmark_seconds
            yield _bookmark(order, at)
    if order.bookmarks and not around.gone():
        yield _bookmark(order, at)


def _first(present: list[Record], order: WatchOrder, encode: Encode, at: int) -> Iterator[bytes]:
    chosen = [each for each in present if order.matches is None or order.matches(each.body)]
    for start in range(0, len(chosen), _BATCH):
        batch = chosen[start : start + _BATCH]
        yield b"".join(_line(b"ADDED", encode(record)) for record in batch)
    if order.initial_bookmark:
        yield _bookmark(order, at, {_INITIAL_END: "true"})


def _next_events(
    collection: Collection, at: int, around: Surroundings, seconds: float
) -> tuple[list[Event], int]:
    """The events after `at`, waiting for some a while; and the version that they reach to."""
    with collection.changed:
        events = collection.events_after(at, live=True)
        if not events:
            collection.changed.wait(max(seconds, 0.0))
            events = collection.events_after(at, live=True)
        return events, max(at, around.version())


def _event_line(event: Event, order: WatchOrder, encode: Encode) -> bytes:
    record = event.record
    if order.namespace and record.key[0] != order.namespace:
        return b""
    kind = event.kind if order.matches is None else _kind_seen(event, order.matches)
    if kind == DELETED and event.kind != DELETED and event.previous is not None:
        record = _as_last_seen(event.previous, event.version)
    return _line(kind.encode(), encode(record)) if kind else b""


def _as_last_seen(previous: Record, version: int) -> Record:
    """Who watches with a selector is told of an object that left it in its last matching state."""
    body = previous.copy()
    body["metadata"]["resourceVersion"] = str(version)
    return Record(previous.key, body, orjson.dumps(body), version)


def _kind_seen(event: Event, matches: Matches) -> str:
    """What the change is to one who sees only what matches; empty when nothing."""
    before = event.previous is not None and matches(event.previous.body)
    after = event.kind != DELETED and matches(event.record.body)
    if before and after:
        return MODIFIED
    if after:
        return ADDED
    return DELETED if before else ""


def _bookmark(order: WatchOrder, at: int, annotations: dict[str, str] | None = None) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(at)}
    if annotations:
        metadata["annotations"] = annotations
    body = {"kind": order.kind, "apiVersion": order.api_version, "metadata": metadata}
    return _line(b"BOOKMARK", orjson.dumps(body))


def _line(kind: bytes, data: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind, data)
