"""Faults that tests switch on: what goes wrong, for which requests, how often.

Only the book-keeping; `answering` applies them. A fault with `when="after"` lets the request take
effect and then spoils the answer: the case that makes blind retries write twice.
"""

import random
import re
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from chassis.errors import PermanentError


class FaultKind(StrEnum):
    ERROR = "error"  # answer `status` (502 if not given) with `message`
    TIMEOUT = "timeout"  # hold the answer for `seconds`, then drop the connection
    DROP = "drop"  # drop the connection at once
    LATENCY = "latency"  # answer rightly, `seconds` later
    PRIMARY_LIMIT = "primary_limit"  # 403 or 429 by `status`
    SECONDARY_LIMIT = "secondary_limit"  # 403 or 429 by `status`


@dataclass(frozen=True, slots=True)
class Fault:
    """`method` and `path` are regular expressions that must match as a whole and in part.

    `count` applications at most (None: no end), each with `probability`, drawn from a generator
    seeded with `seed`; none after `until`. `headers` False leaves out the x-ratelimit headers of a
    limit; `retry_after` adds that header, in seconds. `seconds` is also the time to the reset of a
    primary limit.
    """

    kind: FaultKind
    when: Literal["before", "after"] = "before"
    method: str = ".*"
    path: str = ""
    count: int | None = None
    probability: float = 1.0
    seed: int = 0
    until: datetime | None = None
    status: int | None = None
    message: str | None = None
    seconds: float = 0.0
    retry_after: int | None = None
    headers: bool = True

    @property
    def pause(self) -> timedelta:
        return timedelta(seconds=self.seconds)


@dataclass(slots=True)
class _Entry:
    id: int
    fault: Fault
    dice: random.Random
    method: re.Pattern[str]
    path: re.Pattern[str]
    left: int | None = field(default=None)

    def hits(self, method: str, path: str, now: datetime) -> bool:
        fault = self.fault
        if self.left == 0 or (fault.until is not None and now >= fault.until):
            return False
        if not self.method.fullmatch(method) or not self.path.search(path):
            return False
        if fault.probability < 1 and self.dice.random() >= fault.probability:
            return False
        if self.left is not None:
            self.left -= 1
        return True


class FaultBook:
    """The faults in force, oldest first; the first that hits a request is the one applied."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[_Entry] = []
        self._last_id = 0

    def add(self, fault: Fault) -> int:
        """Put `fault` in force; the number returned removes it again.

        Raises:
            PermanentError: `method` or `path` is not a regular expression.
        """
        try:
            patterns = re.compile(fault.method), re.compile(fault.path)
        except re.error as error:
            raise PermanentError(f"fault: {error.pattern!r} is no pattern: {error}") from error
        with self._lock:
            self._last_id += 1
            dice = random.Random(fault.seed)
            self._entries.append(_Entry(self._last_id, fault, dice, *patterns, fault.count))
            return self._last_id

    def remove(self, number: int) -> None:
        with self._lock:
            self._entries = [entry for entry in self._entries if entry.id != number]

    def clear(self) -> None:
        with self._lock:
            self._entries = []

    def pick(self, method: str, path: str, now: datetime) -> Fault | None:
        """The fault for this request, if one hits; counts it as applied."""
        with self._lock:
            for entry in self._entries:
                if entry.hits(method, path, now):
                    return entry.fault
        return None
