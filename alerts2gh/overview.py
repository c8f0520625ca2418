"""How things stand, put together from the store for the admin: the API's answers, the commands' words, the page.

The commands read the same from a running service or from the database, so it stands below both. It changes nothing,
except that `requeue` does what it says.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict

from alerts2gh.incident import Incident
from alerts2gh.issue_plan import Step
from alerts2gh.ports import BudgetState, DeadLetter, Lease, Refusal, Store
from alerts2gh.report import Report, report
from alerts2gh.write_budget import settle, usage

MAX_DAYS = 400


class _Answer(BaseModel):
    """JSON between versions: what a reader does not know, it leaves."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_timedelta="float")


class BudgetUse(_Answer):
    """What a credential has written, and until when GitHub wants silence (None: it does not)."""

    writes_last_minute: int
    writes_last_hour: int
    content_last_hour: int
    blocked_until: datetime | None
    blocked_reason: str


class Standing(_Answer):
    """GET /v1/status.

    `sight` is whether the Alertmanagers could be relied on when they were compared last; None before that, without
    `alertmanagers`, and when read from the database. So is `config_last_reload_ok` in the last case.
    """

    version: str
    at: datetime
    counts: Mapping[str, int]
    oldest_waiting_seconds: float | None
    budgets: Mapping[str, BudgetUse]
    refusals: tuple[Refusal, ...]
    leases: tuple[Lease, ...]
    sight: str | None = None
    config_last_reload_ok: bool | None = None
    config_mistakes: tuple[str, ...] = ()


class DeadLetters(_Answer):
    """GET /v1/dead-letters."""

    dead_letters: tuple[DeadLetter, ...]


class Requeued(_Answer):
    """POST /v1/dead-letters/requeue: how many were asked for, and how many of them there were."""

    asked: int
    revived: int


class ReportAnswer(_Answer):
    """GET /v1/report."""

    report: Report


@dataclass(frozen=True, slots=True)
class IncidentLine:
    """An incident for a list. `step` is what comes next for it, with the reason; None when that is not asked."""

    id: str
    title: str
    repository: str
    route: str
    issue_number: int | None
    issue_url: str
    assignees: tuple[str, ...]
    since: datetime
    firing: int
    members: int
    closed_at: datetime | None = None
    closed_by: str = ""
    step: Step | None = None


def standing(store: Store, credentials: Iterable[str], now: datetime, version: str) -> Standing:
    """Everything of it that the database knows."""
    oldest = store.oldest_waiting()
    return Standing(
        version=version,
        at=now,
        counts=dict(store.counts()),
        oldest_waiting_seconds=None if oldest is None else max(0.0, (now - oldest).total_seconds()),
        budgets={name: budget_use(store.load_budget(name), now) for name in credentials},
        refusals=store.refusals(),
        leases=tuple(each for each in store.leases() if each.expires_at > now),
    )


def budget_use(state: BudgetState, now: datetime) -> BudgetUse:
    state = settle(state, now)
    used = usage(state, now)
    blocked = state.blocked_until is not None and state.blocked_until > now
    return BudgetUse(
        writes_last_minute=used.writes_minute,
        writes_last_hour=used.writes_hour,
        content_last_hour=used.content_hour,
        blocked_until=state.blocked_until if blocked else None,
        blocked_reason=state.blocked_reason if blocked else "",
    )


def requeue(store: Store, ids: Sequence[int] | None, now: datetime) -> Requeued:
    """Bring dead letters back to work; all of them when `ids` is None."""
    wanted = {letter.id for letter in store.dead_letters()} if ids is None else set(ids)
    return Requeued(asked=len(wanted), revived=store.requeue(sorted(wanted), now))


def report_of(store: Store, days: int, now: datetime) -> ReportAnswer:
    """What fired in the last `days` days (1 to MAX_DAYS)."""
    since = now - timedelta(days=days)
    return ReportAnswer(report=report(store.episodes(since), since, now))


def incident_line(incident: Incident, plan: Callable[[Incident], Step] | None) -> IncidentLine:
    """One incident; `plan` gives its next step."""
    issue = incident.issue
    target = incident.disposition.target
    named = ", ".join(f"{name}={value}" for name, value in sorted(incident.labels.items()))
    firing = incident.firing
    return IncidentLine(
        id=incident.id,
        title=(issue.title if issue else "") or named,
        repository=issue.repository if issue else target.full_name,
        route=incident.disposition.route,
        issue_number=issue.number if issue else None,
        issue_url=issue.url if issue else "",
        assignees=issue.assignees if issue else (),
        since=min((m.starts_at for m in firing), default=incident.first_seen_at),
        firing=len(firing),
        members=len(incident.members),
        closed_at=issue.closed_at if issue else None,
        closed_by=(issue.closed_by or "") if issue else "",
        step=plan(incident) if plan else None,
    )
