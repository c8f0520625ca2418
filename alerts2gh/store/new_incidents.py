"""Counts the new incidents of a repository, for telling a storm. It decides nothing."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection

from alerts2gh.store.schema import deliveries, incidents


def count_new(
    connection: Connection,
    target_key: str,
    span: tuple[datetime, datetime],
    *,
    but: Sequence[str],
    most: int,
) -> int:
    """Incidents that began in the half-open span (after its start), counted up to `most`, without those in `but`.

    An incident known only from parts counts from when they came, whether they fire or not: nobody has read them yet.
    """
    found = 0
    for ids in (_stored(target_key, span, but), _only_in_parts(target_key, span, but)):
        query = sa.select(sa.func.count()).select_from(ids.limit(most).subquery())
        found += connection.execute(query).scalar_one()
        if found >= most:
            return most
    return found


def _stored(
    target_key: str, span: tuple[datetime, datetime], but: Sequence[str]
) -> sa.Select[tuple[str]]:
    since, until = span
    return sa.select(incidents.c.id).where(
        incidents.c.target_key == target_key,
        incidents.c.began_at > since,
        incidents.c.began_at <= until,
        incidents.c.id.not_in(but),
    )


def _only_in_parts(
    target_key: str, span: tuple[datetime, datetime], but: Sequence[str]
) -> sa.Select[tuple[str]]:
    since, until = span
    known = sa.select(incidents.c.id).where(incidents.c.id == deliveries.c.incident_id)
    return (
        sa.select(deliveries.c.incident_id)
        .where(
            deliveries.c.target_key == target_key,
            deliveries.c.received_at > since,
            deliveries.c.received_at <= until,
            deliveries.c.incident_id.not_in(but),
            ~known.exists(),
        )
        .distinct()
    )
