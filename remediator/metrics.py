"""The metrics of the remediator: names, labels, and how they are counted. Decides nothing.

What is stored in the cluster is told from there at each scrape; every replica tells the same.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from remediator.budgets import BudgetUse
from remediator.gates import GATES
from remediator.operation import CauseKind, NodeOperation, Phase

PREFIX = "remediator"
_PHASE_SECONDS = (1, 5, 15, 60, 300, 900, 1800, 3600, 14400, 86400)
_PASS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class IntakeMetrics:
    """What came in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._faults = Counter(
            "remediator_faults",
            "Alerts and conditions that came in, by what became of them.",
            ("trigger", "result"),
            registry=registry,
        )
        self._refused = Counter(
            "remediator_webhooks_refused",
            "Webhooks that can never be taken, by why.",
            ("reason",),
            registry=registry,
        )

    def fault(self, trigger: str, result: str) -> None:
        """One alert or condition."""
        self._faults.labels(trigger, result).inc()

    def refused(self, reason: str) -> None:
        """One webhook."""
        self._refused.labels(reason).inc()


class ReconcileMetrics:
    """What the leader does."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.leader = Gauge(
            "remediator_leader", "Whether this replica leads (1) or waits (0).", registry=registry
        )
        self.passes = Histogram(
            "remediator_reconcile_seconds",
            "How long one look at one operation took.",
            buckets=_PASS_SECONDS,
            registry=registry,
        )
        self._failures = Counter(
            "remediator_reconcile_failures",
            "Looks at an operation that ended with an error, by kind; each is tried again.",
            ("kind",),
            registry=registry,
        )
        self._effects = Counter(
            "remediator_effects",
            "Effects on the cluster, by kind and whether the API took them.",
            ("effect", "result"),
            registry=registry,
        )
        self._phases = Histogram(
            "remediator_phase_seconds",
            "How long operations stayed in a phase.",
            ("phase",),
            buckets=_PHASE_SECONDS,
            registry=registry,
        )
        self._ended = Counter(
            "remediator_operations_ended",
            "Operations that came to an end, by playbook and outcome.",
            ("playbook", "outcome"),
            registry=registry,
        )

    def failed(self, error: Exception) -> None:
        """A look that ended with an error."""
        self._failures.labels(type(error).__name__).inc()

    def effect(self, effect: object, result: str) -> None:
        """An effect: `done` or `failed`."""
        self._effects.labels(type(effect).__name__, result).inc()

    def moved(self, before: NodeOperation, after: NodeOperation) -> None:
        """A recorded step."""
        old, new = before.status, after.status
        if old.phase is new.phase:
            return
        if old.since is not None and new.since is not None:
            self._phases.labels(old.phase.value).observe((new.since - old.since).total_seconds())
        if new.phase.is_final and new.outcome is not None:
            self._ended.labels(after.spec.playbook, new.outcome.value).inc()


class TimelineMetrics:
    """What alerts2gh was told."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._entries = Counter(
            "remediator_timeline_entries",
            "Timeline entries for alerts2gh: told, refused for good, or to be tried again.",
            ("result",),
            registry=registry,
        )

    def entries(self, result: str, number: int) -> None:
        """Some entries."""
        self._entries.labels(result).inc(number)


