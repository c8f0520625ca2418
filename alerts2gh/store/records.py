"""The small tables: write budgets, dead letters, refusals; and dropping incidents that are long over."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection

from alerts2gh.ports import BudgetState, DeadLetter, Refusal
from alerts2gh.store.batches import in_batches
from alerts2gh.store.codec import decode, encode
from alerts2gh.store.incident_rows import IncidentState, incident_row, load_incident
from alerts2gh.store.schema import budgets, dead_letters, deliveries, incidents, refusals
from alerts2gh.store.work import insert_for

_TEXT_KEPT = 2000


def load_budget(connection: Connection, credential: str) -> BudgetState:
    document = connection.scalar(
        sa.select(budgets.c.document).where(budgets.c.credential == credential)
    )
    return BudgetState() if document is None else decode(BudgetState, document)


def save_budget(connection: Connection, credential: str, state: BudgetState) -> None:
    insert = insert_for(connection, budgets).values(credential=credential, document=encode(state))
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["credential"], set_={"document": insert.excluded.document}
        )
    )


def bury(connection: Connection, letter: DeadLetter) -> int:
    row = {
        "incident_id": letter.incident_id,
        "target": letter.target,
        "reason": letter.reason,
        "text": letter.text[:_TEXT_KEPT],
        "at": letter.at,
    }
    insert = sa.insert(dead_letters).values(**row).returning(dead_letters.c.id)
    number: int = connection.execute(insert).scalar_one()
    return number


def all_dead_letters(connection: Connection) -> tuple[DeadLetter, ...]:
    rows = connection.execute(sa.select(dead_letters).order_by(dead_letters.c.id))
    return tuple(
        DeadLetter(row.id, row.incident_id, row.target, row.reason, row.text, row.at)
        for row in rows
    )


def requeue(connection: Connection, ids: Sequence[int], now: datetime) -> int:
    """Drop the dead letters and wake their incidents; how many letters there were."""
    found: list[str | None] = []
    for batch in in_batches(dict.fromkeys(ids)):
        found += connection.scalars(
            sa.delete(dead_letters)
            .where(dead_letters.c.id.in_(batch))
            .returning(dead_letters.c.incident_id)
        ).all()
    for incident_id in sorted({each for each in found if each is not None}):
        _revive(connection, incident_id, now)
    return len(found)


def _revive(connection: Connection, incident_id: str, now: datetime) -> None:
    locked = sa.select(incidents.c.id).where(incidents.c.id == incident_id).with_for_update()
    connection.execute(locked).all()
    incident = load_incident(connection, incident_id)
    if incident is None:
        return
    alive = replace(
        incident, dead_reason=None, attempts=0, retry_at=None, version=incident.version + 1
    )
    connection.execute(
        sa.update(incidents)
        .where(incidents.c.id == incident_id)
        .values(**incident_row(alive, wake_at=now, now=now))
    )


def count_refusal(connection: Connection, reason: str, text: str, at: datetime) -> Refusal:
    kept = text[:_TEXT_KEPT]
    insert = insert_for(connection, refusals).values(
        reason=reason, number=1, first_at=at, last_at=at, last_text=kept
    )
    row = connection.execute(
        insert.on_conflict_do_update(
            index_elements=["reason"],
            set_={"number": refusals.c.number + 1, "last_at": at, "last_text": kept},
        ).returning(refusals)
    ).one()
    return Refusal(row.reason, row.number, row.first_at, row.last_at, row.last_text)


def all_refusals(connection: Connection) -> tuple[Refusal, ...]:
    rows = connection.execute(sa.select(refusals).order_by(refusals.c.reason))
    return tuple(
        Refusal(row.reason, row.number, row.first_at, row.last_at, row.last_text) for row in rows
    )


def counts(connection: Connection) -> dict[str, int]:
    """Incidents by state, every state named; and `dead_letters`."""
    query = sa.select(incidents.c.state, sa.func.count().label("number")).group_by(
        incidents.c.state
    )
    found = {row.state: row.number for row in connection.execute(query)}
    letters = connection.execute(sa.select(sa.func.count()).select_from(dead_letters)).scalar_one()
    return {
        **{state.value: found.get(state.value, 0) for state in IncidentState},
        "dead_letters": letters,
    }


def prune(connection: Connection, before: datetime) -> int:
    """Drop incidents that are over since `before`, have no work and no dead letter; how many."""
    table = incidents.c
    waiting = sa.select(deliveries.c.seq).where(deliveries.c.incident_id == table.id)
    buried = sa.select(dead_letters.c.id).where(dead_letters.c.incident_id == table.id)
    result = connection.execute(
        sa.delete(incidents).where(
            table.idle,
            table.dead == sa.false(),
            table.wake_at.is_(None),
            table.updated_at < before,
            sa.or_(table.closed_at.is_(None), table.closed_at < before),
            ~waiting.exists(),
            ~buried.exists(),
        )
    )
    return result.rowcount
