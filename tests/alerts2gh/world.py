"""A small world in one process: a clock that tests move, the sandbox GitHub, the real store, and everything between.

`deliver` is an Alertmanager's webhook, `settle` works until nothing is due, `advance` lets time pass. The world can
be restarted, and crashed at any write to GitHub and any commit.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
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
from alerts2gh.ports import Tracker
from alerts2gh.rendering import Renderer, builtin_templates
from alerts2gh.routing import Router
from alerts2gh.webhook import Intake
from alerts2gh.worker import Assigner, Budgets, Clerk, Desk, Looker
from chassis.config import load_settings
from sandbox.github_server import Human, SandboxGitHub
from sandbox.github_server.model import Comment, Issue
from sandbox.github_server.request_log import LogEntry
from tests.alerts2gh.crashing import CrashPoints
from tests.alerts2gh.pace import NOON, Clock, Pace
from tests.alerts2gh.store_builders import open_migrated

HOME, FALLBACK, OTHER = "acme/alerts", "acme/fallback", "acme/other"
RENDERER = Renderer(builtin_templates())
"""One for all worlds: nothing in it changes, and compiling it takes longer than many a test."""


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
        self.forget()
        config = configuration(self.folder, self.github.url, self._changes)
        self._store = open_migrated(config.database, now=self.clock)
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
            renderer=RENDERER,
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
