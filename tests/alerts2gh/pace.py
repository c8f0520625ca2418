"""A clock that tests move, and a clerk that works in turns like those of the work loop while it moves."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import TypeVar

from alerts2gh.ports import Store, StoreConflictError
from alerts2gh.worker import Clerk

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LEASE = timedelta(minutes=5)
_HOP = timedelta(seconds=2)
_MOST_TURNS = 400

T = TypeVar("T")


class Clock:
    """Stands still until it is moved."""

    def __init__(self, at: datetime = NOON) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at


class Pace:
    """Lets a clerk work and time pass, in turns like those of the work loop; subclasses set these four."""

    store: Store
    clerk: Clerk
    clock: Clock
    owner: str
    _priorities: dict[str, int]

    def forget(self) -> None:
        """As a new process: what is in memory is gone."""
        self._priorities = {}

    def settle(self) -> None:
        """Work until nothing is due within a second or two (the spacing of writes)."""
        for _ in range(_MOST_TURNS):
            wake = self._turn()
            if wake is None or wake > self.clock.at + _HOP:
                return
            self.clock.at = max(wake, self.clock.at)
        raise AssertionError("the worker does not come to rest")

    def _turn(self) -> datetime | None:
        """A turn for each repository; when the next one is due, None for never."""
        keys = self.store.lease_targets(self.owner, self.clock.at, LEASE)
        return min(filter(None, map(self._turn_of, keys)), default=None)

    def _turn_of(self, key: str) -> datetime | None:
        due = self.store.due(key, self.clock.at, 100)
        if not due:
            return self.store.next_wake(key)
        blocked: dict[int, datetime] = {}
        for priority, incident_id in self._most_urgent_first(due):
            if priority in blocked:
                continue
            worked = self._guarded(incident_id, self.clerk.work)
            if worked is None or worked.again:
                break
            # What is put off for long is put off one by one, so that the store tells when to wake.
            if worked.blocked and worked.wake_at and worked.wake_at <= self.clock.at + _HOP:
                blocked[priority] = worked.wake_at
        return min(blocked.values(), default=self.clock.at)

    def _most_urgent_first(self, due: Sequence[str]) -> list[tuple[int, str]]:
        """What needs GitHub; a priority is worked out once a change, not once a turn."""
        found = []
        for incident_id in due:
            if incident_id not in self._priorities:
                priority = self._guarded(incident_id, self.clerk.settle)
                if priority is None:
                    continue
                self._priorities[incident_id] = priority
            found.append((self._priorities[incident_id], incident_id))
        return sorted(found, key=itemgetter(0))

    def _guarded(self, incident_id: str, handle: Callable[[str], T | None]) -> T | None:
        self._priorities.pop(incident_id, None)
        with suppress(StoreConflictError):  # as in the work loop: another lease, or saved meanwhile
            return handle(incident_id)
        return None

    def next_wake(self) -> datetime | None:
        keys = self.store.lease_targets(self.owner, self.clock.at, LEASE)
        return min(filter(None, (self.store.next_wake(key) for key in keys)), default=None)

    def advance(self, span: timedelta) -> None:
        """Let time pass, waking at each wake-up on the way."""
        end = self.clock.at + span
        for _ in range(_MOST_TURNS):
            self.settle()
            wake = self.next_wake()
            if wake is None or wake > end:
                self.clock.at = max(end, self.clock.at)
                self.settle()
                return
            self.clock.at = max(wake, self.clock.at)
        raise AssertionError("the worker does not come to rest")
