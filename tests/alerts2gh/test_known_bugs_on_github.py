"""Bugs that others had in public, judged by what is on the embedded GitHub afterwards; see tests/known_bugs.yaml."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from alerts2gh.config import (
    AssigneeSource,
    Config,
    Database,
    Recovery,
    StaticAssignees,
    StormPolicy,
    WriteLimits,
)
from alerts2gh.github_tracker import GitHubTracker
from alerts2gh.incident import DeliveryPart, Incident, IssueState
from alerts2gh.metrics import WebhookMetrics, WorkerMetrics
from alerts2gh.ports import StoreConflictError, TrackedIssue
from alerts2gh.routing import Router
from alerts2gh.store import SQLStore
from alerts2gh.webhook import Intake
from alerts2gh.worker import Assigner, Budgets, Clerk, Desk, Looker
from chassis.telemetry import get_logger
from sandbox.github_server import Fault, FaultKind, SandboxGitHub
from tests.alerts2gh.builders import NOW, TARGET, a_disposition, a_part, an_alert
from tests.alerts2gh.github_peers import TOKEN, tracking
from tests.alerts2gh.store_builders import open_migrated
from tests.alerts2gh.world import RENDERER

HOUR = timedelta(hours=1)
LOG = get_logger("test")
# No write waits for another: the clock of these tests stands still.
FAST = WriteLimits(writes_per_second=1e9, writes_per_minute=10_000, content_per_minute=10_000)
PAYLOADS = Path(__file__).parents[1] / "payloads"


class Clock:
    """Stands until it is told to go on."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


class Office:
    """A store, a tracker and clerks, moved by hand: deliver, work, let time pass."""

    def __init__(self, store: SQLStore, tracker: GitHubTracker, clock: Clock) -> None:
        self.store = store
        self.tracker = tracker
        self.clock = clock
        self.looker = Looker("alerts2gh", (), timedelta(days=7), lambda _: "", LOG)
        self._budgets = Budgets(store, FAST)
        self._metrics = WorkerMetrics(CollectorRegistry())

    def clerk(self, owner: str) -> Clerk:
        return Clerk(
            Desk(
                store=self.store,
                trackers={"main": self.tracker},
                budgets=self._budgets,
                renderer=RENDERER,
                assigner=Assigner(LOG),
                looker=self.looker,
                recovery=Recovery(),
                storm=StormPolicy(),
                fallback=None,
                metrics=self._metrics,
                log=LOG,
                clock=self.clock,
                owner=owner,
            )
        )

    def deliver(self, *parts: DeliveryPart) -> None:
        self.store.accept(parts)

    def work(self, incident_id: str, owner: str = "one") -> None:
        """Take step after step until nothing more can be done now; what another holds is left alone."""
        if not self.store.lease_targets(owner, self.clock(), HOUR):
            return
        clerk = self.clerk(owner)
        for _ in range(30):
            try:
                worked = clerk.work(incident_id)
            except StoreConflictError:
                continue
            if worked is None or not worked.again:
                return

    def issues(self) -> tuple[TrackedIssue, ...]:
        return self.tracker.list_issues(TARGET, label="alerts2gh", since=None).value or ()

    def incident(self, incident_id: str) -> Incident:
        incident, _ = self.store.load(incident_id)
        assert incident is not None
        return incident


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def github(clock: Clock) -> Iterator[SandboxGitHub]:
    with SandboxGitHub(repositories=("acme/alerts",), token=TOKEN, clock=clock) as running:
        yield running


@pytest.fixture
def office(tmp_path: Path, github: SandboxGitHub, clock: Clock) -> Iterator[Office]:
    store = open_migrated(Database(sqlite_file=tmp_path / "alerts2gh.db"), now=clock)
    with tracking(tmp_path, github.url, now=clock) as (tracker, _):
        yield Office(store, tracker, clock)
    store.close()


def test_the_same_firing_at_the_same_time_is_one_issue(office: Office) -> None:
    part = a_part(an_alert())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: office.deliver(part), range(8)))
        list(pool.map(lambda n: office.work(part.incident_id, f"replica {n}"), range(8)))

    assert len(office.issues()) == 1


