"""What the remediator told about node operations, kept until its alert's incident has shown it.

An entry names its alert by fingerprint and start. It may come before the alert does: then it waits without a link.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from alerts2gh.ports import TimelineRow
from alerts2gh.store.batches import in_batches
from alerts2gh.store.codec import decode_model
from alerts2gh.store.schema import members, timeline, timeline_links
from alerts2gh.store.work import insert_for
from chassis.contracts import TimelineEntry


def add(connection: Connection, entries: Iterable[TimelineEntry], now: datetime) -> int:
    """Keep the entries that are not known yet and link them to their alerts' incidents; how many were new."""
    added = 0
    for entry in entries:
        row = {
            "operation": entry.operation,
            "phase": entry.phase.value,
            "attempt": entry.attempt,
            "fingerprint": entry.fingerprint,
            "starts_at": entry.starts_at,
            "at": entry.at,
            "received_at": now,
            "document": entry.model_dump_json().encode(),
        }
        insert = insert_for(connection, timeline).values(**row).on_conflict_do_nothing()
        new = connection.execute(insert.returning(timeline.c.id)).scalar()
        if new is not None:
            added += 1
            _link(connection, new, entry)
    return added


def _link(connection: Connection, timeline_id: int, entry: TimelineEntry) -> None:
    of_episode = sa.select(members.c.incident_id).where(
        members.c.fingerprint == entry.fingerprint, members.c.starts_at == entry.starts_at
    )
    # The alert may fire anew while the operation goes on: what it tells then belongs to what it told before.
    of_operation = (
        sa.select(timeline_links.c.incident_id)
        .join(timeline, timeline.c.id == timeline_links.c.timeline_id)
        .where(timeline.c.operation == entry.operation, timeline.c.fingerprint == entry.fingerprint)
    )
    owners = connection.scalars(sa.union(of_episode, of_operation)).all()
    _insert_links(connection, [(owner, timeline_id) for owner in owners])


def adopt(connection: Connection, changed: Sequence[Mapping[str, Any]]) -> None:
    """Link entries that waited for alerts which have just become members."""
    if not changed:
        return
    if connection.scalar(sa.select(timeline.c.id).limit(1)) is None:
        return
    starts = {row["fingerprint"]: row for row in changed}
    for batch in in_batches(starts):
        waiting = connection.execute(
            sa.select(timeline.c.id, timeline.c.fingerprint, timeline.c.starts_at).where(
                timeline.c.fingerprint.in_(batch)
            )
        )
        _insert_links(
            connection,
            [
                (starts[row.fingerprint]["incident_id"], row.id)
                for row in waiting
                if row.starts_at == starts[row.fingerprint]["starts_at"]
            ],
        )


def _insert_links(connection: Connection, links: Iterable[tuple[str, int]]) -> None:
    rows = [{"incident_id": owner, "timeline_id": entry, "seen": False} for owner, entry in links]
    if rows:
        connection.execute(insert_for(connection, timeline_links).on_conflict_do_nothing(), rows)


# Built once: it runs at every look at an incident.
_OF_INCIDENT = (
    sa.select(timeline.c.id, timeline.c.document, timeline_links.c.seen)
    .join(timeline_links, timeline_links.c.timeline_id == timeline.c.id)
    .where(timeline_links.c.incident_id == sa.bindparam("of"))
    .order_by(timeline.c.at, timeline.c.id)
)


def of_incident(connection: Connection, incident_id: str) -> tuple[TimelineRow, ...]:
    rows = connection.execute(_OF_INCIDENT, {"of": incident_id})
    return tuple(
        TimelineRow(row.id, decode_model(TimelineEntry, row.document), row.seen) for row in rows
    )


def mark_seen(connection: Connection, incident_id: str, ids: Sequence[int]) -> None:
    for batch in in_batches(ids):
        connection.execute(
            sa.update(timeline_links)
            .where(
                timeline_links.c.incident_id == incident_id,
                timeline_links.c.timeline_id.in_(batch),
            )
            .values(seen=True)
        )


def expire(connection: Connection, before: datetime) -> int:
    """Drop entries that came before `before` and belong to no incident; how many."""
    linked = sa.select(timeline_links.c.timeline_id).where(
        timeline_links.c.timeline_id == timeline.c.id
    )
    result = connection.execute(
        sa.delete(timeline).where(timeline.c.received_at < before, ~linked.exists())
    )
    return result.rowcount
