"""A copy of the objects of one resource type in memory, kept up to date by a watch.

One thread lists, then follows the watch, and tells `on_change` in order. What went wrong is logged
and counted, never raised to the readers: they see the last known state and how old it is.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Generic

import orjson
from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError
from chassis.kube_client import (
    Expired,
    KubeClient,
    LineStream,
    Resource,
    Unavailable,
    error_from_status,
)
from chassis.kube_watch.backoff import Backoff
from chassis.kube_watch.folding import (
    Change,
    ChangeKind,
    Entry,
    T,
    entry_of,
    fold_relist,
    fold_seen,
    history_went_back,
    key_of,
)
from chassis.kube_watch.metrics import WatchMetrics
from chassis.kube_watch.recovery import must_relist

_STOP_SECONDS = 2.0
_SHORT_STREAM = timedelta(seconds=1)


def _whole(thing: Any) -> Any:
    return thing


class _Stopped(Exception):  # noqa: N818 - never leaves this module
    pass


class KubeCache(Generic[T]):
    """Objects by key (`namespace/name`, or `name` where there are no namespaces).

    Nothing is called before `start`.

    Args:
        client: Reads from the API.
        resource: What to hold.
        log: Takes one line when the watch breaks and one when it works again.
        clock: The time, aware.
        keep: What of an object is kept, all of it by default; must not raise, whatever it gets.
        namespace: One namespace only.
        label_selector: As the API takes it.
        field_selector: As the API takes it.
        on_change: Told about each change after readers can see it, from one thread, in order.
            What it raises is logged, the change counts as told.
        metrics: Counts.
        page_size: How many objects a list asks for at once.
        backoff: The waits after failures.
        stall_timeout: The longest silence of a watch. The API sends bookmarks about each
            minute, so less than that only costs connections.
        stream_length: How long the API is asked to keep one watch open, up to twice this.
        monotonic: Seconds that never go back.
    """

    def __init__(  # noqa: PLR0913 - composition in __main__, all by name
        self,
        client: KubeClient,
        resource: Resource,
        *,
        log: FilteringBoundLogger,
        clock: Callable[[], datetime],
        keep: Callable[[dict[str, Any]], T] = _whole,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        on_change: Callable[[Change[T]], None] | None = None,
        metrics: WatchMetrics | None = None,
        page_size: int = 500,
        backoff: Backoff | None = None,
        stall_timeout: timedelta = timedelta(seconds=100),
        stream_length: timedelta = timedelta(minutes=5),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._keep = keep
        self._on_change = on_change
        self._metrics = metrics
        self._log = log.bind(resource=resource.plural)
        self._clock = clock
        self._monotonic = monotonic
        self._page_size = page_size
        self._backoff = backoff or Backoff()
        self._stall_timeout = stall_timeout
        self._stream_length = stream_length
        self._entries: dict[str, Entry[T]] = {}
        self._version: str | None = None  # where the next watch starts; None means list first
        self._seen_version: str | None = None  # the last one we knew, kept over a relist
        self._lists = 0
        self._last_event: datetime | None = None
        self._opened_at: float | None = None
        self._broken = False
        self._synced = threading.Event()
        self._stopping = threading.Event()
        self._stream_lock = threading.Lock()
        self._stream: LineStream | None = None
        self._thread: threading.Thread | None = None
        if metrics is not None:
            metrics.prepare(resource.plural)

    # For readers, from any thread.

    @property
    def has_synced(self) -> bool:
        """Whether one complete list was taken in."""
        return self._synced.is_set()

    @property
    def last_event(self) -> datetime | None:
        """When the API last told something, a bookmark included; None before the first list."""
        return self._last_event

    @property
    def relists(self) -> int:
        """How often everything was listed anew; the first list does not count."""
        return max(0, self._lists - 1)

    @property
    def resource_version(self) -> str | None:
        """Up to where the cache follows the API's history."""
        return self._seen_version

    def wait_synced(self, timeout: float | None = None) -> bool:
        """Wait for the first complete list, at most `timeout` seconds; whether it is there."""
        return self._synced.wait(timeout)

    def get(self, key: str) -> T | None:
        """What is kept of one object; None when there is none."""
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def items(self) -> dict[str, T]:
        """All of them, a copy of this moment."""
        # dict.copy holds the interpreter's lock, so the watching thread cannot change it midway.
        return {key: entry.value for key, entry in self._entries.copy().items()}

    # Life.

    def start(self) -> None:
        """Begin to list and watch, in a thread of its own."""
        self._thread = threading.Thread(
            target=self._run, name=f"watch-{self._resource.plural}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the watch now and wait for the thread; `on_change` is not called afterwards.

        A request that hangs is left to its timeout after two seconds: the thread is a daemon.
        """
        self._stopping.set()
        with self._stream_lock:
            if self._stream is not None:
                self._stream.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._opened_at = None
            try:
                if self._broken and self._history_was_lost():
                    self._version = None
                if self._version is None:
                    self._list()
                self._follow()
                wait = self._after_end()
            except _Stopped:
                return
            except NodemendError as error:
                wait = self._after_failure(error)
            except Exception:  # noqa: BLE001 - a dead watch would serve stale data for ever
                self._log.exception("watch_crashed")
                self._version = None
                wait = self._backoff.next_wait()
            self._stopping.wait(wait.total_seconds())

    def _lasted(self) -> timedelta:
        """How long the stream that has just ended was open; 0 when none was."""
        if self._opened_at is None:
            return timedelta(0)
        return timedelta(seconds=self._monotonic() - self._opened_at)

    def _after_end(self) -> timedelta:
        """The server ended the stream in good order, as it does every few minutes."""
        lasted = self._lasted()
        self._backoff.went_well_for(lasted)
        # A server that ends each stream at once must not be asked in a tight loop.
        return timedelta(0) if lasted >= _SHORT_STREAM else self._backoff.next_wait()

    def _after_failure(self, error: NodemendError) -> timedelta:
        self._backoff.went_well_for(self._lasted())
        if must_relist(error, self._backoff.failures + 1):
            self._version = None
        if self._metrics is not None:
            self._metrics.failures.labels(self._resource.plural).inc()
        wait = self._backoff.next_wait(getattr(error, "retry_after", None))
        self._broken = True
        self._log.warning("watch_failed", error=str(error), wait_seconds=wait.total_seconds())
        return wait

    # List.

    def _list(self) -> None:
        try:
            fresh, version = self._fetch()
        except Expired:  # the pages took too long; once more, from the start
            fresh, version = self._fetch()
        self._lists += 1
        if self._lists > 1 and self._metrics:
            self._metrics.relists.labels(self._resource.plural).inc()
        same = not history_went_back(self._seen_version, version)
        # All changes are known before the first is told: telling changes what is held.
        for change in list(fold_relist(self._entries, fresh, same_history=same)):
            self._tell(change, fresh.get(change.key))
        self._version = self._seen_version = version
        self._heard()
        self._synced.set()

    def _history_was_lost(self) -> bool:
        """Whether the server is behind us, after a restored backup or with an empty database.

        A watch from a version that is still to come is accepted, and silent until it has come.
        """
        if self._version is None:
            return False
        page = next(self._client.pages(self._resource, self._namespace, limit=1))
        return history_went_back(self._version, page.resource_version)

    def _fetch(self) -> tuple[dict[str, Entry[T]], str]:
        fresh: dict[str, Entry[T]] = {}
        version = ""
        pages = self._client.pages(
            self._resource, self._namespace, params=self._selectors, limit=self._page_size
        )
        for page in pages:
            self._leave_if_stopping()
            version = page.resource_version
            fresh.update((key_of(each), entry_of(each, self._keep)) for each in page.items)
        return fresh, version

    # Watch.

    def _follow(self) -> None:
        length = self._stream_length.total_seconds() * (1 + random.random())  # noqa: S311 - spread
        params = {
            **self._selectors,
            "resourceVersion": self._version,
            "allowWatchBookmarks": True,
            "timeoutSeconds": max(1, int(length)),
        }
        with self._client.watch_lines(
            self._resource, self._namespace, params=params, read_timeout=self._stall_timeout
        ) as stream:
            self._open(stream)
            try:
                self._take(stream)
            finally:
                self._open(None)
        self._leave_if_stopping()

    def _open(self, stream: LineStream | None) -> None:
        with self._stream_lock:
            self._stream = stream
        self._leave_if_stopping()
        if stream is None:
            return
        self._opened_at = self._monotonic()
        if self._broken:
            self._broken = False
            self._log.info("watch_works_again", objects=len(self._entries))

    def _take(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._leave_if_stopping()
            try:
                event = orjson.loads(line)
                kind, thing = event["type"], event["object"]
            except (ValueError, KeyError, TypeError) as error:
                raise Unavailable(
                    "a watch's line is no event", status=0, reason="NotJSON"
                ) from error
            self._fold(kind, thing)
            self._heard()

    def _fold(self, kind: str, thing: dict[str, Any]) -> None:
        if kind == "ERROR":
            raise error_from_status(int(thing.get("code") or 0), thing, what="watch")
        if kind == "DELETED":
            self._forget(key_of(thing))
        elif kind != "BOOKMARK":
            key, new = key_of(thing), entry_of(thing, self._keep)
            for change in fold_seen(key, self._entries.get(key), new):
                self._tell(change, new)
        self._version = self._seen_version = thing["metadata"]["resourceVersion"]

    def _forget(self, key: str) -> None:
        old = self._entries.get(key)
        if old is not None:
            self._tell(Change(ChangeKind.DELETED, key, old.value, None), None)

    def _tell(self, change: Change[T], entry: Entry[T] | None) -> None:
        self._leave_if_stopping()
        if change.new is None or entry is None:
            self._entries.pop(change.key, None)
        else:
            self._entries[change.key] = entry
        if self._on_change is None:
            return
        try:
            self._on_change(change)
        except Exception:  # noqa: BLE001 - one observer's mistake must not stop the cache
            self._log.exception("watch_observer_failed", key=change.key)

    def _heard(self) -> None:
        self._last_event = self._clock()
        if self._metrics is not None:
            name = self._resource.plural
            self._metrics.last_event.labels(name).set(self._last_event.timestamp())
            self._metrics.objects.labels(name).set(len(self._entries))

    def _leave_if_stopping(self) -> None:
        if self._stopping.is_set():
            raise _Stopped
