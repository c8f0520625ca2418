"""Keeps the worker going: leases repositories, one thread for each, most urgent incident first, woken by the webhook."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import TypeVar

from structlog.typing import FilteringBoundLogger

from alerts2gh.metrics import WorkerMetrics
from alerts2gh.ports import Store, StoreConflictError
from alerts2gh.worker.clerk import Clerk
from alerts2gh.worker.desk import Worked
from chassis.errors import TemporaryError

_BATCH = 500
_LONGEST_WAIT = timedelta(seconds=1)
"""How long a thread sleeps at most: with several replicas another one's accept does not wake us."""
_SHORTEST_WAIT = timedelta(milliseconds=5)
_AFTER_A_SURPRISE = timedelta(minutes=1)
_GATHER = timedelta(milliseconds=50)
"""After a wake-up: what comes close together is worked on together, so that webhooks do not compete with a turn each."""
_BUSY = timedelta(milliseconds=100)
"""So long after a webhook the next one is likely under way."""
_REST = 4
"""How many times as long as they computed the threads rest then: together they take a fifth of the time."""
_AHEAD = 10
"""How many incidents more are folded in the turn of one that needs GitHub at once, in a storm of them."""

T = TypeVar("T")


class Bell:
    """A wake-up that is never missed: rung between two looks, it makes the next wait return at once."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rung = 0

    def ring(self) -> None:
        with self._condition:
            self._rung += 1
            self._condition.notify_all()

    def heard(self) -> int:
        with self._condition:
            return self._rung

    def wait(self, heard: int, timeout: timedelta) -> None:
        """Sleep until it rings again after `heard`, or for `timeout`."""
        with self._condition:
            self._condition.wait_for(lambda: self._rung != heard, timeout.total_seconds())


class WorkLoop:
    """Threads: one that leases, one a leased repository. `stop` lets each finish the step it is in.

    `clerk` gives the one of the present configuration.
    """

    def __init__(  # noqa: PLR0913 -- composition: each is a part of its own
        self,
        store: Store,
        clerk: Callable[[], Clerk],
        *,
        owner: str,
        lease: timedelta,
        clock: Callable[[], datetime],
        metrics: WorkerMetrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._store = store
        self._clerk = clerk
        self._owner = owner
        self._lease = lease
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._bell = Bell()
        self._stopping = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._held: frozenset[str] = frozenset()
        self._poked = 0.0
        self._leaser = threading.Thread(target=self._keep_leases, name="leases")
        self.last_turn = clock()

    def start(self) -> None:
        self._leaser.start()

    def poke(self) -> None:
        """Something was accepted."""
        self._poked = time.monotonic()
        self._bell.ring()

    def stop(self) -> None:
        """Finish the steps under way, give the leases back."""
        self._stopping.set()
        self._bell.ring()
        if self._leaser.is_alive():
            self._leaser.join()
        for thread in list(self._threads.values()):
            thread.join()
        try:
            self._store.release(self._owner)
        except TemporaryError as error:
            self._log.warning("leases_not_released", error=str(error))

    def _keep_leases(self) -> None:
        while not self._stopping.is_set():
            heard = self._bell.heard()
            try:
                keys = self._store.lease_targets(self._owner, self._clock(), self._lease)
            except TemporaryError as error:
                self._metrics.surprise("store")
                self._log.warning("store_unavailable", error=str(error))
                keys = ()
            self._held = frozenset(keys)
            for key in keys:
                self._ensure_thread(key)
            self.last_turn = self._clock()
            self._bell.wait(heard, min(_LONGEST_WAIT, self._lease / 3))
            self._stopping.wait(_GATHER.total_seconds())

    def _ensure_thread(self, key: str) -> None:
        thread = self._threads.get(key)
        if thread is None or not thread.is_alive():
            thread = threading.Thread(target=self._serve, args=(key,), name=f"target-{key}")
            self._threads[key] = thread
            thread.start()

    def _serve(self, key: str) -> None:
        turn = _TargetTurn(
            self._store,
            self._clerk,
            key,
            clock=self._clock,
            metrics=self._metrics,
            log=self._log,
            give_way=self._give_way,
        )
        while not self._stopping.is_set() and key in self._held:
            heard = self._bell.heard()
            wait = turn.take(self._stopping)
            if wait > timedelta():
                self._bell.wait(heard, min(wait, _LONGEST_WAIT))
                self._stopping.wait(_GATHER.total_seconds())

    def _give_way(self, computed: timedelta) -> None:
        """Rest after computing while webhooks come in: their senders wait for an answer, nobody waits for us."""
        if time.monotonic() - self._poked < _BUSY.total_seconds():
            rest = min(computed * _REST * max(1, len(self._threads)), _LONGEST_WAIT)
            self._stopping.wait(rest.total_seconds())


class _TargetTurn:
    """The queue of one repository, kept between turns; a priority is worked out once a change, not once a turn."""

    def __init__(  # noqa: PLR0913, PLR0917 -- composition: each is a part of its own
        self,
        store: Store,
        clerk: Callable[[], Clerk],
        key: str,
        clock: Callable[[], datetime],
        metrics: WorkerMetrics,
        log: FilteringBoundLogger,
        give_way: Callable[[timedelta], None],
    ) -> None:
        self._store = store
        self._clerk = clerk
        self._key = key
        self._give_way = give_way
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._priorities: dict[str, int] = {}
        self._penalties: dict[str, datetime] = {}

    def take(self, stopping: threading.Event) -> timedelta:
        """Work on what is due until nothing is or the budget says no; how long to wait before the next turn."""
        try:
            return self._turn(stopping)
        except TemporaryError as error:
            self._metrics.surprise("store")
            self._log.warning("store_unavailable", target=self._key, error=str(error))
            return _LONGEST_WAIT

    def _turn(self, stopping: threading.Event) -> timedelta:
        now = self._clock()
        ids = [
            i for i in self._store.due(self._key, now, _BATCH) if self._penalties.get(i, now) <= now
        ]
        if not ids:
            return _LONGEST_WAIT
        blocked: dict[int, datetime] = {}
        for priority, incident_id in self._most_urgent_first(ids):
            if stopping.is_set():
                return timedelta()
            if priority in blocked:
                continue  # its like was put off just now; another kind of write may still have room
            worked = self._work(incident_id)
            if worked is not None and worked.blocked and worked.wake_at is not None:
                blocked[priority] = worked.wake_at
            if worked is not None and worked.again:
                # Look again at what is due: something more urgent may have come in meanwhile.
                return timedelta()
        if blocked:
            return max(min(blocked.values()) - self._clock(), _SHORTEST_WAIT)
        return timedelta() if len(ids) == _BATCH else _SHORTEST_WAIT

    def _most_urgent_first(self, ids: Sequence[str]) -> Iterator[tuple[int, str]]:
        """The incidents that need GitHub, with their priority; the others are done with on the way.

        What nothing can precede is not kept waiting until all are known, only until the next few are.
        """
        urgent: list[str] = []
        later: list[tuple[int, str]] = []
        ahead = 0
        for incident_id in ids:
            ahead += incident_id not in self._priorities
            priority = self._priority(incident_id)
            if priority == 0:
                urgent.append(incident_id)
            elif priority is not None:
                later.append((priority, incident_id))
            if urgent and ahead >= _AHEAD:
                yield from ((0, each) for each in urgent)
                urgent, ahead = [], 0
        yield from ((0, each) for each in urgent)
        yield from sorted(later, key=itemgetter(0))

    def _priority(self, incident_id: str) -> int | None:
        if incident_id not in self._priorities:
            priority = self._guarded(incident_id, self._clerk().settle)
            if priority is None:
                return None
            self._priorities[incident_id] = priority
        return self._priorities[incident_id]

    def _work(self, incident_id: str) -> Worked | None:
        """Rests afterwards, which folding does not: what is folded makes the webhooks that repeat it cheap."""
        self._priorities.pop(incident_id, None)
        computed = time.thread_time()
        try:
            return self._guarded(incident_id, self._clerk().work)
        finally:
            self._give_way(timedelta(seconds=time.thread_time() - computed))

    def _guarded(self, incident_id: str, handle: Callable[[str], T | None]) -> T | None:
        try:
            return handle(incident_id)
        except StoreConflictError:
            self._log.info("incident_changed_meanwhile", incident=incident_id)
        except TemporaryError:
            raise
        except Exception:  # noqa: BLE001 -- see below
            # One incident that trips over a mistake of ours must not hold up the others.
            self._metrics.surprise("worker")
            self._log.exception("incident_failed", incident=incident_id)
            self._penalties[incident_id] = self._clock() + _AFTER_A_SURPRISE
        return None
