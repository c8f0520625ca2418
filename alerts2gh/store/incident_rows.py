"""Incidents and their members as rows: reading them, and saving one if nobody else has.

Works on a connection that its caller opened and commits; it takes no decision about an incident.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from alerts2gh.incident import (
    DeliveryPart,
    Incident,
    IntentAction,
    Issue,
    IssueState,
    Member,
    Target,
)
from alerts2gh.ports import OpenIncident, StoreConflictError
from alerts2gh.store import statements
from alerts2gh.store.batches import in_batches
from alerts2gh.store.codec import decode, encode
from alerts2gh.store.delivery_codec import decode_part
from alerts2gh.store.schema import deliveries, members
from alerts2gh.storm import counts_as_new


class IncidentState(StrEnum):
    """What the database and the metrics sort incidents by."""

    DEAD = "dead"
    ROLLED_UP = "rolled_up"
    OPEN = "open"
    CLOSED = "closed"
    UNFILED = "unfiled"
    """Firing, and no issue yet."""
    QUIET = "quiet"
    """Not firing, and no issue."""


def state_of(incident: Incident) -> IncidentState:
    if incident.dead_reason is not None:
        return IncidentState.DEAD
    if incident.issue is not None:
        return _STATES[incident.issue.state]
    if incident.rolled_into is not None:
        return IncidentState.ROLLED_UP
    return IncidentState.UNFILED if incident.is_firing else IncidentState.QUIET


_STATES = {IssueState.OPEN: IncidentState.OPEN, IssueState.CLOSED: IncidentState.CLOSED}


@dataclass(frozen=True, slots=True)
class Saving:
    """A save, with all that can be worked out before the transaction. `incident` has its new version."""

    incident: Incident
    row: Mapping[str, Any]
    members: Mapping[str, Mapping[str, Any]]
    folded: Sequence[int]
    owner: str


def saving(
    incident: Incident,
    *,
    folded: Sequence[int],
    wake_at: datetime | None,
    owner: str,
    now: datetime,
) -> Saving:
    saved = replace(incident, version=incident.version + 1)
    return Saving(
        incident=saved,
        row=incident_row(saved, wake_at, now),
        members={each.fingerprint: _member_row(saved.id, each) for each in saved.members.values()},
        folded=folded,
        owner=owner,
    )


def incident_row(incident: Incident, wake_at: datetime | None, now: datetime) -> dict[str, Any]:
    issue, target = incident.issue, incident.disposition.target
    closed = issue is not None and issue.state is IssueState.CLOSED
    return {
        "id": incident.id,
        "label_key": incident.label_key,
        "target_key": target.key,
        "credential": target.credential,
        "owner": target.owner,
        "repo": target.repo,
        "state": state_of(incident).value,
        "filed": _filed(incident),
        "dead": incident.dead_reason is not None,
        "idle": not incident.is_firing and incident.intent is None and (closed or issue is None),
        "issue_number": None if issue is None else issue.number,
        "closed_at": _closed_at(issue),
        "wake_at": wake_at,
        "began_at": incident.new_since if counts_as_new(incident) else None,
        "version": incident.version,
        "updated_at": now,
        "document": encode(replace(incident, members={}, version=0)),
    }


def _filed(incident: Incident) -> bool:
    """Whether its issue is open, or is just being opened."""
    opening = {IntentAction.CREATE, IntentAction.REOPEN}
    if incident.intent is not None and incident.intent.action in opening:
        return True
    return incident.issue is not None and incident.issue.state is IssueState.OPEN


def _closed_at(issue: Issue | None) -> datetime | None:
    return issue.closed_at if issue is not None and issue.state is IssueState.CLOSED else None


def _member_row(incident_id: str, member: Member) -> dict[str, Any]:
    return {
        "incident_id": incident_id,
        "fingerprint": member.fingerprint,
        "starts_at": member.starts_at,
        "status": member.status.value,
        "document": encode(member),
    }


@dataclass(frozen=True, slots=True)
class Written:
    """What a save changed: rows of members, how many folded parts went, and the state before (None: no row)."""

    members: Sequence[Mapping[str, Any]]
    parts: int
    state_before: IncidentState | None


def write_incident(connection: Connection, save: Saving) -> Written:
    """Write a save.

    Raises:
        StoreConflictError: Another has saved it since, or `owner` holds no lease on it any more.
    """
    stored = connection.execute(statements.STORED, {"of": save.incident.id}).one_or_none()
    if (stored.version if stored else 0) != save.incident.version - 1:
        raise StoreConflictError(f"incident {save.incident.id} was saved by another")
    keys = {stored.target_key} if stored else _keys_of_new(connection, save)
    _check_lease(connection, keys, save.owner)
    if stored:
        connection.execute(statements.UPDATE_INCIDENT, {"of": save.incident.id, **save.row})
    else:
        _insert(connection, save)
    return Written(
        members=_write_members(connection, save),
        parts=_delete_folded(connection, save),
        state_before=IncidentState(stored.state) if stored else None,
    )


def _keys_of_new(connection: Connection, save: Saving) -> set[str]:
    """Where the first parts were filed to; the routes may have changed between two of them."""
    keys = {save.incident.disposition.target.key}
    for batch in in_batches(save.folded):
        found = sa.select(deliveries.c.target_key).where(deliveries.c.seq.in_(batch)).distinct()
        keys.update(connection.scalars(found))
    return keys


def _check_lease(connection: Connection, keys: set[str], owner: str) -> None:
    held = (
        connection.execute(statements.LEASE, {"key": key, "owner": owner}).first()
        for key in sorted(keys)
    )
    if not any(held):
        raise StoreConflictError(f"{owner} holds no lease on {', '.join(sorted(keys))}")


def _insert(connection: Connection, save: Saving) -> None:
    try:
        connection.execute(statements.INSERT_INCIDENT, dict(save.row))
    except IntegrityError as error:
        raise StoreConflictError(f"incident {save.incident.id} was made by another") from error


def _write_members(connection: Connection, save: Saving) -> list[Mapping[str, Any]]:
    known = {
        row.fingerprint: row.document
        for row in connection.execute(statements.MEMBER_DOCUMENTS, {"of": save.incident.id})
    }
    _delete_members(connection, save.incident.id, known.keys() - save.members.keys())
    new = [row for name, row in save.members.items() if name not in known]
    other = [
        row
        for name, row in save.members.items()
        if name in known and known[name] != row["document"]
    ]
    if new:
        connection.execute(sa.insert(members), new)
    if other:
        _update_members(connection, other)
    return [*new, *other]


def _update_members(connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
    statement = sa.update(members).where(
        members.c.incident_id == sa.bindparam("of_incident"),
        members.c.fingerprint == sa.bindparam("of_alert"),
    )
    columns = ("starts_at", "status", "document")
    connection.execute(
        statement.values({name: sa.bindparam(name) for name in columns}),
        [
            {
                "of_incident": row["incident_id"],
                "of_alert": row["fingerprint"],
                **{name: row[name] for name in columns},
            }
            for row in rows
        ],
    )


def _delete_members(connection: Connection, incident_id: str, gone: Iterable[str]) -> None:
    for batch in in_batches(gone):
        connection.execute(
            sa.delete(members).where(
                members.c.incident_id == incident_id, members.c.fingerprint.in_(batch)
            )
        )


def _delete_folded(connection: Connection, save: Saving) -> int:
    gone = 0
    for batch in in_batches(save.folded):
        result = connection.execute(
            sa.delete(deliveries).where(
                deliveries.c.seq.in_(batch), deliveries.c.incident_id == save.incident.id
            )
        )
        gone += result.rowcount
    return gone


def load_incident(connection: Connection, incident_id: str) -> Incident | None:
    row = connection.execute(statements.INCIDENT, {"of": incident_id}).one_or_none()
    if row is None:
        return None
    found = connection.execute(statements.MEMBERS, {"of": incident_id})
    return _incident(row, {each.fingerprint: decode(Member, each.document) for each in found})


def _incident(row: sa.Row[Any], of_incident: Mapping[str, Member]) -> Incident:
    return replace(decode(Incident, row.document), members=of_incident, version=row.version)


def load_incidents(connection: Connection, query: sa.Select[Any]) -> tuple[Incident, ...]:
    """The incidents of a query over the table, with their members, in its order."""
    rows = connection.execute(query).all()
    of_incident: dict[str, dict[str, Member]] = defaultdict(dict)
    for batch in in_batches(row.id for row in rows):
        found = sa.select(members).where(members.c.incident_id.in_(batch))
        for row in connection.execute(found.order_by(members.c.fingerprint)):
            of_incident[row.incident_id][row.fingerprint] = decode(Member, row.document)
    return tuple(_incident(row, of_incident.get(row.id, {})) for row in rows)


def load_parts(connection: Connection, incident_id: str) -> tuple[tuple[int, DeliveryPart], ...]:
    rows = connection.execute(statements.PARTS, {"of": incident_id})
    return tuple((row.seq, decode_part(row.body)) for row in rows)


def find_filed(connection: Connection, label_keys: Iterable[str]) -> tuple[OpenIncident, ...]:
    return tuple(
        _open_incident(row)
        for key in dict.fromkeys(label_keys)
        for row in connection.execute(statements.FILED, {"key": key})
    )


def all_filed(connection: Connection) -> tuple[OpenIncident, ...]:
    return tuple(_open_incident(row) for row in connection.execute(statements.ALL_FILED))


def _open_incident(row: Any) -> OpenIncident:
    return OpenIncident(row.id, row.label_key, Target(row.credential, row.owner, row.repo))
