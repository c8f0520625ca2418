"""The firings of alerts, noted as incidents are saved and kept longer than they; for reports.

Works on a connection that its caller opened and commits.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from alerts2gh.incident import ClosedBy, Incident, IssueState, Member
from alerts2gh.issue_plan import REFUSING_REASONS
from alerts2gh.ports import Ending, Episode
from alerts2gh.store.schema import episodes, members
from alerts2gh.store.work import insert_for
from chassis.alertmanager import AlertStatus

KEPT = timedelta(days=400)
"""How long a firing is remembered after it ended: a year, to compare with the last one."""

_LABEL_KEPT = 300
_BY_A_PERSON = (Ending.CLOSED.value, Ending.NOT_PLANNED.value)
_table = episodes.c


def record(
    connection: Connection,
    incident: Incident,
    changed: Iterable[Mapping[str, Any]],
    now: datetime,
    *,
    was_closed: bool,
) -> None:
    """Bring the episodes up to date with a saved incident.

    Args:
        connection: Its members are written already.
        incident: As saved.
        changed: The rows of the members that this save changed.
        now: The time of the save.
        was_closed: Whether its issue counted as closed before this save.
    """
    if incident.is_own:
        return  # no alert of anybody's
    fresh = [incident.members[row["fingerprint"]] for row in changed]
    _begin(connection, incident, [each for each in fresh if each.firing])
    _resolve(connection, incident, fresh, now)
    issue = incident.issue
    closed = issue is not None and issue.state is IssueState.CLOSED
    if was_closed and not closed:
        _take_back(connection, incident.id)
    if issue is not None and issue.closed_at is not None and issue.closed_by is ClosedBy.HUMAN:
        refused = issue.state_reason in REFUSING_REASONS
        ending = Ending.NOT_PLANNED if refused else Ending.CLOSED
        _end_all(connection, incident.id, issue.closed_at, ending)
    if incident.dead_reason and incident.past and incident.past[-1].ended == "deleted":
        _end_all(connection, incident.id, now, Ending.DELETED)


def _begin(connection: Connection, incident: Incident, firing: Sequence[Member]) -> None:
    if not firing:
        return
    rows = [_row(incident, member) for member in firing]
    insert = insert_for(connection, episodes)
    connection.execute(_or_go_on(insert), rows)


def _or_go_on(
    insert: sqlite.Insert | postgresql.Insert,
) -> sqlite.Insert | postgresql.Insert:
    """The same firing again after its resolved: the resolved was a gap in what we heard."""
    return insert.on_conflict_do_update(
        index_elements=["incident_id", "fingerprint", "starts_at"],
        set_={"ended_at": None, "ending": None},
        where=_table.ending == Ending.RESOLVED.value,
    )


def _row(incident: Incident, member: Member) -> dict[str, Any]:
    labels = member.labels
    return {
        "incident_id": incident.id,
        "fingerprint": member.fingerprint,
        "starts_at": member.starts_at,
        "repository": incident.disposition.target.full_name,
        "alertname": labels.get("alertname", "")[:_LABEL_KEPT],
        "node": (labels.get("node") or labels.get("instance") or "")[:_LABEL_KEPT],
        "playbook": labels.get("playbook", "")[:_LABEL_KEPT],
    }


def _resolve(
    connection: Connection, incident: Incident, fresh: Iterable[Member], now: datetime
) -> None:
    """End what the members say is over: their own firing when resolved, any earlier one in any case."""
    over = [
        {
            "of_incident": incident.id,
            "of_alert": member.fingerprint,
            "before": member.starts_at if member.firing else member.starts_at + _A_MOMENT,
            "at": member.starts_at if member.firing else _resolved_at(member, now),
        }
        for member in fresh
    ]
    if not over:
        return
    statement = sa.update(episodes).where(
        _table.incident_id == sa.bindparam("of_incident"),
        _table.fingerprint == sa.bindparam("of_alert"),
        _table.starts_at < sa.bindparam("before", type_=_table.starts_at.type),
        _table.ended_at.is_(None),
    )
    values = {"ended_at": sa.bindparam("at", type_=_table.ended_at.type)}
    connection.execute(statement.values(ending=Ending.RESOLVED.value, **values), over)


_A_MOMENT = timedelta(microseconds=1)


def _resolved_at(member: Member, now: datetime) -> datetime:
    """When it resolved; a clock that runs ahead does not put it into the future."""
    return max(member.starts_at, min(member.ends_at or member.changed_at, now))


def _end_all(connection: Connection, incident_id: str, at: datetime, ending: Ending) -> None:
    connection.execute(
        sa.update(episodes)
        .where(
            _table.incident_id == incident_id,
            _table.ended_at.is_(None),
            _table.starts_at <= at,
        )
        .values(ended_at=at, ending=ending.value)
    )


def _take_back(connection: Connection, incident_id: str) -> None:
    """The issue is wanted again: what still fires had not ended with a person's close."""
    still = sa.select(members.c.fingerprint).where(
        members.c.incident_id == incident_id,
        members.c.fingerprint == _table.fingerprint,
        members.c.starts_at == _table.starts_at,
        members.c.status == AlertStatus.FIRING.value,
    )
    connection.execute(
        sa.update(episodes)
        .where(_table.incident_id == incident_id, _table.ending.in_(_BY_A_PERSON), still.exists())
        .values(ended_at=None, ending=None)
    )


def since(connection: Connection, begin: datetime) -> tuple[Episode, ...]:
    """Those that had not ended before `begin`, oldest first."""
    query = sa.select(episodes).where(sa.or_(_table.ended_at.is_(None), _table.ended_at >= begin))
    rows = connection.execute(query.order_by(_table.starts_at, _table.fingerprint))
    return tuple(
        Episode(
            incident_id=row.incident_id,
            fingerprint=row.fingerprint,
            repository=row.repository,
            alertname=row.alertname,
            node=row.node,
            playbook=row.playbook,
            starts_at=row.starts_at,
            ended_at=row.ended_at,
            ending=None if row.ending is None else Ending(row.ending),
        )
        for row in rows
    )


def forget(connection: Connection, before: datetime) -> None:
    """Drop those that ended before."""
    connection.execute(sa.delete(episodes).where(_table.ended_at < before))
