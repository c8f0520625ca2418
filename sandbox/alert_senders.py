"""Alertmanagers that deliver the lives of many groups at once, and the verdict on what the sandbox GitHub has of them.

For the crash tests and the crash benchmark. It knows webhooks and issues; it imports no service.
"""

import http.client
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sandbox.github_server.model import Issue

Webhook = Mapping[str, Any]
Post = Callable[[Webhook], tuple[int, object]]
"""Delivers a webhook: status and answer. Raises OSError, ValueError or HTTPException when there is no whole answer."""

ALERTNAME = "GPURuntimeError"
DUPLICATE = "duplicate"
_TRY_AGAIN = 0.05


def group_webhook(
    name: str, *, firing: bool, starts_at: datetime, ends_at: datetime, nodes: int
) -> dict[str, Any]:
    """What Alertmanager sends for group `name`, whose alerts on nodes n0, n1, … are all in one state."""
    group = {"alertname": ALERTNAME, "g": name}
    alerts = [
        {
            "status": "firing" if firing else "resolved",
            "labels": {**group, "node": f"n{number}"},
            "annotations": {"summary": f"CUDA fails on n{number}"},
            "startsAt": starts_at.isoformat(),
            "endsAt": "0001-01-01T00:00:00Z" if firing else ends_at.isoformat(),
            "generatorURL": "http://prometheus.example/graph",
        }
        for number in range(nodes)
    ]
    return {
        "version": "4",
        "groupKey": f"{{}}:{group}",
        "truncatedAlerts": 0,
        "status": "firing" if firing else "resolved",
        "receiver": "alerts2gh",
        "groupLabels": group,
        "commonLabels": group,
        "commonAnnotations": {},
        "externalURL": "http://alertmanager.example:9093",
        "alerts": alerts,
    }


@dataclass(frozen=True, slots=True)
class Lives:
    """Webhooks of all groups, mixed, each group's in order; `fires`: whether a group fires at the end."""

    webhooks: Sequence[Webhook]
    fires: Mapping[str, bool]
    nodes: int


