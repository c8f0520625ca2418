"""The metrics of gpu_admission: what was asked for, what was answered, how fast. Decides nothing.

Names come from the catalogue and classes from its policy, so they are few. Namespaces are as many as
the cluster has; beyond a bound the rest counts as "other", so that nobody can fill the memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpu_admission.demand import DemandRecord
from gpu_admission.gpu_request import Ask

PREFIX = "gpu_admission"
OTHER = "other"
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0)
_MOST_SERIES = 5_000


class ReviewMetrics:
    """What the webhook answered."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reviews = Counter(
            "gpu_admission_reviews",
            "Admission reviews, by endpoint, outcome and why.",
            ("endpoint", "outcome", "reason"),
            registry=registry,
        )
        self._seconds = Histogram(
            "gpu_admission_review_seconds",
            "From the body's last byte to the answer, without TLS.",
            ("endpoint",),
            buckets=_SECONDS,
            registry=registry,
        )
        labels = ("name", "minimum_vram_gb", "class", "namespace", "outcome", "reason")
        self._asks = Counter(
            "gpu_admission_asks",
            "What pods asked for, one count a spec, by what became of the pod.",
            labels,
            registry=registry,
        )
        self._gpus = Counter(
            "gpu_admission_asked_gpus",
            "GPUs in these specs.",
            labels,
            registry=registry,
        )
        # Looking a child up by its labels costs more than the count itself.
        self._kept_asks: dict[tuple[str, ...], tuple[Counter, Counter]] = {}
        self._kept_reviews: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}

    def review(self, endpoint: str, outcome: str, reason: str, seconds: float) -> None:
        """One answer; its labels are few by their nature."""
        labels = (endpoint, outcome, reason)
        kept = self._kept_reviews.get(labels)
        if kept is None:
            kept = self._reviews.labels(*labels), self._seconds.labels(endpoint)
            self._kept_reviews[labels] = kept
        count, durations = kept
        count.inc()
        durations.observe(seconds)

    def refused_body(self, endpoint: str, reason: str) -> None:
        """A body that is no review."""
        self._reviews.labels(endpoint, "refused", reason).inc()

    def asks(
        self, asks: Sequence[Ask], class_name: str, namespace: str, outcome: str, reason: str
    ) -> None:
        """The specs of one pod."""
        for ask in asks:
            count, gpus = self._children(
                (ask.name, str(ask.min_vram_gb), class_name, namespace, outcome, reason)
            )
            count.inc()
            gpus.inc(ask.amount)

    def _children(self, labels: tuple[str, ...]) -> tuple[Counter, Counter]:
        kept = self._kept_asks.get(labels)
        if kept is None:
            if len(self._kept_asks) >= _MOST_SERIES and labels[3] != OTHER:
                return self._children((*labels[:3], OTHER, *labels[4:]))
            kept = self._asks.labels(*labels), self._gpus.labels(*labels)
            self._kept_asks[labels] = kept
        return kept


class ReadinessMetrics:
    """What /readyz says, for rules: it looks when it is scraped."""

    def __init__(
        self, registry: CollectorRegistry, checks: Mapping[str, Callable[[], str | None]]
    ) -> None:
        """A check gives None when all is well."""
        ready = Gauge(
            "gpu_admission_ready",
            "Whether this part is ready (1), as /readyz says; all must be.",
            ("part",),
            registry=registry,
        )
        for part, check in checks.items():
            ready.labels(part).set_function(partial(_is_well, check))


def _is_well(check: Callable[[], str | None]) -> float:
    return float(check() is None)


class DemandMetrics(Collector):
    """What the cluster's pods want now; counted when it is scraped."""

    def __init__(
        self,
        registry: CollectorRegistry,
        records: Callable[[], Mapping[DemandRecord, int] | None],
    ) -> None:
        """`records` gives each kind with the number of its pods, None while that is not known."""
        self._records = records
        registry.register(self)

    def describe(self) -> list[Metric]:
        """The name, without counting."""
        return [self._family()]

    def collect(self) -> Iterator[Metric]:
        """The family; nothing while it is not known."""
        records = self._records()
        if records is None:
            return
        sums: dict[tuple[str, ...], int] = {}
        for record, pods in records.items():
            labels = (
                record.name,
                str(record.min_vram_gb),
                record.class_name,
                record.namespace,
                str(record.state),
            )
            sums[labels] = sums.get(labels, 0) + record.amount * pods
        family = self._family()
        for values, amount in sums.items():
            family.add_metric(values, amount)
        yield family

    @staticmethod
    def _family() -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "gpu_admission_demand_gpus",
            "GPUs that pods want which have not ended, by what they asked for.",
            labels=("name", "minimum_vram_gb", "class", "namespace", "state"),
        )


class CatalogueMetrics:
    """Which catalogue is in use."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._info = Gauge(
            "gpu_admission_catalogue_info",
            "1, with the generation of the catalogue in use: the beginning of its content's hash.",
            ("generation",),
            registry=registry,
        )
        self._models = Gauge(
            "gpu_admission_catalogue_models", "Models in the catalogue.", registry=registry
        )

    def use(self, generation: str, models: int) -> None:
        """A catalogue is in use from now on."""
        self._info.clear()
        self._info.labels(generation).set(1)
        self._models.set(models)


class CapacityMetrics:
    """The CPU resource on the nodes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.leader = Gauge(
            "gpu_admission_leader",
            "Whether this replica keeps the nodes' capacity (1) or waits (0).",
            registry=registry,
        )
        self.nodes = Gauge(
            "gpu_admission_capacity_nodes",
            "Nodes with a capacity in the catalogue, by whether they carry it.",
            ("state",),
            registry=registry,
        )
        self._writes = Counter(
            "gpu_admission_capacity_writes",
            "Writes of a node's capacity, by result.",
            ("result",),
            registry=registry,
        )
        for result in ("ok", "error"):
            self._writes.labels(result)

    def leads(self, *, leads: bool) -> None:
        """Only the leader tells of nodes: others know nothing of them."""
        self.leader.set(leads)
        if not leads:
            self.nodes.clear()

    def wrote(self, result: str) -> None:
        """One write."""
        self._writes.labels(result).inc()
