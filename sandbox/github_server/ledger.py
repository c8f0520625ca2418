"""Who has spent how much of GitHub's limits. The arithmetic is `github_rules.limits`."""

import math
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sandbox.github_rules import Allowance, Window, creates_content, points_of
from sandbox.github_rules.limits import (
    ANONYMOUS_LIMIT,
    CONTENT_A_MINUTE,
    CONTENT_AN_HOUR,
    CORE_LIMIT,
    POINTS_A_MINUTE,
    SEARCH_LIMIT,
)
from sandbox.github_rules.refusals import primary_limit, secondary_limit

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
POINTS = Allowance(POINTS_A_MINUTE, MINUTE)
CONTENT = (Allowance(CONTENT_A_MINUTE, MINUTE), Allowance(CONTENT_AN_HOUR, HOUR))
ANONYMOUS = "anonymous"

Spent = deque[tuple[datetime, int]]


@dataclass(frozen=True, slots=True)
class Charge:
    """What a request is charged for."""

    key: str
    method: str
    path: str
    core_limit: int | None = None

    @property
    def resource(self) -> str:
        return "search" if self.path.startswith("/search/") else "core"

    @property
    def free(self) -> bool:
        return self.path == "/rate_limit"


class Ledger:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, str], Window] = {}
        self._points: dict[str, Spent] = {}
        self._content: dict[str, Spent] = {}

    def window(self, charge: Charge, now: datetime) -> Window:
        with self._lock:
            return self._window(charge, now)

    def spend(self, charge: Charge, now: datetime, *, enforce: bool) -> None:
        """Take one request off the primary budget.

        Raises:
            Refusal: 403, the budget is used up and `enforce` is on.
        """
        if charge.free:
            return
        with self._lock:
            window = self._window(charge, now)
            if enforce and not window.remaining:
                headers = window.headers(charge.resource)
                raise primary_limit(403, charge.key, headers)
            # Without enforcement the headers never say zero: a client would stop by itself.
            if enforce or window.remaining > 1:
                self._windows[charge.key, charge.resource] = window.spend()

    def refund(self, charge: Charge, now: datetime) -> None:
        """A 304 costs nothing (GitHub: "conditional requests")."""
        with self._lock:
            window = self._window(charge, now)
            used = max(0, window.used - 1)
            self._windows[charge.key, charge.resource] = replace(window, used=used)

    def spend_secondary(self, charge: Charge, now: datetime) -> None:
        """Count points and content.

        Raises:
            Refusal: 403 with retry-after; too many within a minute or an hour.
        """
        with self._lock:
            points = _recent(self._points, charge.key, now, MINUTE)
            content = _recent(self._content, charge.key, now, HOUR)
            cost = points_of(charge.method)
            creating = creates_content(charge.method, charge.path)
            waits = [POINTS.wait(tuple(points), cost, now)]
            if creating:
                waits += [allowance.wait(tuple(content), 1, now) for allowance in CONTENT]
            longest = max(filter(None, waits), default=None)
            if longest is not None:
                seconds = math.ceil(longest.total_seconds())
                raise secondary_limit(403, {"retry-after": str(seconds)})
            points.append((now, cost))
            if creating:
                content.append((now, 1))

    def note_content(self, login: str, now: datetime) -> None:
        """What a person does on the pages counts too."""
        with self._lock:
            _recent(self._content, login, now, HOUR).append((now, 1))

    def _window(self, charge: Charge, now: datetime) -> Window:
        known = self._windows.get((charge.key, charge.resource))
        if known is None:
            length = MINUTE if charge.resource == "search" else HOUR
            known = Window(_limit(charge), length, now + length)
        return known.at(now)


def limit_headers(fault_seconds: float, now: datetime) -> Mapping[str, str]:
    """The x-ratelimit headers of an exhausted budget that resets in `fault_seconds`."""
    window = Window(CORE_LIMIT, HOUR, now + timedelta(seconds=fault_seconds), CORE_LIMIT)
    return window.headers("core")


def _limit(charge: Charge) -> int:
    if charge.resource == "search":
        return SEARCH_LIMIT
    if charge.core_limit is not None:
        return charge.core_limit
    return ANONYMOUS_LIMIT if charge.key == ANONYMOUS else CORE_LIMIT


def _recent(book: dict[str, Spent], key: str, now: datetime, span: timedelta) -> Spent:
    spent = book.setdefault(key, deque())
    while spent and spent[0][0] <= now - span:
        spent.popleft()
    return spent
