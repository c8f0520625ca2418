"""The agent as a service: one crew at a time, HTTP, and the change from one configuration to the next."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from chassis.config import ConfigWatcher
from chassis.errors import ConfigError
from chassis.kube_watch import WatchMetrics
from chassis.running import serve_until, tell_restart_needed
from exporters.commands.running import PREFIX, metrics_server
from exporters.config.node_agent import NodeAgentSettings
from exporters.killable_child import ChildPool
from exporters.node_agent.crew import Crew, Given
from exporters.node_agent.gpu_metrics import GpuCollector, GpuFacts
from exporters.node_agent.metrics import AgentMetrics

_NEED_RESTART = ("serving", "log_level")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What only `__main__` may look up: NODE_NAME, the environment for children, the clock, the version."""

    node: str
    environment: Mapping[str, str]
    clock: Callable[[], datetime]
    version: str


class NodeAgentService:
    """Everything that runs on one node."""

    def __init__(
        self,
        settings: NodeAgentSettings,
        registry: CollectorRegistry,
        log: FilteringBoundLogger,
        around: Surroundings,
    ) -> None:
        """Raises ConfigError, TemporaryError or PermanentError: as those of `Crew`, or no node is named."""
        if not around.node:
            raise ConfigError(
                ["NODE_NAME: is not set; give the pod its node's name by fieldRef spec.nodeName"]
            )
        self._log = log
        self._registry = registry
        self._started_with = settings
        metrics = AgentMetrics(registry, around.node)
        self._given = Given(
            node=around.node,
            pool=ChildPool(around.environment),
            environment=around.environment,
            clock=around.clock,
            log=log,
            metrics=metrics,
            watch_metrics=WatchMetrics(PREFIX, registry),
            version=around.version,
        )
        self._crew = Crew(settings, self._given)
        registry.register(GpuCollector(around.node, self._facts))

    def use(self, settings: NodeAgentSettings) -> None:
        """Take new settings.

        Raises:
            ConfigError: A file that they name cannot be used; the old ones stay.
            TemporaryError: The host does not tell its boot.
            PermanentError: The credentials cannot be used.
        """
        Crew(settings, self._given).discard()  # raises while the old one still runs
        self._crew.stop()
        # Made again, from the state that the old one has just left.
        self._crew = Crew(settings, self._given)
        self._crew.start()
        tell_restart_needed(self._log, _NEED_RESTART, self._started_with, settings)

    def run(self, stop: threading.Event, watcher: ConfigWatcher[NodeAgentSettings]) -> None:
        """Serve until `stop`, then end.

        Raises:
            PermanentError: The address or the certificate cannot be used.
        """
        server = metrics_server(
            self._started_with.serving,
            self._registry,
            self._log,
            readiness={"checks": self._why_not_ready, "node": self._why_not_told},
        )
        serve_until(
            stop, server, watcher, self._log, begin=[self._crew.start], end=[self._stop_crew]
        )

    # Of the crew of the moment: it changes.

    def _stop_crew(self) -> None:
        self._crew.stop()

    def _why_not_ready(self) -> str | None:
        return self._crew.why_not_ready()

    def _why_not_told(self) -> str | None:
        return self._crew.why_not_told()

    def _facts(self) -> GpuFacts | None:
        return self._crew.facts()
