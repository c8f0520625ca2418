"""Which incidents have an issue that is open or being opened, by their label keys, kept in memory.

Only right where this process is the one writer. A webhook asks for it, and a query for each costs more than the rest of
taking it in.
"""

from collections.abc import Iterable
from threading import Lock

from alerts2gh.ports import OpenIncident


class FiledIncidents:
    """A copy of what the table says; told of each save once that is committed."""

    def __init__(self, filed: Iterable[OpenIncident]) -> None:
        self._lock = Lock()
        self._by_key: dict[str, dict[str, OpenIncident]] = {}
        for each in filed:
            self._by_key.setdefault(each.label_key, {})[each.id] = each

    def note(self, incident: OpenIncident, *, filed: bool) -> None:
        with self._lock:
            of_key = self._by_key.setdefault(incident.label_key, {})
            of_key.pop(incident.id, None)
            if filed:
                of_key[incident.id] = incident
            elif not of_key:
                del self._by_key[incident.label_key]

    def find(self, label_keys: Iterable[str]) -> tuple[OpenIncident, ...]:
        """In the order of their ids for each key, as the query has it."""
        with self._lock:
            return tuple(
                of_key[each]
                for key in dict.fromkeys(label_keys)
                if (of_key := self._by_key.get(key))
                for each in sorted(of_key)
            )
