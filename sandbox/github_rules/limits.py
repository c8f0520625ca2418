"""The arithmetic of GitHub's rate limits; who is counted, and when, is decided elsewhere.

Sources: GitHub's documentation "Rate limits for the REST API": 5,000 requests an hour, 30 searches
a minute, 900 points a minute (a read 1, a write 5), and about 80 content-creating requests a
minute and 500 an hour.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

CORE_LIMIT: Final = 5_000
ANONYMOUS_LIMIT: Final = 60
SEARCH_LIMIT: Final = 30
POINTS_A_MINUTE: Final = 900
CONTENT_A_MINUTE: Final = 80
CONTENT_AN_HOUR: Final = 500

READ_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_NOTIFYING: Final = re.compile(r"/issues(/\d+/(comments|assignees))?/?$")


@dataclass(frozen=True, slots=True)
class Window:
    """A primary budget: `used` of `limit` until `reset`, as the x-ratelimit headers tell it."""

    limit: int
    length: timedelta
    reset: datetime
    used: int = 0

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)

    def at(self, now: datetime) -> "Window":
        """The window that holds `now`: a new, empty one once the reset has passed."""
        return self if now < self.reset else replace(self, used=0, reset=now + self.length)

    def spend(self, cost: int = 1) -> "Window":
        return replace(self, used=min(self.limit, self.used + cost))

    def headers(self, resource: str) -> dict[str, str]:
        return {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(self.remaining),
            "x-ratelimit-used": str(self.used),
            "x-ratelimit-reset": str(int(self.reset.timestamp())),
            "x-ratelimit-resource": resource,
        }


@dataclass(frozen=True, slots=True)
class Allowance:
    """A secondary limit: at most `most` within any `span`."""

    most: int
    span: timedelta

    def wait(
        self, spent: Sequence[tuple[datetime, int]], cost: int, now: datetime
    ) -> timedelta | None:
        """How long until `cost` more fits after `spent` (time and cost, oldest first); None: now."""
        recent = [(at, points) for at, points in spent if at > now - self.span]
        over = sum(points for _, points in recent) + cost - self.most
        if over <= 0:
            return None
        for at, points in recent:
            over -= points
            if over <= 0:
                return at + self.span - now
        return self.span


def points_of(method: str) -> int:
    return 1 if method in READ_METHODS else 5


def creates_content(method: str, path: str) -> bool:
    """Whether a request counts for the content limits: it makes something people are told of."""
    return method == "POST" and bool(_NOTIFYING.search(path))