def test_a_reopened_issue_says_what_is_true_now_in_the_same_request(
    office: Office, github: SandboxGitHub, clock: Clock
) -> None:
    first = a_part(an_alert())
    office.deliver(first)
    office.work(first.incident_id)
    office.deliver(a_part(an_alert(firing=False)))
    office.work(first.incident_id)
    clock.now += HOUR
    office.work(first.incident_id)
    assert [issue.state for issue in office.issues()] == [IssueState.CLOSED]

    seen = len(github.log())
    clock.now += HOUR
    other = an_alert("gpu-n2", starts_at=clock.now, annotations={"summary": "another thing"})
    office.deliver(replace(a_part(other), received_at=clock.now))
    office.work(first.incident_id)
    patches = [entry for entry in github.log()[seen:] if entry.method == "PATCH"]

    (issue,) = office.issues()
    assert (issue.state, len(patches)) == (IssueState.OPEN, 1)
    assert "another thing" in issue.body


def test_whom_github_does_not_assign_is_passed_over_and_named(
    office: Office, github: SandboxGitHub
) -> None:
    github.state.add_user("stranger")
    chain = tuple(
        AssigneeSource(static=StaticAssignees(logins=(login,)))
        for login in ("does-not-exist", "stranger", "bob")
    )
    part = a_part(an_alert(), disposition=a_disposition(assignees=chain))
    office.deliver(part)
    office.work(part.incident_id)

    (issue,) = office.issues()
    assert issue.assignees == ("bob",)
    assert "stranger" in issue.body
    assert "does-not-exist" in issue.body


def test_of_two_issues_the_newer_is_closed_and_not_a_word_of_it_changed(
    office: Office, github: SandboxGitHub, clock: Clock
) -> None:
    part = a_part(an_alert())
    office.deliver(part)
    office.work(part.incident_id)
    (older,) = office.issues()
    office.tracker.create_issue(TARGET, "the same again", older.body, ["alerts2gh"], None)
    theirs = f"{older.body}\n\nWhat a person found out."
    github.human("alice").edit("acme/alerts", 2, body=theirs)

    incident = replace(office.incident(part.incident_id), audit_at=clock())
    office.store.save(incident, wake_at=clock(), owner="one")
    office.work(part.incident_id)

    newer, kept = office.issues()
    assert (kept.number, kept.state, newer.state) == (1, IssueState.OPEN, IssueState.CLOSED)
    assert (kept.body, newer.body) == (older.body, theirs)
    (comment,) = office.tracker.list_comments(TARGET, 2, None).value or ()
    assert "#1" in comment.body


def test_an_outage_of_github_for_hours_costs_no_alert(
    office: Office, github: SandboxGitHub, clock: Clock
) -> None:
    part = a_part(an_alert())
    github.state.faults.add(Fault(FaultKind.ERROR, status=503))
    office.deliver(part)
    for _ in range(20):
        office.work(part.incident_id)
        clock.now += timedelta(minutes=20)
    assert office.store.dead_letters() == ()
    assert office.incident(part.incident_id).issue is None

    github.state.faults.clear()
    for _ in range(5):
        office.work(part.incident_id)
        clock.now += timedelta(minutes=20)

    assert [issue.state for issue in office.issues()] == [IssueState.OPEN]


@pytest.fixture
def intake(tmp_path: Path, office: Office, clock: Clock) -> Intake:
    values: dict[str, Any] = {
        "database": {"sqlite_file": "alerts2gh.db"},
        "credentials": {"main": {"token_file": str(tmp_path / "token")}},
        "allowed_repositories": ["acme/alerts"],
        "route": {"repository": "acme/alerts"},
    }
    router = Router(Config.model_validate(values))
    poked: Callable[[], None] = lambda: None  # noqa: E731 - nobody works in this test
    return Intake(
        store=office.store,
        router=lambda: router,
        fallback=lambda: None,
        search_label=lambda: "alerts2gh",
        poke=poked,
        clock=clock,
        metrics=WebhookMetrics(CollectorRegistry()),
        log=LOG,
    )


def test_a_webhook_is_taken_without_a_word_to_github(
    intake: Intake, office: Office, github: SandboxGitHub
) -> None:
    body = (PAYLOADS / "firing.json").read_bytes()

    assert json.loads(body)["status"] == "firing"
    assert intake.take(body, {}) == 1
    assert github.log() == []
    assert office.store.backlog() == 1
