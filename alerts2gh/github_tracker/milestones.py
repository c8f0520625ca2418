"""Milestones by title: GitHub wants their number, routes name them by title.

The numbers are listed once a repository and kept for an hour. It must not create milestones.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from alerts2gh.github_tracker import reading
from alerts2gh.github_tracker.client import Call, Client, Endpoint
from alerts2gh.incident import Target
from alerts2gh.ports import Answer, Outcome

KEEP = timedelta(hours=1)
# These would befall the create as well, so that it is better to wait than to lose the milestone.
_WORTH_WAITING = frozenset(
    {
        Outcome.UNREACHABLE,
        Outcome.PRIMARY_LIMIT,
        Outcome.SECONDARY_LIMIT,
        Outcome.UNAUTHORISED,
    }
)


class Milestones:
    """The open milestones of the repositories that were asked about; safe for threads."""

    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[str, tuple[datetime, Mapping[str, int]]] = {}

    def number(self, target: Target, title: str) -> Answer[int]:
        """DONE with the number, or without one.

        Without when no open milestone has the title or the list is refused. Any other outcome says why the create should wait.
        """
        with self._lock:
            listed_at, numbers = self._known.get(target.key, (None, {}))
        if listed_at is None or not timedelta() <= self._now() - listed_at < KEEP:
            listed = self._list(target)
            if listed.outcome in _WORTH_WAITING:
                return without_value(listed)
            numbers = dict(reversed(listed.value or ()))  # of equal titles the first listed wins
            with self._lock:
                self._known[target.key] = (self._now(), numbers)
        return Answer(Outcome.DONE, numbers.get(title))

    def _list(self, target: Target) -> Answer[tuple[tuple[str, int], ...]]:
        segments = ("repos", target.owner, target.repo, "milestones")
        parameters = {"state": "open", "per_page": 100}
        call = Call(Endpoint.MILESTONE_LIST, "GET", segments, parameters=parameters)
        return self._client.pages(call, reading.milestones)

    def forget(self, target: Target) -> None:
        with self._lock:
            self._known.pop(target.key, None)


def without_value(answer: Answer[Any]) -> Answer[Any]:
    """The same news for a request of another kind."""
    return replace(answer, value=None)
