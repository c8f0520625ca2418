"""What the worker would do now: its own code, on a copy of the store and with a tracker that only notes the writes.

The clock stands still, so what is only due later is not done; limits on the pace of writes do not count.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from alerts2gh.config import WriteLimits
from alerts2gh.incident import Incident, Issue, Target
from alerts2gh.issue_plan import Step
from alerts2gh.ports import BudgetState, Store
from alerts2gh.worker.clerk import Clerk
from alerts2gh.worker.recording_tracker import Noted, RecordingTracker

NO_LIMITS = WriteLimits(
    writes_per_second=1e9,
    writes_per_minute=10**9,
    writes_per_hour=10**9,
    content_per_minute=10**9,
    content_per_hour=10**9,
)
_LEASE = timedelta(days=1)
_ALL = 1_000_000
_MOST_ROUNDS = 10_000


@dataclass(frozen=True, slots=True)
class Taken:
    """One look of the worker at an incident, the writes that it would have made, and when it looks again."""

    incident: Incident
    step: Step
    writes: tuple[Noted, ...]
    wake_at: datetime | None


class DryRun:
    """One run on `store`, a copy that is thrown away; its clerk must use `trackers` and a clock that says `now`."""

    def __init__(
        self,
        store: Store,
        clerk: Clerk,
        trackers: Sequence[RecordingTracker],
        owner: str,
        now: datetime,
    ) -> None:
        self._store = store
        self._clerk = clerk
        self._trackers = trackers
        self._owner = owner
        self._now = now
        self._waited = {each: self._parts(each) for each in self._due()}

    def settle(self) -> Iterator[Taken]:
        """Work until nothing is left to do at this instant, the most urgent first.

        What was due before this run began, and got no news since, is left alone: the service does it anyway.

        Raises:
            TemporaryError: The store failed.
        """
        leave = {each for each, parts in self._waited.items() if parts == self._parts(each)}
        for _ in range(_MOST_ROUNDS):
            due = [each for each in self._due() if each not in leave]
            if not due:
                return
            for incident_id in sorted(due, key=self._clerk.priority):
                yield from self._look(incident_id)

    def _look(self, incident_id: str) -> Iterator[Taken]:
        before = [len(tracker.noted) for tracker in self._trackers]
        worked = self._clerk.work(incident_id)
        incident, _ = self._store.load(incident_id)
        if worked is None or incident is None:
            return
        pairs = zip(self._trackers, before, strict=True)
        writes = tuple(noted for tracker, count in pairs for noted in tracker.noted[count:])
        yield Taken(incident, worked.step, writes, worked.wake_at)

    def _due(self) -> Collection[str]:
        keys = self._store.lease_targets(self._owner, self._now, _LEASE)
        return [each for key in keys for each in self._store.due(key, self._now, _ALL)]

    def _parts(self, incident_id: str) -> int:
        return len(self._store.load(incident_id)[1])


def lift_blocks(store: Store, credentials: Collection[str], now: datetime) -> dict[str, datetime]:
    """Forget in the copy what was written and when GitHub wants silence; until when it does, by credential."""
    blocked: dict[str, datetime] = {}
    for name in credentials:
        until = store.load_budget(name).blocked_until
        if until is not None and until > now:
            blocked[name] = until
        store.save_budget(name, BudgetState())
    return blocked


def known_issue(store: Store) -> Callable[[Target, int], Issue | None]:
    """Finds what the store knows of an issue, by repository and number; read once, when first asked."""
    found: dict[tuple[str, int], Issue] = {}

    def known(target: Target, number: int) -> Issue | None:
        if not found:
            issues = [i.issue for i in store.incidents(limit=_ALL) if i.issue is not None]
            found.update({(i.repository.lower(), i.number): i for i in issues})
        return found.get((target.full_name.lower(), number))

    return known
