"""A store and a GitHub in memory, for properties that need thousands of lives: the rules that matter, and no more.

The real ones are held to the same property with fewer examples.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import orjson
import structlog
from prometheus_client import CollectorRegistry

from alerts2gh.config import IssuePolicy, Recovery, StormPolicy, WriteLimits
from alerts2gh.incident import (
    DeliveryPart,
    Disposition,
    Incident,
    IssueState,
    Target,
    incident_id,
    label_key,
)
from alerts2gh.metrics import WorkerMetrics
from alerts2gh.ports import (
    Answer,
    BudgetState,
    Outcome,
    StoreConflictError,
    TrackedComment,
    TrackedIssue,
)
from alerts2gh.worker import Assigner, Budgets, Clerk, Desk, Looker
from chassis.alertmanager import Webhook, parse_webhook
from tests.alerts2gh.crashing import CrashPoints
from tests.alerts2gh.pace import Clock, Pace
from tests.alerts2gh.world import RENDERER
from tests.alerts2gh.world import webhook as webhook_of

TARGET = Target("main", "acme", "alerts")
LOGIN = "bot"
POLICY = IssuePolicy()
LIMITS = WriteLimits(
    writes_per_second=1000,
    writes_per_minute=100_000,
    writes_per_hour=100_000,
    content_per_minute=100_000,
    content_per_hour=100_000,
)


class MemoryStore:
    """Incidents and parts in dictionaries."""

    def __init__(self) -> None:
        self._incidents: dict[str, Incident] = {}
        self._wakes: dict[str, datetime | None] = {}
        self._parts: dict[int, DeliveryPart] = {}
        self._last = 0
        self._budgets: dict[str, BudgetState] = {}
        self.letters: list[str] = []

    def accept(self, parts: Sequence[DeliveryPart]) -> None:
        for part in parts:
            self._last += 1
            self._parts[self._last] = part

    def lease_targets(self, _owner: str, _now: datetime, _ttl: timedelta) -> tuple[str, ...]:
        return (TARGET.key,)

    def due(self, _key: str, now: datetime, _limit: int) -> tuple[str, ...]:
        woken = [i for i, at in self._wakes.items() if at is not None and at <= now]
        ids = dict.fromkeys([*(p.incident_id for p in self._parts.values()), *woken])
        return tuple(ids)

    def next_wake(self, _key: str) -> datetime | None:
        return min(filter(None, self._wakes.values()), default=None)

    def load(self, name: str) -> tuple[Incident | None, tuple[tuple[int, DeliveryPart], ...]]:
        parts = tuple((n, p) for n, p in self._parts.items() if p.incident_id == name)
        return self._incidents.get(name), parts

    def save(
        self,
        incident: Incident,
        *,
        folded: Sequence[int] = (),
        wake_at: datetime | None,
        **_more: Any,
    ) -> Incident:
        known = self._incidents.get(incident.id)
        if (known.version if known else 0) != incident.version:
            raise StoreConflictError
        saved = replace(incident, version=incident.version + 1)
        self._incidents[incident.id] = saved
        self._wakes[incident.id] = wake_at
        for number in folded:
            self._parts.pop(number, None)
        return saved

    def load_budget(self, credential: str) -> BudgetState:
        return self._budgets.get(credential, BudgetState())

    def save_budget(self, credential: str, state: BudgetState) -> None:
        self._budgets[credential] = state

    def bury(self, _incident: str | None, _target: str, reason: str, *_rest: Any) -> int:
        self.letters.append(reason)
        return len(self.letters)

    def incidents(self, **_: Any) -> tuple[Incident, ...]:
        return tuple(self._incidents.values())

    def __getattr__(self, name: str) -> Any:
        """Anything else finds nothing."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_args, **_kwargs: ()


