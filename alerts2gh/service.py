"""The parts of the running service, put together. It makes and connects; what each does is its own affair."""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from flask import Flask
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from alerts2gh.config import Config, Credential
from alerts2gh.github_tracker import GitHubTracker
from alerts2gh.incident import Incident
from alerts2gh.issue_plan import Step
from alerts2gh.metrics import (
    GitHubMetrics,
    ReconcileMetrics,
    StateCollector,
    TimelineMetrics,
    WebhookMetrics,
    WorkerMetrics,
)
from alerts2gh.parts import alert_sources, fallback_target, foreign_id, renderer_of
from alerts2gh.ports import BudgetState, RateLimit, Tracker
from alerts2gh.routing import Router
from alerts2gh.store import SQLStore
from alerts2gh.webhook import (
    Admin,
    Intake,
    Page,
    TimelineIntake,
    install_admin,
    install_page,
    install_timeline,
    install_webhook,
    protected_prefixes,
)
from alerts2gh.worker import (
    Assigner,
    Budgets,
    Clerk,
    Courtesy,
    Desk,
    Housekeeper,
    Looker,
    Reconciler,
    WorkLoop,
    longest_window,
)
from chassis.config import ConfigWatcher
from chassis.running import serve_until, tell_restart_needed
from chassis.serving import Server
from chassis.webapp import create_app

SERVICE = "alerts2gh"
_STUCK_AFTER = timedelta(minutes=2)
_NEED_RESTART = ("serving", "database", "auth", "max_body_bytes", "log_level")


def _as_it_is(tracker: Tracker) -> Tracker:
    return tracker