class StateCollector(Collector):
    """What stands in the cluster now."""

    def __init__(
        self,
        operations: Callable[[], Sequence[NodeOperation]],
        unreadable: Callable[[], int],
        budgets: Callable[[], Iterable[BudgetUse]],
        switches: Callable[[], tuple[bool, bool]],
        *,
        listed: Callable[[], bool] = lambda: True,
        tells: Callable[[], bool] = lambda: False,
    ) -> None:
        """What is told.

        Args:
            operations: All stored operations that can be read.
            unreadable: How many cannot.
            budgets: The use of all budgets.
            switches: Whether the fleet is paused, and whether the breaker is open.
            listed: Whether the cluster has been listed: before, nothing is told, as none is not known.
            tells: Whether there is an alerts2gh that is told.
        """
        self._listed = listed
        self._tells = tells
        self._operations = operations
        self._unreadable = unreadable
        self._budgets = budgets
        self._switches = switches

    def describe(self) -> list[GaugeMetricFamily]:
        """The families without samples: registering must not ask the cluster."""
        return [
            _operations(()),
            _escalated((), tells=False),
            _deadlines(()),
            _gates(()),
            *_budget_families(()),
            *_single(0, paused=False, broken=False),
        ]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families as of now."""
        if not self._listed():
            return
        operations = self._operations()
        yield _operations(operations)
        yield _escalated(operations, tells=self._tells())
        yield _deadlines(operations)
        yield _gates(operations)
        yield from _budget_families(self._budgets())
        paused, broken = self._switches()
        yield from _single(self._unreadable(), paused=paused, broken=broken)


def _operations(operations: Sequence[NodeOperation]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "remediator_operations",
        "Operations that are stored, by phase and playbook.",
        labels=["phase", "playbook"],
    )
    tally = Tally((each.status.phase.value, each.spec.playbook) for each in operations)
    for labels, number in sorted(tally.items()):
        family.add_metric(labels, number)
    return family


def _escalated(operations: Sequence[NodeOperation], *, tells: bool) -> GaugeMetricFamily:
    """An alert's issue is told of its operation; one without an alert has no issue yet."""
    family = GaugeMetricFamily(
        "remediator_operation_escalated",
        "An operation that waits for a person: always 1.",
        labels=["operation", "node", "playbook", "reason", "in_issue"],
    )
    for each in operations:
        if each.status.phase is not Phase.ESCALATED:
            continue
        told = tells and any(cause.kind is CauseKind.ALERT for cause in each.spec.causes)
        labels = [each.name, each.spec.node, each.spec.playbook, each.status.reason.value]
        family.add_metric([*labels, "true" if told else "false"], 1)
    return family


def _deadlines(operations: Sequence[NodeOperation]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "remediator_operation_deadline_timestamp_seconds",
        "By when the present phase of an operation is to be over.",
        labels=["operation", "node", "playbook", "phase"],
    )
    for each in operations:
        deadline = each.status.deadline
        if each.running and deadline is not None:
            labels = [each.name, each.spec.node, each.spec.playbook, each.status.phase.value]
            family.add_metric(labels, deadline.timestamp())
    return family


def _gates(operations: Sequence[NodeOperation]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "remediator_operations_held",
        "Operations that a gate holds back now.",
        labels=["gate"],
    )
    # Each gate is told, held or not: a series that comes and goes looks as if it had always held.
    tally = Tally(dict.fromkeys(GATES, 0))
    tally.update(
        held.gate
        for each in operations
        if each.running or each.status.phase is Phase.ESCALATED
        for held in each.status.held_by
    )
    for gate, number in sorted(tally.items()):
        family.add_metric([gate], number)
    return family


def _budget_families(uses: Iterable[BudgetUse]) -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
    labels = ["budget", "domain"]
    taken = GaugeMetricFamily(
        "remediator_budget_used", "How much of a budget is out of service now.", labels=labels
    )
    limit = GaugeMetricFamily(
        "remediator_budget_limit", "How much of a budget may be out of service.", labels=labels
    )
    for use in uses:
        taken.add_metric([use.budget, use.domain], use.taken)
        limit.add_metric([use.budget, use.domain], use.limit)
    return taken, limit


def _single(unreadable: int, *, paused: bool, broken: bool) -> list[GaugeMetricFamily]:
    return [
        GaugeMetricFamily(
            "remediator_operations_unreadable",
            "Stored operations that somebody has edited into nonsense.",
            unreadable,
        ),
        GaugeMetricFamily(
            "remediator_paused", "Whether a person has paused the fleet.", int(paused)
        ),
        GaugeMetricFamily(
            "remediator_breaker_open", "Whether the circuit breaker is open.", int(broken)
        ),
    ]