class MemoryGitHub:
    """Issues and comments in lists; every request succeeds."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.issues: list[TrackedIssue] = []
        self.comments: dict[int, list[TrackedComment]] = {}

    def login(self) -> Answer[str]:
        return Answer(Outcome.DONE, LOGIN)

    def create_issue(
        self, target: Target, title: str, body: str, labels: Sequence[str], _milestone: str | None
    ) -> Answer[TrackedIssue]:
        number, now = len(self.issues) + 1, self.clock()
        url = f"https://github.example/{target.full_name}/issues/{number}"
        issue = TrackedIssue(
            number, url, target.full_name, title, body, IssueState.OPEN, None, LOGIN, None, None,
            now, now, tuple(labels),
        )  # fmt: skip
        self.issues.append(issue)
        return Answer(Outcome.DONE, issue)

    def get_issue(self, _target: Target, number: int, _etag: str = "") -> Answer[TrackedIssue]:
        return Answer(Outcome.DONE, self.issues[number - 1])

    def edit_issue(self, _target: Target, number: int, **fields: Any) -> Answer[TrackedIssue]:
        given = {name: value for name, value in fields.items() if value is not None}
        closing = given.get("state") is IssueState.CLOSED
        if "state" in given:
            given |= {"closed_at": self.clock() if closing else None}
            given |= {"closed_by": LOGIN if closing else None}
        self.issues[number - 1] = replace(self.issues[number - 1], **given)
        return Answer(Outcome.DONE, self.issues[number - 1])

    def list_issues(
        self, _target: Target, *, label: str, since: object, state: str = "all"
    ) -> Answer[tuple[TrackedIssue, ...]]:
        del since  # what is newer than asked for does no harm
        found = (i for i in self.issues if state in ("all", i.state.value))
        return Answer(Outcome.DONE, tuple(i for i in found if not label or label in i.labels))

    def add_comment(self, _target: Target, number: int, body: str) -> Answer[TrackedComment]:
        known = self.comments.setdefault(number, [])
        known.append(TrackedComment(len(known), "", LOGIN, body, self.clock()))
        return Answer(Outcome.DONE, known[-1])

    def list_comments(
        self, _target: Target, number: int, _since: datetime | None
    ) -> Answer[tuple[TrackedComment, ...]]:
        return Answer(Outcome.DONE, tuple(self.comments.get(number, ())))

    def add_labels(
        self, _target: Target, number: int, labels: Sequence[str]
    ) -> Answer[tuple[str, ...]]:
        return self._label(number, {*self.issues[number - 1].labels, *labels})

    def remove_label(self, _target: Target, number: int, label: str) -> Answer[tuple[str, ...]]:
        return self._label(number, {*self.issues[number - 1].labels} - {label})

    def _label(self, number: int, labels: Iterable[str]) -> Answer[tuple[str, ...]]:
        self.issues[number - 1] = replace(self.issues[number - 1], labels=tuple(labels))
        return Answer(Outcome.DONE, self.issues[number - 1].labels)


class TwinWorld(Pace):
    """As World, in memory; webhooks go by their group labels to one repository."""

    def __init__(self, policy: IssuePolicy = POLICY) -> None:
        self.clock = Clock()
        self.github = MemoryGitHub(self.clock)
        self.memory = MemoryStore()
        self.points = CrashPoints()
        self.owner = "twin"
        self._policy = policy
        self.restart()

    def restart(self) -> None:
        """Nothing but the store is kept."""
        self.forget()
        log = structlog.wrap_logger(structlog.ReturnLogger())
        self.store = self.points.store(self.memory)
        self.clerk = Clerk(
            Desk(
                store=self.store,
                trackers={"main": self.points.tracker(self.github)},
                budgets=Budgets(self.store, LIMITS),
                renderer=RENDERER,
                assigner=Assigner(log),
                looker=Looker("alerts2gh", (), timedelta(days=7), lambda _: "", log),
                recovery=Recovery(),
                storm=StormPolicy(enabled=False),
                fallback=None,
                metrics=WorkerMetrics(CollectorRegistry()),
                log=log,
                clock=self.clock,
                owner=self.owner,
            )
        )

    def accept_alerts(self, *alerts: Mapping[str, Any], **more: Any) -> None:
        self.take(parse_webhook(orjson.dumps(webhook_of(*alerts, **more))))

    def take(self, webhook: Webhook) -> None:
        self.memory.accept([part_of(webhook, self.clock(), self._policy)])

    def open_issues(self) -> list[TrackedIssue]:
        return [issue for issue in self.github.issues if issue.state is IssueState.OPEN]

    def issues(self) -> list[TrackedIssue]:
        return self.github.issues


def part_of(webhook: Webhook, now: datetime, policy: IssuePolicy) -> DeliveryPart:
    """A webhook whose group is one incident."""
    labels: Mapping[str, str] = webhook.group_labels
    return DeliveryPart(
        incident_id=incident_id(TARGET, labels),
        label_key=label_key(labels),
        disposition=Disposition(TARGET, "root", policy, issue_labels=("alerts2gh",)),
        labels=labels,
        alerts=webhook.alerts,
        received_at=now,
        group_labels=labels,
        group_key=webhook.group_key,
        truncated=webhook.truncated_alerts,
    )
