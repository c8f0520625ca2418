"""The store that the worker, the webhook and the pages hold: each method one transaction.

The SQL is in the modules beside it; here is only what runs in which transaction.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from alerts2gh.incident import DeliveryPart, Incident
from alerts2gh.ports import (
    BudgetState,
    DeadLetter,
    Episode,
    Lease,
    OpenIncident,
    Refusal,
    Repeat,
    TimelineRow,
)
from alerts2gh.store import episodes, incident_rows, new_incidents, records, repeats, timeline, work
from alerts2gh.store.backlog import Backlog
from alerts2gh.store.engines import Connections
from alerts2gh.store.filed import FiledIncidents
from alerts2gh.store.inbox import Inbox
from alerts2gh.store.incident_rows import IncidentState
from alerts2gh.store.new_parts import NewPart, insert_parts, new_part
from alerts2gh.store.schema import deliveries, incidents
from chassis.contracts import TimelineEntry
from chassis.errors import TemporaryError

_FULL_RETRY = timedelta(seconds=30)


class SQLStore:
    """Fulfils `alerts2gh.ports.Store`; made by `open_store`."""

    def __init__(
        self,
        connections: Connections,
        *,
        now: Callable[[], datetime],
        max_backlog: int,
        held: Callable[[], None],
    ) -> None:
        """`held` gives back what the store holds: connections, lock file."""
        self._connections = connections
        self._now = now
        self._max_backlog = max_backlog
        self._held = held
        self._backlog = Backlog(self._count_parts, shared=connections.shared)
        self._filed = None if connections.shared else FiledIncidents(self._read_filed())
        self._settled = repeats.Settled(self._read_waiting())
        self._inbox = Inbox(self._write_parts)

    def accept(self, parts: Sequence[DeliveryPart]) -> tuple[Repeat, ...]:
        """Commit the parts of one webhook, all or none; the commit is shared with other callers.

        Raises:
            TemporaryError: They are not stored, or the backlog is full.
        """
        if not parts:
            return ()
        if self._backlog.value() + len(parts) > self._max_backlog:
            raise TemporaryError(
                f"{self._max_backlog} deliveries wait already (database.max_backlog)",
                retry_after=_FULL_RETRY,
            )
        new = [new_part(part) for part in parts]
        self._settled.coming(each.incident_id for each in new)
        self._inbox.commit(new, sum(len(each.body) for each in new))
        return tuple(
            [
                Repeat(each.incident_id, part.label_key, each.digest)
                for each, part in zip(new, parts, strict=True)
            ]
        )

    def _write_parts(self, parts: Sequence[NewPart]) -> None:
        try:
            with self._connections.write("storing a delivery", first=True) as connection:
                insert_parts(connection, parts)
        except TemporaryError:
            self._settled.failed(each.incident_id for each in parts)
            raise
        self._backlog.add(len(parts))

    def is_known(self, repeated: Sequence[Repeat]) -> bool:
        versions = self._settled.versions(repeated)
        if versions is None:
            return False
        if self._filed is not None:
            return self._settled.are_folded(versions) and all(
                each.id in versions for each in self._filed.find(r.label_key for r in repeated)
            )
        with self._connections.read("looking for news") as connection:
            return repeats.still_stand(connection, repeated, versions)

    def _read_waiting(self) -> Mapping[str, int]:
        with self._connections.read("counting deliveries") as connection:
            return repeats.waiting_parts(connection)

    def _count_parts(self) -> int:
        with self._connections.read("counting deliveries") as connection:
            query = sa.select(sa.func.count()).select_from(deliveries)
            return connection.execute(query).scalar_one()

    def backlog(self) -> int:
        return self._backlog.value()

    def _read_filed(self) -> tuple[OpenIncident, ...]:
        with self._connections.read("reading open incidents") as connection:
            return incident_rows.all_filed(connection)

    def find_filed(self, label_keys: Iterable[str]) -> tuple[OpenIncident, ...]:
        if self._filed is not None:
            return self._filed.find(label_keys)
        with self._connections.read("looking for open incidents") as connection:
            return incident_rows.find_filed(connection, label_keys)

    def lease_targets(self, owner: str, now: datetime, ttl: timedelta) -> tuple[str, ...]:
        with self._connections.read("reading leases") as connection:
            settled = work.settled_leases(connection, owner, now, ttl)
        if settled is not None:
            return settled
        with self._connections.write("taking leases") as connection:
            return work.take_leases(connection, owner, now, ttl)

    def release(self, owner: str) -> None:
        with self._connections.write("giving leases back") as connection:
            work.release(connection, owner)

    def due(self, target_key: str, now: datetime, limit: int) -> tuple[str, ...]:
        with self._connections.read("looking for work") as connection:
            return work.due(connection, target_key, now, limit)

    def next_wake(self, target_key: str) -> datetime | None:
        with self._connections.read("looking for work") as connection:
            return work.next_wake(connection, target_key)

    def load(
        self, incident_id: str
    ) -> tuple[Incident | None, tuple[tuple[int, DeliveryPart], ...]]:
        """The incident and its oldest unfolded parts; while there are more of them it stays due."""
        with self._connections.read("loading an incident") as connection:
            return (
                incident_rows.load_incident(connection, incident_id),
                incident_rows.load_parts(connection, incident_id),
            )

    def save(
        self,
        incident: Incident,
        *,
        folded: Sequence[int] = (),
        wake_at: datetime | None,
        owner: str,
        timeline_seen: Sequence[int] = (),
    ) -> Incident:
        """Write the incident (version + 1), drop the folded parts, mark timeline entries as seen.

        `wake_at` None lets it sleep until a part or a timeline entry comes.

        Raises:
            StoreConflictError: Its version is not the loaded one, or `owner` has lost the target's lease.
            TemporaryError: The database failed; nothing was saved.
        """
        save = incident_rows.saving(
            incident, folded=folded, wake_at=wake_at, owner=owner, now=self._now()
        )
        with self._connections.write("saving an incident") as connection:
            written = incident_rows.write_incident(connection, save)
            timeline.adopt(connection, written.members)
            timeline.mark_seen(connection, incident.id, timeline_seen)
            episodes.record(
                connection,
                save.incident,
                written.members,
                save.row["updated_at"],
                was_closed=written.state_before is IncidentState.CLOSED,
            )
        self._backlog.add(-written.parts)
        self._settled.saved(save.incident, written.parts)
        if self._filed is not None:
            target = save.incident.disposition.target
            place = OpenIncident(save.incident.id, save.incident.label_key, target)
            self._filed.note(place, filed=save.row["filed"])
        return save.incident

    def load_budget(self, credential: str) -> BudgetState:
        with self._connections.read("loading a budget") as connection:
            return records.load_budget(connection, credential)

    def save_budget(self, credential: str, state: BudgetState) -> None:
        with self._connections.write("saving a budget") as connection:
            records.save_budget(connection, credential, state)

    def bury(
        self, incident_id: str | None, target: str, reason: str, text: str, at: datetime
    ) -> int:
        letter = DeadLetter(0, incident_id, target, reason, text, at)
        with self._connections.write("noting a dead letter") as connection:
            return records.bury(connection, letter)

    def dead_letters(self) -> tuple[DeadLetter, ...]:
        with self._connections.read("reading dead letters") as connection:
            return records.all_dead_letters(connection)

    def requeue(self, ids: Sequence[int], now: datetime) -> int:
        with self._connections.write("bringing dead letters back") as connection:
            return records.requeue(connection, ids, now)

    def count_refusal(self, reason: str, text: str, at: datetime) -> Refusal:
        with self._connections.write("counting a refusal") as connection:
            return records.count_refusal(connection, reason, text, at)

    def refusals(self) -> tuple[Refusal, ...]:
        with self._connections.read("reading refusals") as connection:
            return records.all_refusals(connection)

    def open_and_firing(self) -> tuple[Incident, ...]:
        states = [IncidentState.OPEN.value, IncidentState.ROLLED_UP.value]
        query = sa.select(incidents).where(incidents.c.state.in_(states))
        with self._connections.read("reading open incidents") as connection:
            found = incident_rows.load_incidents(connection, query.order_by(incidents.c.id))
        return tuple(each for each in found if each.is_firing or each.truncated)

    def count_new(
        self, target_key: str, since: datetime, until: datetime, *, but: Sequence[str], most: int
    ) -> int:
        """How many of a target's incidents began after `since` and not after `until`, counted up to `most`."""
        with self._connections.read("counting new incidents") as connection:
            return new_incidents.count_new(
                connection, target_key, (since, until), but=but, most=most
            )

    def incidents(self, *, limit: int = 500, states: Collection[str] = ()) -> tuple[Incident, ...]:
        query = sa.select(incidents).order_by(incidents.c.updated_at.desc(), incidents.c.id)
        if states:
            query = query.where(incidents.c.state.in_(states))
        with self._connections.read("reading incidents") as connection:
            return incident_rows.load_incidents(connection, query.limit(limit))

    def episodes(self, since: datetime) -> tuple[Episode, ...]:
        with self._connections.read("reading episodes") as connection:
            return episodes.since(connection, since)

    def oldest_waiting(self) -> datetime | None:
        with self._connections.read("looking for the oldest delivery") as connection:
            return work.oldest_part(connection)

    def leases(self) -> tuple[Lease, ...]:
        with self._connections.read("reading leases") as connection:
            return work.all_leases(connection)

    def counts(self) -> Mapping[str, int]:
        """Incidents by `IncidentState`, and `dead_letters` and `backlog`."""
        with self._connections.read("counting incidents") as connection:
            return {**records.counts(connection), "backlog": self._backlog.value()}

    def prune(self, before: datetime) -> int:
        """Drop incidents over since `before`, and timeline entries nobody waits for; how many incidents.

        Args:
            before: Now less the longest of all windows that look back (reopen_window, suppress_for).
        """
        with self._connections.write("dropping old incidents") as connection:
            episodes.forget(connection, before - episodes.KEPT)
            dropped = records.prune(connection, before)
        if dropped:
            self._settled.forget()
        return dropped

    def add_timeline(self, entries: Sequence[TimelineEntry], now: datetime) -> int:
        """Keep entries of the remediator, all or none; those told before are left out. How many were new."""
        with self._connections.write("storing timeline entries") as connection:
            return timeline.add(connection, entries, now)

    def timeline_of(self, incident_id: str) -> tuple[TimelineRow, ...]:
        """The entries for alerts that are or were members of the incident, oldest first."""
        with self._connections.read("reading a timeline") as connection:
            return timeline.of_incident(connection, incident_id)

    def expire_timeline(self, before: datetime) -> int:
        """Drop entries received before `before` whose alert never came; how many."""
        with self._connections.write("dropping timeline entries") as connection:
            return timeline.expire(connection, before)

    def close(self) -> None:
        """Write what has been handed in, then give everything back. More than once is fine."""
        self._inbox.close()
        self._held()
