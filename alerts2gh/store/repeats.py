"""Tells deliveries that would change nothing: all they say is stored and folded already, by an earlier one like them.

Such a delivery is durable before it comes, so it needs no commit and no look of the worker. It decides nothing about
incidents: `settled_by` says which delivery an incident says the same as, and whoever folds sets it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock

import sqlalchemy as sa
from sqlalchemy import Connection

from alerts2gh.incident import Incident
from alerts2gh.ports import Repeat
from alerts2gh.store.batches import in_batches
from alerts2gh.store.schema import deliveries, incidents


class Settled:
    """Which incidents this process has saved last, and by which delivery each is settled.

    Only saves of this process are known here: after a start each group is stored, folded and looked at once more.
    """

    def __init__(self, waiting: Mapping[str, int]) -> None:
        """`waiting` is how many parts are not folded yet, by incident."""
        self._lock = Lock()
        self._waiting = Counter(waiting)
        self._by_id: dict[str, tuple[str, int]] = {}

    def coming(self, incident_ids: Iterable[str]) -> None:
        """Parts are about to be stored: from now on something else may be newer than what is known here."""
        with self._lock:
            self._waiting.update(incident_ids)

    def failed(self, incident_ids: Iterable[str]) -> None:
        """They were not stored."""
        for each in incident_ids:
            self._folded(each, 1)

    def saved(self, incident: Incident, folded: int) -> None:
        """An incident was committed, and so many of its parts are gone with that."""
        self._folded(incident.id, folded)
        with self._lock:
            if incident.settled_by:
                self._by_id[incident.id] = (incident.settled_by, incident.version)
            else:
                self._by_id.pop(incident.id, None)

    def _folded(self, incident_id: str, parts: int) -> None:
        with self._lock:
            self._waiting[incident_id] -= parts
            if self._waiting[incident_id] <= 0:
                del self._waiting[incident_id]

    def forget(self) -> None:
        """Incidents were deleted."""
        with self._lock:
            self._by_id.clear()

    def versions(self, repeats: Sequence[Repeat]) -> Mapping[str, int] | None:
        """The versions of their incidents that say the same; None if one of them says something else."""
        versions = {}
        with self._lock:
            for each in repeats:
                digest, version = self._by_id.get(each.incident_id, ("", 0))
                if digest != each.digest:
                    return None
                versions[each.incident_id] = version
        return versions

    def are_folded(self, incident_ids: Iterable[str]) -> bool:
        """Whether no part waits; counts what this process has accepted, and what it found at its start."""
        with self._lock:
            return self._waiting.keys().isdisjoint(incident_ids)


_FILED = -1
"""In the place of a version: another incident that is filed, with one of the label keys."""

_STANDING = sa.union_all(
    sa.select(incidents.c.id, incidents.c.version).where(
        incidents.c.id.in_(sa.bindparam("ids", expanding=True)),
        ~sa.select(deliveries.c.seq).where(deliveries.c.incident_id == incidents.c.id).exists(),
    ),
    sa.select(incidents.c.id, sa.literal(_FILED).label("version")).where(
        incidents.c.filed, incidents.c.label_key.in_(sa.bindparam("keys", expanding=True))
    ),
)


def still_stand(
    connection: Connection, repeats: Sequence[Repeat], versions: Mapping[str, int]
) -> bool:
    """Whether these versions are the last and no part waits, and nothing else with their label keys is filed.

    Another process may have changed it all; what it has not committed yet comes after this delivery.
    """
    found: dict[str, int] = {}
    for batch in in_batches(repeats):
        values = {"ids": [r.incident_id for r in batch], "keys": [r.label_key for r in batch]}
        for row in connection.execute(_STANDING, values):
            if row.version != _FILED:
                found[row.id] = row.version
            elif row.id not in versions:
                return False
    return found == versions


def waiting_parts(connection: Connection) -> Mapping[str, int]:
    """How many parts wait, by incident."""
    query = sa.select(deliveries.c.incident_id, sa.func.count().label("parts"))
    rows = connection.execute(query.group_by(deliveries.c.incident_id))
    return {row.incident_id: row.parts for row in rows}
