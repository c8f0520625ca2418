"""The parts of the running service, put together. It makes and connects; what each does is its own affair."""

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from flask import Flask
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from chassis.config import ConfigWatcher
from chassis.kube_client import KubeClient
from chassis.kube_lease import LeaderElection, Term
from chassis.kube_watch import WatchMetrics
from chassis.running import serve_until, tell_restart_needed
from chassis.serving import Server
from chassis.webapp import create_app
from remediator import budgets
from remediator.cluster import NodeView
from remediator.config import Config
from remediator.intake import Intake
from remediator.kube_cluster import Events, KubeCluster, KubeDoor, Listeners
from remediator.metrics import (
    PREFIX,
    IntakeMetrics,
    ReconcileMetrics,
    StateCollector,
    TimelineMetrics,
)
from remediator.operation import NodeOperation
from remediator.reconcile import Reconciler
from remediator.timeline_outbox import Outbox
from remediator.webhook import (
    Page,
    Receiver,
    install_page,
    install_webhook,
    protected_prefixes,
)

SERVICE = PREFIX
_STUCK_AFTER = timedelta(minutes=2)
_NEED_RESTART = (
    "serving",
    "auth",
    "max_body_bytes",
    "kubernetes",
    "leader",
    "jobs",
    "log_level",
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this process is: its name among the replicas, the node that it runs on (empty: unknown), its version."""

    name: str
    node: str
    version: str


class Service:
    """Everything that runs. What a reload may change hangs on `use`; the rest is made once."""

    def __init__(
        self,
        config: Config,
        registry: CollectorRegistry,
        log: FilteringBoundLogger,
        *,
        clock: Callable[[], datetime],
        identity: Identity,
    ) -> None:
        """Nothing runs yet.

        Raises:
            PermanentError: The credentials for the API cannot be used.
        """
        self._config = self._started_with = config
        self._registry = registry
        self._log = log
        self._clock = clock
        self._identity = identity
        self._intake_metrics = IntakeMetrics(registry)
        self._reconcile_metrics = ReconcileMetrics(registry)
        agent = f"nodemend-remediator/{identity.version}"
        self._client = KubeClient(config.kubernetes, log, user_agent=agent)
        # A client of its own: renewals must not wait behind a drain's calls.
        self._lease_client = KubeClient(config.kubernetes, log, user_agent=f"{agent} lease")
        self._cluster = self._new_cluster()
        self.intake = Intake(
            KubeDoor(self._cluster),
            lambda: self._config,
            clock=clock,
            metrics=self._intake_metrics,
            log=log,
        )
        self._outbox = Outbox(
            self._cluster.operations,
            lambda: self._config.alerts2gh,
            site=lambda: self._config.external_url or "",
            told=lambda name: self._reconciler.operations_changed((name,)),
            clock=clock,
            metrics=TimelineMetrics(registry),
            log=log,
        )
        self._events = Events(self._client, clock=clock, log=log, instance=identity.name)
        self._reconciler = self._new_reconciler()
        self._election = self._new_election()
        registry.register(
            StateCollector(
                self._cluster.operations,
                lambda: self._cluster.unreadable,
                self._budget_use,
                lambda: self._cluster.switched,
                listed=lambda: self._cluster.why_not_ready is None,
                tells=lambda: self._config.alerts2gh is not None,
            )
        )

    # The watches begin after everything is made, so the reconciler is there when they tell something.

    def _operations_changed(self, names: Collection[str]) -> None:
        self._reconciler.operations_changed(names)

    def _node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        self._reconciler.node_changed(old, new)

    def _switches_changed(self) -> None:
        self._reconciler.switches_changed()

    def _new_cluster(self) -> KubeCluster:
        return KubeCluster(
            self._client,
            self._started_with,
            clock=self._clock,
            log=self._log,
            metrics=WatchMetrics(PREFIX, self._registry),
            listeners=Listeners(
                operations=self._operations_changed,
                node=self._node_changed,
                switches=self._switches_changed,
            ),
        )

    def _new_reconciler(self) -> Reconciler:
        return Reconciler(
            self._cluster,
            self.intake,
            config=lambda: self._config,
            clock=self._clock,
            metrics=self._reconcile_metrics,
            log=self._log,
            told=self._outbox.told_up_to,
            recorded=self._recorded,
            own_node=self._identity.node,
        )

    def _recorded(self, before: NodeOperation, after: NodeOperation) -> None:
        self._outbox.changed(after)
        self._events.changed(before, after)

    def _new_election(self) -> LeaderElection:
        leader = self._started_with.leader
        return LeaderElection(
            self._lease_client,
            namespace=leader.namespace,
            name=leader.lease,
            identity=self._identity.name,
            lead=self._lead,
            log=self._log,
            clock=self._clock,
            lease_duration=leader.lease_duration,
            renew_deadline=leader.renew_deadline,
            retry_period=leader.retry_period,
        )

    def _lead(self, term: Term) -> None:
        self._outbox.start()
        self._events.start()
        try:
            self._reconciler.lead(term)
        finally:
            self._events.stop()
            self._outbox.stop()

    def _budget_use(self) -> tuple[budgets.BudgetUse, ...]:
        fleet = self._cluster.watched_fleet()
        return budgets.usage(fleet, self._cluster.operations(), self._config.budgets)

    def use(self, config: Config) -> None:
        """Take a configuration at a reload; what it cannot change while we run stays, and is said."""
        tell_restart_needed(self._log, _NEED_RESTART, self._started_with, config)
        # A Job that runs must be found where it was made, so these are changed all at once or not at all.
        kept = {key: getattr(self._started_with, key) for key in _NEED_RESTART}
        self._config = config.model_copy(update=kept)
        self._cluster.use(self._config)
        self._reconciler.config_changed()

    @property
    def config(self) -> Config:
        """The configuration in use."""
        return self._config

    def _application(self) -> Flask:
        config = self._started_with
        app = create_app(
            SERVICE,
            registry=self._registry,
            log=self._log,
            max_body_bytes=config.max_body_bytes,
            auth=config.auth,
            protected_prefixes=protected_prefixes(config.auth),
            readiness={"cluster": lambda: self._cluster.why_not_ready, "leader": self._stuck},
        )
        install_webhook(app, Receiver(self.intake, self._intake_metrics))
        page = Page(
            operations=self._cluster.operations,
            fleet=self._cluster.watched_fleet,
            config=lambda: self._config,
            leads=lambda: self._election.is_leader,
            clock=self._clock,
            protected=config.auth,
        )
        install_page(app, page)
        return app

    def _stuck(self) -> str | None:
        turn = self._reconciler.last_turn
        if turn is not None and self._clock() - turn > _STUCK_AFTER:
            return f"the leader has not moved since {turn:%H:%M:%S}"
        return None

    def run(self, stop: threading.Event, watcher: ConfigWatcher[Config]) -> None:
        """Serve until `stop`, then hand leadership over and drain.

        Raises:
            PermanentError: The address or the certificate cannot be used.
        """
        server = Server(
            self._application(),
            self._started_with.serving,
            self._log,
            self._registry,
            service=SERVICE,
        )
        serve_until(
            stop,
            server,
            watcher,
            self._log,
            begin=(self._cluster.start,),
            serving=(self._election.start,),
            stopping=(self._reconciler.nudge, self._election.stop),
            end=(self._cluster.stop, self._client.close, self._lease_client.close),
        )
