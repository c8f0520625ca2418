"""What everybody needs of the store: the records it keeps, and what can be asked of it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol, TypeVar

from alerts2gh.incident import DeliveryPart, Incident, Target
from chassis.contracts import TimelineEntry

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class BudgetState:
    """What a credential has written lately and until when GitHub wants silence; survives restarts.

    `writes` and `content` are the instants of past writes, newest last, no older than an hour.
    """

    writes: tuple[datetime, ...] = ()
    content: tuple[datetime, ...] = ()
    blocked_until: datetime | None = None
    blocked_reason: str = ""
    strikes: int = 0


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Something that will not be done by itself any more, and why."""

    id: int
    incident_id: str | None
    target: str
    reason: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Refusal:
    """Webhooks refused for one reason: how many, and the last of them."""

    reason: str
    count: int
    first_at: datetime
    last_at: datetime
    last_text: str


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """Enough of an incident to find it by."""

    id: str
    label_key: str
    target: Target


@dataclass(frozen=True, slots=True)
class Repeat:
    """A stored part, as it is recognised when it comes again; `digest` is that of DeliveryPart."""

    incident_id: str
    label_key: str
    digest: str


class Ending(StrEnum):
    """How one firing of an alert ended."""

    RESOLVED = "resolved"
    CLOSED = "closed"
    """A person closed the issue while it fired."""
    NOT_PLANNED = "not_planned"
    """A person closed the issue as not planned, or as a duplicate."""
    DELETED = "deleted"
    """The issue was deleted, and deleted again when it had been made anew."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One firing of one alert; kept for reports when its incident is forgotten.

    `node` is the label `node`, else `instance`. Without `ending` it fires.
    """

    incident_id: str
    fingerprint: str
    repository: str
    alertname: str
    node: str
    playbook: str
    starts_at: datetime
    ended_at: datetime | None = None
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """Which process works on a target (Target.key), and until when it has said so."""

    target_key: str
    owner: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """An entry of a node operation that belongs to an incident. `seen` once a save has said so, by `id`."""

    id: int
    entry: TimelineEntry
    seen: bool


class StoreConflictError(Exception):
    """The row was saved by another since it was loaded; load and decide again. Never leaves the worker."""


class Store(Protocol):
    """Durable memory. Every method is atomic and may be called from any thread; what returned has been committed.

    Raises TemporaryError when the database is full, locked or gone.
    """

    def accept(self, parts: Sequence[DeliveryPart]) -> tuple[Repeat, ...]:
        """Commit the parts of one webhook, all or none. Many callers' commits may share one fsync.

        What it returns is for `is_known`, should the same come again.
        """
        ...

    def is_known(self, repeats: Sequence[Repeat]) -> bool:
        """Whether these parts, taken once more now, would change nothing: what they say is durable and folded.

        False also where that is not certain.
        """
        ...

    def backlog(self) -> int:
        """How many accepted parts are not folded yet."""
        ...

    def find_filed(self, label_keys: Iterable[str]) -> tuple[OpenIncident, ...]:
        """Incidents with these label keys whose issue is open or being created, for re-routed deliveries."""
        ...

    def lease_targets(self, owner: str, now: datetime, ttl: timedelta) -> tuple[str, ...]:
        """Take or renew the leases of all targets with work that nobody else holds; their keys (Target.key)."""
        ...

    def release(self, owner: str) -> None:
        """Give all leases of `owner` back."""
        ...

    def due(self, target_key: str, now: datetime, limit: int) -> tuple[str, ...]:
        """Ids of incidents that have unfolded parts, or whose `retry_at`/wake-up has come, oldest first."""
        ...

    def next_wake(self, target_key: str) -> datetime | None:
        """The earliest wake-up of the target's incidents that are not due yet."""
        ...

    def load(
        self, incident_id: str
    ) -> tuple[Incident | None, tuple[tuple[int, DeliveryPart], ...]]:
        """The incident with its members, and its unfolded parts in order of arrival with their sequence numbers."""
        ...

    def save(
        self,
        incident: Incident,
        *,
        folded: Sequence[int] = (),
        wake_at: datetime | None,
        owner: str,
        timeline_seen: Sequence[int] = (),
    ) -> Incident:
        """Write the incident (version + 1), its members, and drop the folded parts, in one transaction.

        Raises StoreConflictError when the version is not the loaded one or `owner` has lost the target's lease.
        """
        ...

    def load_budget(self, credential: str) -> BudgetState: ...

    def save_budget(self, credential: str, state: BudgetState) -> None: ...

    def bury(
        self, incident_id: str | None, target: str, reason: str, text: str, at: datetime
    ) -> int: ...

    def dead_letters(self) -> tuple[DeadLetter, ...]: ...

    def requeue(self, ids: Sequence[int], now: datetime) -> int:
        """Bring dead letters back to life; how many there were."""
        ...

    def count_refusal(self, reason: str, text: str, at: datetime) -> Refusal: ...

    def refusals(self) -> tuple[Refusal, ...]: ...

    def open_and_firing(self) -> tuple[Incident, ...]:
        """Every incident with an issue open or told in a rollup, and a member that fires, or hidden members."""
        ...

    def count_new(
        self, target_key: str, since: datetime, until: datetime, *, but: Sequence[str], most: int
    ) -> int:
        """How many of a target's incidents began after `since` and not after `until`; counts up to `most`.

        Those known only from unfolded parts are among them, those whose ids are in `but` are not.
        """
        ...

    def add_timeline(self, entries: Sequence[TimelineEntry], now: datetime) -> int:
        """Keep entries of node operations, all or none; those told before are left out. How many were new."""
        ...

    def timeline_of(self, incident_id: str) -> tuple[TimelineRow, ...]:
        """The entries for the incident's alerts, oldest first."""
        ...

    def expire_timeline(self, before: datetime) -> int:
        """Drop entries received before `before` whose alert never came; how many."""
        ...

    def prune(self, before: datetime) -> int:
        """Drop incidents that are over since `before`; how many."""
        ...

    def incidents(self, *, limit: int = 500, states: Collection[str] = ()) -> tuple[Incident, ...]:
        """The incidents changed last, for pages and reconciliation; only those in `states` if any are named."""
        ...

    def episodes(self, since: datetime) -> tuple[Episode, ...]:
        """Firings that had not ended before `since`, oldest first."""
        ...

    def oldest_waiting(self) -> datetime | None:
        """When the oldest part that is not folded yet was accepted."""
        ...

    def leases(self) -> tuple[Lease, ...]:
        """Who works on which target."""
        ...

    def counts(self) -> Mapping[str, int]:
        """How many incidents are in each state, and how many parts and dead letters wait; for metrics."""
        ...

    def close(self) -> None: ...
