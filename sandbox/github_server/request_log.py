"""What was asked of the sandbox GitHub and what came of it, for tests to read. Holds no secrets.

Bodies are kept as a hash and a few fields; tokens as the login they belong to.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

KEY_FIELDS = (
    "title",
    "state",
    "state_reason",
    "labels",
    "assignees",
    "assignee",
    "milestone",
    "lock_reason",
    "name",
)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One request. `took_effect`: it changed an issue, whatever the answer said.

    `number` is the issue made or named, None for other requests; `fault` the kind of fault that was
    applied; `fields` the telling fields of the body, with the first line of a `body` text and its
    length as `body_line` and `body_length`.
    """

    seq: int
    at: datetime
    method: str
    path: str
    query: str
    login: str | None
    status: int
    took_effect: bool
    fault: str | None = None
    number: int | None = None
    body_sha256: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


class RequestLog:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[LogEntry] = []

    def add(self, **fields: Any) -> LogEntry:
        """Append an entry; `fields` are those of LogEntry but `seq`, which counts from 1."""
        with self._lock:
            entry = LogEntry(seq=len(self._entries) + 1, **fields)
            self._entries.append(entry)
        return entry

    def entries(self, after: int = 0) -> list[LogEntry]:
        with self._lock:
            return self._entries[after:]


def telling_fields(body: Any) -> dict[str, Any]:
    if isinstance(body, list):
        return {"labels": body}
    if not isinstance(body, dict):
        return {}
    fields = {key: body[key] for key in KEY_FIELDS if key in body}
    text = body.get("body")
    if isinstance(text, str):
        fields |= {"body_line": text.split("\n", 1)[0][:200], "body_length": len(text)}
    return fields
