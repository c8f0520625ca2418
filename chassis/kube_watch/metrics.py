"""The health of the watches of one process, for whoever must know whether a cache is stale."""

from prometheus_client import CollectorRegistry, Counter, Gauge

_LABELS = ("resource",)


class WatchMetrics:
    """`<prefix>_watch_*`, one series a watched resource type (its plural)."""

    def __init__(self, prefix: str, registry: CollectorRegistry) -> None:
        self.last_event = Gauge(
            f"{prefix}_watch_last_event_timestamp_seconds",
            "When the API last told something about this resource: an event, a bookmark, a list.",
            _LABELS,
            registry=registry,
        )
        self.relists = Counter(
            f"{prefix}_watch_relists",
            "How often everything was listed anew because the watch could not go on.",
            _LABELS,
            registry=registry,
        )
        self.failures = Counter(
            f"{prefix}_watch_failures",
            "Lists and watches that ended with an error.",
            _LABELS,
            registry=registry,
        )
        self.objects = Gauge(
            f"{prefix}_watch_objects", "Objects held in memory.", _LABELS, registry=registry
        )

    def prepare(self, resource: str) -> None:
        """Let the series of a resource exist from the start."""
        for each in (self.last_event, self.relists, self.failures, self.objects):
            each.labels(resource)
