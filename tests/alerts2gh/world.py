"""A small world in one process: a clock that tests move, the sandbox GitHub, the real store, and everything between.

`deliver` is an Alertmanager's webhook, `settle` works until nothing is due, `advance` lets time pass. The world can
be restarted, and crashed at any write to GitHub and any commit.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import orjson
import structlog
import yaml
from prometheus_client import CollectorRegistry

from alerts2gh.config import Config
from alerts2gh.github_tracker import GitHubTracker
from alerts2gh.incident import Incident
from alerts2gh.metrics import WebhookMetrics, WorkerMetrics
from alerts2gh.parts import fallback_target, foreign_id
from alerts2gh.ports import Store, StoreConflictError, Tracker
from alerts2gh.rendering import Renderer, builtin_templates
from alerts2gh.routing import Router
from alerts2gh.store import open_store
from alerts2gh.webhook import Intake
from alerts2gh.worker import Assigner, Budgets, Clerk, Desk, Looker
from chassis.config import load_settings
from sandbox.github_server import Human, SandboxGitHub
from sandbox.github_server.model import Comment, Issue
from sandbox.github_server.request_log import LogEntry
from tests.alerts2gh.crashing import CrashPoints

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOME, FALLBACK, OTHER = "acme/alerts", "acme/fallback", "acme/other"
LEASE = timedelta(minutes=5)
_HOP = timedelta(seconds=2)
_MOST_TURNS = 400


class Clock:
    """Stands still until it is moved."""

    def __init__(self, at: datetime = NOON) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at


def alert(
    node: str = "gpu-n1",
    *,
    firing: bool = True,
    starts_at: datetime = NOON,
    annotations: Mapping[str, str] | None = None,
    **labels: str,
) -> dict[str, Any]:
    """One alert of a webhook."""
    ends_at = starts_at + timedelta(minutes=1)
    return {
        "status": "firing" if firing else "resolved",
        "labels": {"alertname": "GPURuntimeError", "node": node, **labels},
        "annotations": annotations or {"summary": f"CUDA fails on {node}"},
        "startsAt": starts_at.isoformat(),
        "endsAt": "0001-01-01T00:00:00Z" if firing else ends_at.isoformat(),
        "generatorURL": "http://prometheus.example/graph",
    }


def webhook(
    *alerts: Mapping[str, Any],
    group: Mapping[str, str] | None = None,
    truncated: int = 0,
    **fields: Any,
) -> dict[str, Any]:
    """A webhook of version 4 with these alerts."""
    group = group or {"alertname": "GPURuntimeError"}
    firing = any(each["status"] == "firing" for each in alerts)
    return {
        "version": "4",
        "groupKey": f"{{}}:{group}",
        "truncatedAlerts": truncated,
        "status": "firing" if firing else "resolved",
        "receiver": "alerts2gh",
        "groupLabels": dict(group),
        "commonLabels": dict(group),
        "commonAnnotations": {},
        "externalURL": "http://alertmanager.example:9093",
        "alerts": list(alerts),
    } | fields


def configuration(folder: Path, base_url: str, changes: Mapping[str, Any]) -> Config:
    """A configuration without waits that a test did not ask for; sections in `changes` are merged into it."""
    whole: dict[str, Any] = {
        "database": {"sqlite_file": "alerts2gh.db"},
        "credentials": {"main": {"base_url": base_url, "token_file": "token", "timeout": "5s"}},
        "allowed_repositories": ["acme/*"],
        "fallback_repository": FALLBACK,
        "limits": {
            "writes_per_second": 1000,
            "writes_per_minute": 100_000,
            "writes_per_hour": 100_000,
            "content_per_minute": 100_000,
            "content_per_hour": 100_000,
        },
        "policy": {"close_after": "15m", "reorder_window": "2m"},
        "storm": {"enabled": False},
        "route": {"repository": HOME},
    }
    for key, value in changes.items():
        merged = key != "credentials" and isinstance(value, Mapping) and key in whole
        whole[key] = {**whole[key], **value} if merged else value
    path = folder / "alerts2gh.yaml"
    path.write_text(yaml.safe_dump(whole))
    return load_settings(path, Config)


class Pace:
    """Lets a clerk work and time pass; subclasses set these four."""

    store: Store
    clerk: Clerk
    clock: Clock
    owner: str

    def settle(self) -> None:
        """Work until nothing is due within a second or two (the spacing of writes)."""
        for _ in range(_MOST_TURNS):
            if self._work_on_due():
                continue
            wake = self.next_wake()
            if wake is None or wake > self.clock.at + _HOP:
                return
            self.clock.at = max(wake, self.clock.at)
        raise AssertionError("the worker does not come to rest")

    def _work_on_due(self) -> bool:
        worked = False
        for key in self.store.lease_targets(self.owner, self.clock.at, LEASE):
            ids = self.store.due(key, self.clock.at, 100)
            for incident_id in sorted(ids, key=self.clerk.priority) if len(ids) > 1 else ids:
                with suppress(
                    StoreConflictError
                ):  # as in the work loop: another lease, or saved meanwhile
                    self.clerk.work(incident_id)
                worked = True
        return worked

    def next_wake(self) -> datetime | None:
        keys = self.store.lease_targets(self.owner, self.clock.at, LEASE)
        return min(filter(None, (self.store.next_wake(key) for key in keys)), default=None)

    def advance(self, span: timedelta) -> None:
        """Let time pass, waking at each wake-up on the way."""
        end = self.clock.at + span
        for _ in range(_MOST_TURNS):
            self.settle()
            wake = self.next_wake()
            if wake is None or wake > end:
                self.clock.at = max(end, self.clock.at)
                self.settle()
                return
            self.clock.at = max(wake, self.clock.at)
        raise AssertionError("the worker does not come to rest")


class World(Pace):
    """One alerts2gh and one GitHub. `restart` makes a new alerts2gh on the same database."""

    def __init__(self, folder: Path, github: SandboxGitHub, clock: Clock, **config: Any) -> None:
        self.folder = folder
        self.github = github
        self.clock = clock
        self.points = CrashPoints()
        self._changes = config
        (folder / "token").write_text(github.token)
        self._tracker: GitHubTracker | None = None
        self._store: Any = None
        self.restart()

    # Its parts.

    def restart(self) -> None:
        """Begin anew on the same database, as after a crash: nothing in memory is kept."""
        self.stop()
        config = configuration(self.folder, self.github.url, self._changes)
        self._store = open_store(config.database, now=self.clock)
        self.store = self.points.store(self._store)
        self.owner = "the only one"  # leases are another test's business
        self.use(config)

    def configure(self, **changes: Any) -> None:
        """Reload with other sections."""
        self._changes = {**self._changes, **changes}
        self.use(configuration(self.folder, self.github.url, self._changes))

    def use(self, config: Config) -> None:
        log = structlog.wrap_logger(structlog.ReturnLogger())
        self.config = config
        tracker = GitHubTracker(
            "main",
            next(iter(config.credentials.values())),
            now=self.clock,
            log=log,
            on_response=lambda *_: None,
        )
        if self._tracker is not None:
            self._tracker.close()
        self._tracker = tracker
        wrapped: Tracker = self.points.tracker(tracker)
        desk = Desk(
            store=self.store,
            trackers=dict.fromkeys(config.credentials, wrapped),
            budgets=Budgets(self.store, config.limits),
            renderer=Renderer(builtin_templates()),
            assigner=Assigner(log),
            looker=Looker(
                config.search_label,
                config.adopt_authors,
                config.policy.reopen_window,
                foreign_id,
                log,
            ),
            recovery=config.recovery,
            storm=config.storm,
            fallback=fallback_target(config),
            metrics=WorkerMetrics(CollectorRegistry()),
            log=log,
            clock=self.clock,
            owner=self.owner,
        )
        self.clerk = Clerk(desk)
        router = Router(config)
        self.intake = Intake(
            store=self.store,
            router=lambda: router,
            fallback=lambda: fallback_target(config),
            search_label=lambda: config.search_label,
            poke=lambda: None,
            clock=self.clock,
            metrics=WebhookMetrics(CollectorRegistry()),
            log=log,
        )

    def lose_database(self) -> None:
        """The volume is gone."""
        self.stop()
        for file in self.folder.glob("alerts2gh.db*"):
            file.unlink()
        self.restart()

    def stop(self) -> None:
        if self._tracker is not None:
            self._tracker.close()
            self._tracker = None
        if self._store is not None:
            self._store.close()
            self._store = None

    # What happens to it.

    def deliver(
        self,
        *alerts: Mapping[str, Any],
        query: Mapping[str, Sequence[str]] | None = None,
        **more: Any,
    ) -> int:
        """Take a webhook with these alerts, and settle."""
        taken = self.accept(webhook(*alerts, **more), query)
        self.settle()
        return taken

    def accept(
        self, body: Mapping[str, Any], query: Mapping[str, Sequence[str]] | None = None
    ) -> int:
        """Take a webhook and do nothing yet."""
        return self.intake.take(orjson.dumps(body), query or {})

    def accept_alerts(self, *alerts: Mapping[str, Any], **more: Any) -> int:
        """Take a webhook with these alerts and do nothing yet."""
        return self.accept(webhook(*alerts, **more))

    # What can be seen.

    @property
    def human(self) -> Human:
        return self.github.human("alice")

    def issues(self, repository: str = HOME) -> list[Issue]:
        """All issues of a repository, oldest first."""
        found = self.github.state.issues.in_group(str(self.github.state.repository(repository).id))
        return sorted(found, key=lambda issue: issue.number)

    def open_issues(self, repository: str = HOME) -> list[Issue]:
        return [issue for issue in self.issues(repository) if issue.state == "open"]

    def issue(self, number: int = 1, repository: str = HOME) -> Issue:
        return next(issue for issue in self.issues(repository) if issue.number == number)

    def comments(self, number: int = 1, repository: str = HOME) -> list[Comment]:
        group = f"{self.github.state.repository(repository).id}/{number}"
        return self.github.state.comments.in_group(group)

    def states(self, repository: str = HOME) -> list[str]:
        return [issue.state for issue in self.issues(repository)]

    def effects(self, method: str = "", ending: str = "") -> list[LogEntry]:
        """The requests that changed an issue."""
        return [
            entry
            for entry in self.github.log()
            if entry.took_effect and method in entry.method and entry.path.endswith(ending)
        ]

    def incident(self) -> Incident:
        """The only incident."""
        (only,) = self.store.incidents()
        return only


@contextmanager
def a_world(
    folder: Path,
    *,
    repositories: Sequence[str] = (HOME, FALLBACK, OTHER),
    people: Sequence[str] = ("alice", "bob"),
    **config: Any,
) -> Iterator[World]:
    """A world whose configuration has these sections changed."""
    clock = Clock()
    github = SandboxGitHub(repositories=repositories, people=people, clock=clock)
    _date_by(clock, github)
    with github:
        world = World(folder, github, clock, **config)
        try:
            yield world
        finally:
            world.stop()


def _date_by(clock: Clock, github: SandboxGitHub) -> None:
    """Let the Date header tell the world's time: waits are worked out from it."""
    handler: Any = github._server.RequestHandlerClass

    class Dated(handler):  # type: ignore[misc]  # the base is known at run time only
        def date_time_string(self, _timestamp: float | None = None) -> str:
            return format_datetime(clock(), usegmt=True)

    github._server.RequestHandlerClass = Dated
