"""The parts of the running webhook, put together: two ports, the caches, the catalogue, the capacity.

It makes and connects; what each does is its own affair.
"""

import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial

from flask import Flask
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from chassis.config import ConfigWatcher
from chassis.kube_client import KubeClient
from chassis.kube_lease import LeaderElection
from chassis.kube_watch import WatchMetrics
from chassis.running import serve_until, tell_restart_needed
from chassis.serving import Server, ServingSettings, TLSSettings
from chassis.webapp import create_app
from gpu_admission.catalogue_in_use import CatalogueInUse
from gpu_admission.config import AdmissionConfig
from gpu_admission.kube_cluster import CapacityKeeper, ClusterCaches, DemandWatch, SelfSigned
from gpu_admission.metrics import (
    PREFIX,
    CapacityMetrics,
    DemandMetrics,
    ReadinessMetrics,
    ReviewMetrics,
)
from gpu_admission.webhook import AdmissionApplication, Desk, State

_MAX_MONITORING_BODY = 64 * 1024  # nothing is posted there
_NEED_RESTART = tuple(AdmissionConfig.model_fields)


class AdmissionService:
    """Everything that runs. Of the configuration nothing changes while it runs; of the catalogue all."""

    def __init__(
        self,
        config: AdmissionConfig,
        registry: CollectorRegistry,
        log: FilteringBoundLogger,
        *,
        clock: Callable[[], datetime],
        version: str,
        identity: str,
    ) -> None:
        """Nothing runs yet; `identity` is another one for each replica.

        Raises:
            PermanentError: The credentials for the API cannot be used.
        """
        self._config = config
        self._registry = registry
        self._log = log
        agent = f"nodemend-gpu-admission/{version}"
        self._client = KubeClient(config.kubernetes, log, user_agent=agent)
        # A client of its own: renewals must not wait behind a round over all nodes.
        self._lease_client = KubeClient(config.kubernetes, log, user_agent=f"{agent} lease")
        watches = WatchMetrics(PREFIX, registry)
        self._caches = ClusterCaches(self._client, clock=clock, log=log, metrics=watches)
        self._keeper = self._new_keeper(clock, watches)
        self._demand = self._new_demand(clock, watches) if config.demand.enabled else None
        self.catalogue = CatalogueInUse(
            config.catalogue_file, changed=self._keeper.look_at_all, registry=registry, log=log
        )
        self._self_signed = (
            SelfSigned(self._client, config.self_signed, clock=clock, log=log)
            if config.self_signed is not None
            else None
        )
        self._reviews = ReviewMetrics(registry)
        self._desk = Desk(self._state, clock=clock, metrics=self._reviews, log=log)
        self._election = self._new_election(clock, identity)
        self._admission: Server | None = None
        self._open_for_reviews = False

    def _state(self) -> State | None:
        catalogue = self.catalogue.current
        if catalogue is None:
            return None
        needed = catalogue.needs_namespace_labels
        namespace = partial(self._caches.namespace, labels_needed=needed)
        return State(catalogue, self._caches.priorities, namespace)

    def _new_keeper(self, clock: Callable[[], datetime], watches: WatchMetrics) -> CapacityKeeper:
        # One that keeps no capacity has no leader and no watch that could be missed.
        enabled = self._config.capacity.enabled
        registry = self._registry if enabled else CollectorRegistry()
        return CapacityKeeper(
            self._client,
            lambda: self.catalogue.current,
            clock=clock,
            log=self._log,
            metrics=CapacityMetrics(registry),
            watches=watches if enabled else WatchMetrics(PREFIX, registry),
            resync=self._config.capacity.resync,
        )

    def _new_demand(self, clock: Callable[[], datetime], watches: WatchMetrics) -> DemandWatch:
        demand = DemandWatch(
            self._client,
            lambda: self.catalogue.current,
            self._caches,
            clock=clock,
            log=self._log,
            metrics=watches,
        )
        DemandMetrics(self._registry, demand.records)
        return demand

    def _new_election(self, clock: Callable[[], datetime], identity: str) -> LeaderElection:
        leader = self._config.leader
        return LeaderElection(
            self._lease_client,
            namespace=leader.namespace,
            name=leader.lease,
            identity=identity,
            lead=self._keeper.lead,
            log=self._log,
            clock=clock,
            lease_duration=leader.lease_duration,
            renew_deadline=leader.renew_deadline,
            retry_period=leader.retry_period,
        )

    def use(self, config: AdmissionConfig) -> None:
        """Look at catalogue and certificate again; say what a changed file would change after a restart."""
        self.catalogue.request_reload()
        if self._self_signed is not None:
            self._self_signed.look_now()
        tell_restart_needed(self._log, _NEED_RESTART, self._config, config)

    def _monitoring(self) -> Flask:
        readiness: dict[str, Callable[[], str | None]] = {
            "admission": lambda: None if self._open_for_reviews else "its port is not open yet",
            "catalogue": lambda: self.catalogue.why_not_ready,
            "cluster": lambda: self._caches.why_not_ready,
        }
        if self._self_signed is not None:
            signed = self._self_signed
            readiness["certificate"] = lambda: signed.why_not_ready
        ReadinessMetrics(self._registry, readiness)
        return create_app(
            PREFIX,
            registry=self._registry,
            log=self._log,
            max_body_bytes=_MAX_MONITORING_BODY,
            auth=None,
            protected_prefixes=(),
            readiness=readiness,
        )

    def _admission_settings(self) -> ServingSettings:
        if self._self_signed is None:
            return self._config.serving
        tls = TLSSettings(
            cert_file=self._self_signed.certificate_file, key_file=self._self_signed.key_file
        )
        return self._config.serving.model_copy(update={"tls": tls})

    def run(self, stop: threading.Event, watcher: ConfigWatcher[AdmissionConfig]) -> None:
        """Serve until `stop`, then finish what was asked and give the Lease back.

        Raises:
            PermanentError: An address or the certificate cannot be used.
        """
        # Without a registry: the certificate's metrics belong to the admission port.
        monitoring = Server(self._monitoring(), self._config.monitoring, self._log, service=PREFIX)
        serve_until(
            stop,
            monitoring,
            watcher,
            self._log,
            begin=(self.catalogue.start, self._caches.start),
            serving=(lambda: self._open(stop),),
            stopping=(self._close,),
            end=(
                self.catalogue.stop,
                self._caches.stop,
                self._client.close,
                self._lease_client.close,
            ),
        )

    def _open(self, stop: threading.Event) -> None:
        """Open the admission port once there is a certificate; then what may take its time."""
        if self._self_signed is not None and not self._self_signed.first(stop):
            return
        application = AdmissionApplication(
            self._desk,
            max_body_bytes=self._config.max_body_bytes,
            metrics=self._reviews,
            log=self._log,
        )
        self._admission = Server(
            application, self._admission_settings(), self._log, self._registry, service=PREFIX
        )
        self._admission.start()
        self._open_for_reviews = True
        if self._self_signed is not None:
            self._self_signed.start()
        if self._config.capacity.enabled:
            self._keeper.start()
            self._election.start()
        if self._demand is not None:
            self._demand.start()

    def _close(self) -> None:
        self._open_for_reviews = False
        if self._demand is not None:
            self._demand.stop()
        if self._config.capacity.enabled:
            self._election.stop()
            self._keeper.stop()
        if self._self_signed is not None:
            self._self_signed.stop()
        if self._admission is not None:
            self._admission.stop()
