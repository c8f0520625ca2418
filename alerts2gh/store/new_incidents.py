"""Counts the new incidents of a repository, for telling a storm. It decides nothing."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection

from alerts2gh.store.incident_rows import IncidentState
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

    One that has no issue and does not fire counts as soon as a part for it waits, whether that fires or not: nobody has
    read it yet.
    """
    stored, waiting = _stored(target_key, span, but), _in_parts(target_key, span, but)
    # Each is cut short by itself: in a storm there may be thousands.
    either = sa.union(
        sa.select(stored.limit(most).subquery().c.id),
        sa.select(waiting.limit(most).subquery().c.id),
    ).subquery()
    found: int = connection.execute(sa.select(sa.func.count()).select_from(either)).scalar_one()
    return min(found, most)


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


def _in_parts(
    target_key: str, span: tuple[datetime, datetime], but: Sequence[str]
) -> sa.Select[tuple[str]]:
    since, until = span
    at_work = sa.select(incidents.c.id).where(
        incidents.c.id == deliveries.c.incident_id, incidents.c.state != IncidentState.QUIET.value
    )
    return (
        sa.select(deliveries.c.incident_id.label("id"))
        .where(
            deliveries.c.target_key == target_key,
            deliveries.c.received_at > since,
            deliveries.c.received_at <= until,
            deliveries.c.incident_id.not_in(but),
            ~at_work.exists(),
        )
        .distinct()
    )
