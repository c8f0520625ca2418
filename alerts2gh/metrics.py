"""Every metric of alerts2gh, in one place; docs/metrics.md is compared with it by a test. No I/O."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from alerts2gh.issue_plan import Reason, Step
from alerts2gh.ports import Answer, BudgetState, Outcome, RateLimit
from alerts2gh.reconciliation import SightReason
from alerts2gh.routing import UnroutedReason
from chassis.alertmanager import AlertStatus, WebhookProblem
from chassis.errors import TemporaryError


class WebhookMetrics:
    """What came in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._webhooks = Counter(
            "alerts2gh_webhooks",
            "Webhooks taken or refused, by reason; reason is accepted for those taken.",
            ["reason"],
            registry=registry,
        )
        self._alerts = Counter(
            "alerts2gh_alerts", "Alerts in the webhooks taken.", ["status"], registry=registry
        )
        self._accept = Histogram(
            "alerts2gh_accept_seconds",
            "From a parsed webhook to its durable commit.",
            registry=registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5),
        )
        # A counter that appears with its first event has no increase that a rule could see.
        for reason in ("accepted", "too_large", *WebhookProblem, *UnroutedReason):
            self._webhooks.labels(str(reason))
        for status in AlertStatus:
            self._alerts.labels(status.value)

    def accepted(self, alerts: Mapping[str, int], seconds: float) -> None:
        self._webhooks.labels("accepted").inc()
        self._accept.observe(seconds)
        for status, count in alerts.items():
            self._alerts.labels(status).inc(count)

    def refused(self, reason: str) -> None:
        self._webhooks.labels(reason).inc()


class TimelineMetrics:
    """What the remediator told."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._entries = Counter(
            "alerts2gh_timeline_entries",
            "Entries of node operations that were taken, new or known already.",
            ["kind"],
            registry=registry,
        )
        self._refused = Counter(
            "alerts2gh_timeline_refused",
            "Posts to /v1/timeline that were refused.",
            registry=registry,
        )
        for kind in ("new", "known"):
            self._entries.labels(kind)

    def accepted(self, new: int, known: int) -> None:
        self._entries.labels("new").inc(new)
        self._entries.labels("known").inc(known)

    def refused(self) -> None:
        self._refused.inc()


class WorkerMetrics:
    """What was done to GitHub."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._writes = Counter(
            "alerts2gh_issue_writes",
            "Writes to GitHub issues by action, the reason for it, and what came of it.",
            ["action", "reason", "outcome"],
            registry=registry,
        )
        self._dead = Counter(
            "alerts2gh_dead_letters_made",
            "Incidents that went to the dead letters, by GitHub's outcome.",
            ["reason"],
            registry=registry,
        )
        self._surprises = Counter(
            "alerts2gh_worker_errors",
            "Turns of the worker that failed, by where.",
            ["where"],
            registry=registry,
        )
        self._storm = Counter(
            "alerts2gh_storm_news",
            "What rollup issues were told of the incidents of a storm.",
            ["reason"],
            registry=registry,
        )
        for reason in (Reason.ROLLED_UP, Reason.STORM_OVER, Reason.SPLIT_FROM_ROLLUP):
            self._storm.labels(reason.value)
        for where in ("store", "worker"):
            self._surprises.labels(where)
        for outcome in Outcome:
            self._dead.labels(outcome.value)

    def wrote(self, step: Step, answer: Answer[object]) -> None:
        self._writes.labels(step.action.value, step.reason.value, answer.outcome.value).inc()

    def storm(self, step: Step) -> None:
        self._storm.labels(step.reason.value).inc()

    def dead_letter(self, outcome: Outcome) -> None:
        self._dead.labels(outcome.value).inc()

    def surprise(self, where: str) -> None:
        self._surprises.labels(where).inc()


class ReconcileMetrics:
    """What comparing with the Alertmanagers came to."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._turns = Counter(
            "alerts2gh_reconcile_turns",
            "Comparisons with the Alertmanagers, by whether their answers could be relied on.",
            ["sight"],
            registry=registry,
        )
        for reason in SightReason:
            self._turns.labels(reason.value)
        self._made_up = Counter(
            "alerts2gh_reconciled_alerts",
            "Alerts taken as resolved because every Alertmanager had forgotten them.",
            registry=registry,
        )

    def turned(self, reason: SightReason) -> None:
        self._turns.labels(reason.value).inc()

    def made_up(self, alerts: int) -> None:
        self._made_up.inc(alerts)


class GitHubMetrics:
    """Every request to GitHub and what its headers say of the limits."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "alerts2gh_github_requests",
            "Requests to GitHub by endpoint and status; status is none when no answer came.",
            ["credential", "endpoint", "status"],
            registry=registry,
        )
        self._limit = Gauge(
            "alerts2gh_github_rate_limit",
            "GitHub's limit of requests in its window.",
            ["credential", "resource"],
            registry=registry,
        )
        self._remaining = Gauge(
            "alerts2gh_github_rate_remaining",
            "Requests left in GitHub's window.",
            ["credential", "resource"],
            registry=registry,
        )

    def response(
        self, credential: str, endpoint: str, status: int | None, rate: RateLimit | None
    ) -> None:
        self._requests.labels(credential, endpoint, str(status) if status else "none").inc()
        if rate is not None:
            self._limit.labels(credential, rate.resource).set(rate.limit)
            self._remaining.labels(credential, rate.resource).set(rate.remaining)


class StateCollector(Collector):
    """What is in the store, read when scraped, so that no gauge goes stale."""

    def __init__(
        self,
        counts: Callable[[], Mapping[str, int]],
        budgets: Callable[[], Mapping[str, BudgetState]],
        oldest_waiting: Callable[[], datetime | None],
        now: Callable[[], datetime],
    ) -> None:
        self._counts = counts
        self._oldest_waiting = oldest_waiting
        self._budgets = budgets
        self._now = now

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return ()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Read the store; while it cannot be read these families are absent and all others still there."""
        try:
            return tuple(self._read())
        except TemporaryError:
            return ()

    def _read(self) -> Iterable[GaugeMetricFamily]:
        state = GaugeMetricFamily(
            "alerts2gh_stored",
            "Things in the store by kind: incidents by state, parts waiting to be folded, dead letters.",
            labels=["kind"],
        )
        for kind, count in self._counts().items():
            state.add_metric([kind], count)
        yield state
        now = self._now()
        oldest = self._oldest_waiting()
        yield GaugeMetricFamily(
            "alerts2gh_oldest_delivery_seconds",
            "How long the oldest delivery that is not worked on yet has waited; 0 when none waits.",
            value=max(0.0, (now - oldest).total_seconds()) if oldest else 0.0,
        )
        blocked = GaugeMetricFamily(
            "alerts2gh_github_blocked_seconds",
            "For how much longer GitHub asked a credential to be silent; 0 when it did not.",
            labels=["credential"],
        )
        writes = GaugeMetricFamily(
            "alerts2gh_github_writes_last_hour",
            "Writes of a credential in the last hour, as the budget counts them.",
            labels=["credential"],
        )
        for credential, budget in self._budgets().items():
            until = budget.blocked_until
            blocked.add_metric(
                [credential], max(0.0, (until - now).total_seconds()) if until else 0.0
            )
            writes.add_metric([credential], len(budget.writes))
        yield blocked
        yield writes