class Service:
    """Everything that runs. What a reload may change hangs on `use`; the rest is made once.

    `owner` names this process among those that share the store; `wrap` may put something between the worker and GitHub.
    """

    def __init__(  # noqa: PLR0913 -- composition: each is a part of its own
        self,
        config: Config,
        registry: CollectorRegistry,
        log: FilteringBoundLogger,
        *,
        store: SQLStore,
        owner: str,
        clock: Callable[[], datetime],
        version: str,
        wrap: Callable[[Tracker], Tracker] = _as_it_is,
    ) -> None:
        self._log = log
        self._registry = registry
        self._owner = owner
        self._clock = clock
        self._version = version
        self._wrap = wrap
        self._watcher: ConfigWatcher[Config] | None = None
        self._started_with = config
        self._worker_metrics = WorkerMetrics(registry)
        self._github_metrics = GitHubMetrics(registry)
        self._store = store
        self._budgets = Budgets(self._store, config.limits)
        self._courtesy = Courtesy()
        self._trackers: dict[str, tuple[Credential, GitHubTracker, Tracker]] = {}
        self.use(config)
        registry.register(
            StateCollector(store.counts, self._budget_states, store.oldest_waiting, clock)
        )
        self._loop = WorkLoop(
            self._store,
            lambda: self._clerk,
            owner=self._owner,
            lease=config.database.lease,
            clock=clock,
            metrics=self._worker_metrics,
            log=log,
        )
        self._reconciler = Reconciler(
            self._store,
            lambda: self._alert_sources,
            every=lambda: self._config.reconcile_every,
            poke=self._poke,
            clock=clock,
            metrics=ReconcileMetrics(registry),
            log=log,
        )
        self._housekeeper = Housekeeper(
            self._store, lambda: longest_window(self._config), clock=clock, log=log
        )
        self.intake = self._intake()

    def use(self, config: Config) -> None:
        """Take a configuration, at the start and at each reload; raises ConfigError and changes nothing if it cannot."""
        renderer = renderer_of(config)
        router = Router(config)
        trackers = self._trackers_for(config)
        looker = Looker(
            search_label=config.search_label,
            adopt_authors=config.adopt_authors,
            adopt_since=config.policy.reopen_window,
            foreign_id=foreign_id,
            log=self._log,
        )
        desk = Desk(
            store=self._store,
            trackers=trackers,
            budgets=self._budgets,
            renderer=renderer,
            assigner=Assigner(self._log),
            looker=looker,
            recovery=config.recovery,
            storm=config.storm,
            fallback=fallback_target(config),
            metrics=self._worker_metrics,
            log=self._log,
            clock=self._clock,
            owner=self._owner,
            give_way=self._courtesy.give_way,
        )
        self._budgets.use(config.limits)
        self._alert_sources = alert_sources(config)
        self._config, self._router, self._clerk = config, router, Clerk(desk)
        tell_restart_needed(self._log, _NEED_RESTART, self._started_with, config)

    def _trackers_for(self, config: Config) -> Mapping[str, Tracker]:
        """A tracker for each credential; an unchanged credential keeps its tracker and what that has learned."""
        for name, credential in config.credentials.items():
            known = self._trackers.get(name)
            if known is None or known[0] != credential:
                tracker = self._tracker(name, credential)
                self._trackers[name] = (credential, tracker, self._wrap(tracker))
        return {name: self._trackers[name][2] for name in config.credentials}

    def _tracker(self, name: str, credential: Credential) -> GitHubTracker:
        def on_response(endpoint: str, status: int | None, rate: RateLimit | None) -> None:
            self._github_metrics.response(name, endpoint, status, rate)

        return GitHubTracker(
            name, credential, now=self._clock, log=self._log, on_response=on_response
        )

    def _budget_states(self) -> Mapping[str, BudgetState]:
        return {name: self._budgets.state(name) for name in self._config.credentials}

    def _application(self, config: Config) -> Flask:
        app = create_app(
            SERVICE,
            registry=self._registry,
            log=self._log,
            max_body_bytes=config.max_body_bytes,
            auth=config.auth,
            protected_prefixes=protected_prefixes(config.auth),
            readiness={"store": self._store_is_well, "worker": self._worker_is_well},
        )
        install_webhook(app, self.intake, config.max_body_bytes)
        timeline = TimelineIntake(
            self._store, self._poke, self._clock, TimelineMetrics(self._registry), self._log
        )
        install_timeline(app, timeline)
        admin = Admin(
            store=self._store,
            version=self._version,
            credentials=lambda: self._config.credentials,
            sight=lambda: self._reconciler.sight,
            mistakes=lambda: self._watcher.mistakes if self._watcher else None,
            poke=self._poke,
            clock=self._clock,
        )
        install_admin(app, admin)
        page = Page(
            store=self._store,
            standing=admin.standing,
            plan=self._plan,
            auth=config.auth,
            clock=self._clock,
        )
        install_page(app, page)
        return app

    def _intake(self) -> Intake:
        return Intake(
            store=self._store,
            router=lambda: self._router,
            fallback=lambda: fallback_target(self._config),
            search_label=lambda: self._config.search_label,
            poke=self._poke,
            clock=self._clock,
            metrics=WebhookMetrics(self._registry),
            log=self._log,
            serving=self._courtesy.serving,
        )

    def _plan(self, incident: Incident) -> Step:
        return self._clerk.foresee(incident)

    def _poke(self) -> None:
        self._loop.poke()

    def _store_is_well(self) -> str | None:
        self._store.backlog()
        return None

    def _worker_is_well(self) -> str | None:
        silent = self._clock() - self._loop.last_turn
        return f"no turn for {silent}" if silent > _STUCK_AFTER else None

    def run(self, stop: threading.Event, watcher: ConfigWatcher[Config]) -> None:
        """Serve until `stop`, then drain: no new webhooks, the steps under way finish, the leases go back.

        Raises:
            PermanentError: The address or the certificate cannot be used.
        """
        self._watcher = watcher
        server = Server(
            self._application(self._config),
            self._config.serving,
            self._log,
            self._registry,
            service=SERVICE,
        )
        serve_until(
            stop,
            server,
            watcher,
            self._log,
            begin=(self._loop.start, self._reconciler.start, self._housekeeper.start),
            end=(self._reconciler.stop, self._housekeeper.stop, self._loop.stop, self.close),
        )

    @property
    def clerk(self) -> Clerk:
        """The worker's hand for one incident, by the present configuration."""
        return self._clerk

    def close(self) -> None:
        """Give back what is held."""
        self._store.close()
        for _, tracker, _ in self._trackers.values():
            tracker.close()
