"""What is to be done, and who may do it: due incidents, wake-ups, leases.

An incident has work while it has unfolded parts, a wake-up or timeline entries that it has not seen. A dead one
only has its parts folded until it is brought back, so that they do not fill the backlog. Its target is the stored one; only an incident that is not stored yet goes by its parts.
"""

from datetime import datetime, timedelta
from functools import cache

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from alerts2gh.ports import Lease
from alerts2gh.store.columns import Instant
from alerts2gh.store.schema import deliveries, incidents, leases, timeline, timeline_links


def _parts() -> sa.Select[tuple[str, str, datetime]]:
    waiting = (
        sa.select(
            deliveries.c.incident_id,
            deliveries.c.target_key,
            sa.func.min(deliveries.c.received_at).label("since"),
        )
        .group_by(deliveries.c.incident_id, deliveries.c.target_key)
        .subquery()
    )
    return sa.select(
        sa.func.coalesce(incidents.c.target_key, waiting.c.target_key).label("target_key"),
        waiting.c.incident_id.label("id"),
        waiting.c.since,
    ).select_from(waiting.outerjoin(incidents, incidents.c.id == waiting.c.incident_id))


def _wake_ups() -> sa.Select[tuple[str, str, datetime]]:
    return sa.select(
        incidents.c.target_key, incidents.c.id, incidents.c.wake_at.label("since")
    ).where(incidents.c.wake_at.is_not(None), incidents.c.dead == sa.false())


def _unseen_entries() -> sa.Select[tuple[str, str, datetime]]:
    return (
        sa.select(incidents.c.target_key, incidents.c.id, timeline.c.received_at.label("since"))
        .select_from(timeline_links)
        .join(timeline, timeline.c.id == timeline_links.c.timeline_id)
        .join(incidents, incidents.c.id == timeline_links.c.incident_id)
        .where(timeline_links.c.seen == sa.false(), incidents.c.dead == sa.false())
    )


def due(connection: Connection, target_key: str, now: datetime, limit: int) -> tuple[str, ...]:
    return tuple(connection.scalars(_due(), {"key": target_key, "now": now, "most": limit}))


@cache
def _due() -> sa.Select[tuple[str]]:
    """Built once, as below: to put it together takes longer than to run it."""
    everything = sa.union_all(
        _parts(),
        _wake_ups().where(incidents.c.wake_at <= sa.bindparam("now", type_=Instant)),
        _unseen_entries(),
    ).subquery()
    return (
        sa.select(everything.c.id)
        .where(everything.c.target_key == sa.bindparam("key"))
        .group_by(everything.c.id)
        .order_by(sa.func.min(everything.c.since), everything.c.id)
        .limit(sa.bindparam("most", type_=sa.Integer))
    )


def next_wake(connection: Connection, target_key: str) -> datetime | None:
    query = sa.select(sa.func.min(incidents.c.wake_at)).where(
        incidents.c.target_key == target_key, incidents.c.dead == sa.false()
    )
    earliest: datetime | None = connection.scalars(query).one()
    return earliest


def targets_with_work(connection: Connection) -> frozenset[str]:
    return frozenset(connection.scalars(_targets()))


@cache
def _targets() -> sa.CompoundSelect[tuple[str]]:
    return sa.union(
        *(
            sa.select(each.subquery().c.target_key)
            for each in (_parts(), _wake_ups(), _unseen_entries())
        )
    )


def settled_leases(
    connection: Connection, owner: str, now: datetime, ttl: timedelta
) -> tuple[str, ...] | None:
    """The owner's targets, if there is nothing to take or renew; it saves a write on most calls."""
    work = targets_with_work(connection)
    held = {row.target_key: row for row in connection.execute(sa.select(leases))}
    mine = []
    for key in sorted(work):
        lease = held.get(key)
        if lease is None or lease.expires_at <= now:
            return None
        if lease.owner == owner:
            if lease.expires_at <= now + ttl / 2:
                return None
            mine.append(key)
    return tuple(mine)


def take_leases(
    connection: Connection, owner: str, now: datetime, ttl: timedelta
) -> tuple[str, ...]:
    work = sorted(targets_with_work(connection))
    if not work:
        return ()
    _make_missing(connection, work, owner, now + ttl)
    # A row that another transaction holds is being renewed or saved under: not ours to wait for.
    free = connection.scalars(
        sa.select(leases.c.target_key)
        .where(
            leases.c.target_key.in_(work),
            sa.or_(leases.c.owner == owner, leases.c.expires_at <= now),
        )
        .order_by(leases.c.target_key)
        .with_for_update(skip_locked=True)
    ).all()
    if free:
        connection.execute(
            sa.update(leases)
            .where(leases.c.target_key.in_(free))
            .values(owner=owner, expires_at=now + ttl)
        )
    mine = sa.select(leases.c.target_key).where(
        leases.c.target_key.in_(work), leases.c.owner == owner, leases.c.expires_at > now
    )
    return tuple(connection.scalars(mine.order_by(leases.c.target_key)))


def _make_missing(
    connection: Connection, work: list[str], owner: str, expires_at: datetime
) -> None:
    known = set(connection.scalars(sa.select(leases.c.target_key)))
    missing = [
        {"target_key": key, "owner": owner, "expires_at": expires_at}
        for key in work  # sorted: two replicas that insert the same keys cannot deadlock
        if key not in known
    ]
    if missing:
        connection.execute(insert_for(connection, leases).on_conflict_do_nothing(), missing)


def oldest_part(connection: Connection) -> datetime | None:
    """When the oldest part that is not folded was accepted. Parts are numbered as they come."""
    query = sa.select(deliveries.c.received_at).order_by(deliveries.c.seq).limit(1)
    received: datetime | None = connection.scalars(query).one_or_none()
    return received


def all_leases(connection: Connection) -> tuple[Lease, ...]:
    rows = connection.execute(sa.select(leases).order_by(leases.c.target_key))
    return tuple(Lease(row.target_key, row.owner, row.expires_at) for row in rows)


def release(connection: Connection, owner: str) -> None:
    connection.execute(sa.delete(leases).where(leases.c.owner == owner))


def insert_for(connection: Connection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT with ON CONFLICT; both databases have it, SQLAlchemy keeps one for each."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)
