"""The parts of `exporters gpu-monitor`, put together: two watches, an election, the leader's rounds, the metrics."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from chassis.config import ConfigWatcher
from chassis.kube_client import NODES, PODS, KubeClient
from chassis.kube_lease import LeaderElection, Term
from chassis.kube_watch import Change, KubeCache, WatchMetrics
from chassis.running import serve_until, tell_restart_needed
from exporters.commands.running import PREFIX, metrics_server
from exporters.config.gpu_monitor import GpuMonitorSettings
from exporters.gpu_monitor.cluster import ProbeCluster
from exporters.gpu_monitor.exposition import ProbeExposition
from exporters.gpu_monitor.metrics import MonitorMetrics
from exporters.gpu_monitor.monitor import Monitor, Surroundings
from exporters.gpu_monitor.nodes import MonitoredNode, node_reader
from exporters.gpu_monitor.nodes_book import NodesBook
from exporters.gpu_monitor.pods_book import LastSeen, PodsBook
from exporters.probe_pods import SELECTOR, PodView, view_of_pod

_NEED_RESTART = (
    "serving",
    "log_level",
    "kubernetes",
    "namespace",
    "leader",
    "node_selector",
    "resource",
)
_TICK_SECONDS = 2.0
_PAUSE_SECONDS = 0.2


class GpuMonitorService:
    """Everything that runs. A reload counts from the next round on."""

    def __init__(  # noqa: PLR0913 - composition: each is a part of its own
        self,
        settings: GpuMonitorSettings,
        registry: CollectorRegistry,
        log: FilteringBoundLogger,
        *,
        clock: Callable[[], datetime],
        version: str,
        identity: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing runs yet.

        Args:
            settings: The configuration.
            registry: Takes the metrics.
            log: Takes the log.
            clock: The time, aware.
            version: For the user agent.
            identity: Different for each replica that runs at a time.
            monotonic: Seconds that never go back.

        Raises:
            PermanentError: The credentials cannot be used.
        """
        self._settings = settings
        self._started_with = settings
        self._registry = registry
        self._log = log
        self._clock = clock
        self._monotonic = monotonic
        self._metrics = MonitorMetrics(registry)
        self._exposition = ProbeExposition()
        self._wake = threading.Event()
        self._last_seen = LastSeen()
        self._client = KubeClient(
            settings.kubernetes, log, user_agent=f"nodemend-gpu-monitor/{version}"
        )
        self._cluster = ProbeCluster(self._client, settings.namespace, settings.resource)
        self._read = node_reader(settings.resource)
        watches = WatchMetrics(PREFIX, registry)
        self._nodes = self._new_nodes(settings, watches)
        self._pods = self._new_pods(settings, watches)
        self._election = self._new_election(settings, identity)

    def _new_nodes(
        self, settings: GpuMonitorSettings, watches: WatchMetrics
    ) -> KubeCache[MonitoredNode]:
        return KubeCache(
            self._client,
            NODES,
            log=self._log,
            clock=self._clock,
            keep=self._read,
            label_selector=settings.node_selector,
            on_change=self._node_changed,
            metrics=watches,
        )

    def _new_pods(self, settings: GpuMonitorSettings, watches: WatchMetrics) -> KubeCache[PodView]:
        return KubeCache(
            self._client,
            PODS,
            namespace=settings.namespace,
            log=self._log,
            clock=self._clock,
            keep=view_of_pod,
            label_selector=SELECTOR,
            on_change=self._pod_changed,
            metrics=watches,
        )

    def _new_election(self, settings: GpuMonitorSettings, identity: str) -> LeaderElection:
        leader = settings.leader
        # A client of its own: renewals must not wait behind a round's calls.
        client = KubeClient(settings.kubernetes, self._log, user_agent="nodemend-gpu-monitor-lease")
        return LeaderElection(
            client,
            namespace=settings.namespace,
            name=leader.lease,
            identity=identity,
            lead=self._lead,
            log=self._log,
            clock=self._clock,
            lease_duration=leader.lease_duration,
            renew_deadline=leader.renew_deadline,
            retry_period=leader.retry_period,
        )

    def use(self, settings: GpuMonitorSettings) -> None:
        """Take new settings; what they cannot change while we run is said."""
        self._settings = settings
        self._wake.set()
        tell_restart_needed(self._log, _NEED_RESTART, self._started_with, settings)

    def run(self, stop: threading.Event, watcher: ConfigWatcher[GpuMonitorSettings]) -> None:
        """Serve until `stop`, then end; the Lease is given back.

        Raises:
            PermanentError: The address or the certificate cannot be used.
        """
        server = metrics_server(
            self._started_with.serving,
            self._registry,
            self._log,
            readiness={"nodes": self._why_not_ready},
            metrics_hook=self._pieces,
        )
        serve_until(
            stop,
            server,
            watcher,
            self._log,
            begin=[self._nodes.start, self._pods.start],
            serving=[self._election.start],
            stopping=[self._wake.set, self._election.stop],
            end=[self._nodes.stop, self._pods.stop],
        )

    def _why_not_ready(self) -> str | None:
        if self._nodes.has_synced and self._pods.has_synced:
            return None
        return "nodes and probe pods have not been listed yet"

    def _pieces(self) -> Iterable[bytes]:
        nodes = self._ours() if self._election.is_leader else {}
        return self._exposition.pieces(nodes)

    def _ours(self) -> Mapping[str, MonitoredNode]:
        return {name: n for name, n in self._nodes.items().items() if n.has_gpus and n.is_ours}

    def _node_changed(self, change: Change[MonitoredNode]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or _matters(old) != _matters(new):
            self._wake.set()

    def _pod_changed(self, change: Change[PodView]) -> None:
        self._last_seen.note(change)
        self._wake.set()

    # Leading.

    def _lead(self, term: Term) -> None:
        """Rounds until the term is over; what it was told before is in the API."""
        while not self._nodes.wait_synced(0.2) or not self._pods.wait_synced(0.2):
            if term.is_set():
                return
        nodes = NodesBook(self._cluster, self._nodes.items, self._read, self._metrics, self._log)
        around = Surroundings(
            cluster=self._cluster,
            settings=lambda: self._settings,
            metrics=self._metrics,
            exposition=self._exposition,
            clock=self._clock,
            leads=lambda: not term.is_set(),
            log=self._log,
        )
        monitor = Monitor(around, nodes, PodsBook(self._pods.items, self._last_seen))
        self._metrics.leader.set(1)
        try:
            while not term.is_set():
                self._one_round(monitor)
                term.wait(_PAUSE_SECONDS)  # so that a burst of events is one round
                self._wake.wait(0 if term.is_set() else _TICK_SECONDS)
        finally:
            self._metrics.clear()
            self._exposition.clear()

    def _one_round(self, monitor: Monitor) -> None:
        self._wake.clear()
        began = self._monotonic()
        monitor.round()
        self._metrics.round_seconds.set(self._monotonic() - began)
        self._metrics.rounds.inc()


def _matters(node: MonitoredNode) -> tuple[Any, ...]:
    """What of a node calls for a round at once; all else waits for the next."""
    return node.request, node.owner, node.boot_id, node.is_ready, node.allocatable, node.isolated_by
