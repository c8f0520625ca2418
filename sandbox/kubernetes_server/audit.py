"""What was asked of the sandbox Kubernetes and what came of it, as an API server's audit log. Holds no bodies or tokens."""

import threading
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One request, written when its answer starts; a watch counts once, when it begins.

    `verb` is Kubernetes' (get, list, watch, create, update, patch, delete, deletecollection) or the
    HTTP method in lower case for paths that are no resource. `code` is 0 for a connection that was
    cut. `took_effect`: it changed something, whatever the answer said. `fault`: what was made of it.
    """

    seq: int
    at: datetime
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    user_agent: str
    code: int
    path: str
    dry_run: bool = False
    took_effect: bool = False
    fault: str = ""


class AuditLog:
    def __init__(self, limit: int = 200_000) -> None:
        self._lock = threading.Lock()
        self._entries: list[AuditEntry] = []
        self._limit = limit
        self._dropped = 0

    def next_seq(self) -> int:
        return self._dropped + len(self._entries) + 1

    def add(self, **fields: object) -> AuditEntry:
        """Append an entry; `fields` are those of AuditEntry but `seq`, which counts from 1."""
        with self._lock:
            entry = AuditEntry(seq=self.next_seq(), **fields)  # type: ignore[arg-type]  # as named
            self._entries.append(entry)
            if len(self._entries) > self._limit:
                half = self._limit // 2
                self._dropped += half
                del self._entries[:half]
        return entry

    def entries(self, after: int = 0) -> list[AuditEntry]:
        """Those with a `seq` above `after`; the oldest are dropped when there are very many."""
        with self._lock:
            return self._entries[max(0, after - self._dropped) :]