def random_lives(
    dice: random.Random, groups: int, *, nodes: int, most_steps: int, start: datetime
) -> Lives:
    """Groups g0, g1, … that fire, resolve, fire again, … for one to `most_steps` steps."""
    queues: dict[str, list[Webhook]] = {}
    for number in range(groups):
        name = f"g{number}"
        queues[name] = [
            step_webhook(name, step // 2, firing=step % 2 == 0, nodes=nodes, start=start)
            for step in range(dice.randint(1, most_steps))
        ]
    fires = {name: len(queue) % 2 == 1 for name, queue in queues.items()}
    return Lives(_mixed(dice, queues), fires, nodes)


def step_webhook(
    name: str, episode: int, *, firing: bool, nodes: int, start: datetime
) -> dict[str, Any]:
    """The `episode`-th time that a group fires or resolves; ten minutes lie between two, counted from `start`."""
    starts_at = start + timedelta(minutes=10 * episode)
    ends_at = starts_at + timedelta(minutes=1)
    return group_webhook(name, firing=firing, starts_at=starts_at, ends_at=ends_at, nodes=nodes)


def _mixed(dice: random.Random, queues: Mapping[str, Sequence[Webhook]]) -> list[Webhook]:
    order = [name for name, queue in queues.items() for _ in queue]
    dice.shuffle(order)
    rest = {name: iter(queue) for name, queue in queues.items()}
    return [next(rest[name]) for name in order]


class Sender(threading.Thread):
    """Delivers webhooks, each again and again until it is taken, as Alertmanager does for 5xx and no answer.

    A group's next one goes out only once the partners were rid of the one before it, or, with `ahead`, of the one
    before that: then the partner's copy may come after the news that it is older than.
    """

    def __init__(
        self,
        posts: Sequence[Post],
        webhooks: Sequence[Webhook],
        pause: float,
        partners: Sequence["Sender"],
        ahead: int = 0,
    ) -> None:
        """`posts` are the replicas' addresses, tried in turn as a load balancer does; `pause` is in seconds."""
        super().__init__(daemon=True)
        self._posts = posts
        self._webhooks = webhooks
        self._pause = pause
        self._partners = partners
        self._before = _before_in_group(webhooks, ahead + 1)
        self._attempts = 0
        self.stopping = threading.Event()
        self.told: set[int] = set()
        self.taken = 0
        self.refused: list[tuple[int, str]] = []

    def run(self) -> None:
        for number, webhook in enumerate(self._webhooks):
            while not self.stopping.is_set():
                if self._others_told(self._before[number]) and self._deliver(webhook):
                    break
                self.stopping.wait(_TRY_AGAIN)
            self.told.add(number)
            self.stopping.wait(self._pause)

    def _others_told(self, number: int | None) -> bool:
        return number is None or all(number in each.told for each in self._partners)

    def _deliver(self, webhook: Webhook) -> bool:
        post = self._posts[self._attempts % len(self._posts)]
        self._attempts += 1
        try:
            status, answer = post(webhook)
        except (OSError, ValueError, http.client.HTTPException):  # none, or cut off in the middle
            return False
        if 400 <= status < 500:  # noqa: PLR2004
            self.refused.append((status, str(answer)))
        self.taken += status == 200  # noqa: PLR2004
        return status < 500  # noqa: PLR2004


def _before_in_group(webhooks: Sequence[Webhook], distance: int) -> list[int | None]:
    """For each webhook the place of the one of its group so many steps earlier."""
    places: dict[str, list[int]] = {}
    found = []
    for number, webhook in enumerate(webhooks):
        mine = places.setdefault(webhook["groupKey"], [])
        found.append(mine[-distance] if len(mine) >= distance else None)
        mine.append(number)
    return found


def poster(url: str, token: str | None = None, seconds: float = 10) -> Post:
    """Posts webhooks to `url` as JSON."""
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"

    def post(webhook: Webhook) -> tuple[int, object]:
        request = urllib.request.Request(url, json.dumps(webhook).encode(), headers)  # noqa: S310 -- loopback
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310 -- as above
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    return post


def group_of(issue: Issue) -> str:
    """The group that an issue is about, by the built-in title."""
    return issue.title.rpartition("g=")[2]


def mistakes(
    issues: Iterable[Issue], lives: Lives, *, unseen_may_resolve: bool = True
) -> list[str]:
    """What differs between what the senders told and what GitHub has; issues closed as duplicates do not count.

    Args:
        issues: All of the repositories; the rollup's are to be left out.
        lives: What the senders told.
        unseen_may_resolve: A group that is over may have no issue: it resolved before anything was done about it.
    """
    found: dict[str, list[Issue]] = {}
    for issue in issues:
        found.setdefault(group_of(issue), [])
        if issue.state_reason != DUPLICATE:
            found[group_of(issue)].append(issue)
    wrong = [f"{name}: not one of ours" for name in found.keys() - lives.fires.keys()]
    for name, firing in lives.fires.items():
        mine = found.get(name, [])
        if mine or firing or not unseen_may_resolve:
            wrong.extend(_mistakes_of_group(name, mine, lives.nodes, firing=firing))
    return wrong


def _mistakes_of_group(
    name: str, issues: Sequence[Issue], nodes: int, *, firing: bool
) -> Iterable[str]:
    wanted = "open" if firing else "closed"
    states = [issue.state for issue in issues]
    if states != [wanted]:
        yield f"{name}: {states or 'lost'}, should be one that is {wanted}"
    elif firing and not all(f"n{number}" in (issues[0].body or "") for number in range(nodes)):
        yield f"{name}: a member is lost"


def repaired(issues: Iterable[Issue]) -> int:
    """How many duplicates there were and were closed as such."""
    return Counter(issue.state_reason for issue in issues)[DUPLICATE]


def settled(check: Callable[[], Sequence[str]], *, steady: float, patience: float) -> list[str]:
    """The mistakes that are left when there were none for `steady` seconds, or `patience` seconds are over."""
    right_since: float | None = None
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if check():
            right_since = None
        elif right_since is None:
            right_since = time.monotonic()
        elif time.monotonic() - right_since > steady:
            return []
        time.sleep(0.2)
    return list(check())
