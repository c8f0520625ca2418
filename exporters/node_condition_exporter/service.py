"""The parts of `exporters node-conditions`, put together; what each does is its own affair."""

import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from chassis.config import ConfigWatcher, format_duration
from chassis.errors import TemporaryError
from chassis.kube_client import KubeClient
from chassis.kube_watch import WatchMetrics
from chassis.running import serve_until, tell_restart_needed
from exporters.commands.running import PREFIX, metrics_server
from exporters.config.node_conditions import NodeConditionsSettings
from exporters.node_condition_exporter.view import NodesView

_NEED_RESTART = ("serving", "log_level")
_RELOAD_WAIT = timedelta(seconds=60)


class NodeConditionsService:
    """Everything that runs. A reload lists the nodes anew and changes over once it has them all."""

    def __init__(  # noqa: PLR0913 - composition: each is a part of its own
        self,
        settings: NodeConditionsSettings,
        registry: CollectorRegistry,
        log: FilteringBoundLogger,
        *,
        clock: Callable[[], datetime],
        version: str,
        shard_index: int | None = None,
        reload_wait: timedelta = _RELOAD_WAIT,
    ) -> None:
        """Raises ConfigError: `shard_index`, which goes before the file's, is no shard of it."""
        self._registry = registry
        self._log = log
        self._clock = clock
        self._version = version
        self._shard_index = shard_index
        self._reload_wait = reload_wait
        self._started_with = settings
        self._watch_metrics = WatchMetrics(PREFIX, registry)
        self._view = self._new_view(settings)

    def use(self, settings: NodeConditionsSettings) -> None:
        """Take new settings.

        Raises:
            ConfigError: The shard that was asked for is none of the new ones.
            TemporaryError: The API did not list the nodes in time; the old settings stay in use.
            PermanentError: The credentials cannot be used.
        """
        fresh = self._new_view(settings)
        fresh.start()
        if not fresh.wait_synced(self._reload_wait.total_seconds()):
            fresh.stop()
            raise TemporaryError(
                f"the nodes could not be listed within {format_duration(self._reload_wait)}"
            )
        old, self._view = self._view, fresh
        old.stop()
        tell_restart_needed(self._log, _NEED_RESTART, self._started_with, settings)

    def run(self, stop: threading.Event, watcher: ConfigWatcher[NodeConditionsSettings]) -> None:
        """Serve until `stop`, then end.

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
            stop, server, watcher, self._log, begin=[self._view.start], end=[self._stop_view]
        )

    def _stop_view(self) -> None:
        self._view.stop()  # the one of then: a reload makes another

    def _why_not_ready(self) -> str | None:
        return self._view.why_not_ready()

    def _pieces(self) -> Iterable[bytes]:
        return self._view.pieces()

    def _new_view(self, settings: NodeConditionsSettings) -> NodesView:
        settings = settings.for_shard(self._shard_index)
        client = KubeClient(
            settings.kubernetes, self._log, user_agent=f"nodemend-node-conditions/{self._version}"
        )
        return NodesView(
            settings, client, metrics=self._watch_metrics, clock=self._clock, log=self._log
        )
