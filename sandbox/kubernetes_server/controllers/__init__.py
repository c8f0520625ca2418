"""The controllers that run inside the sandbox Kubernetes, a thread each. Workloads but Jobs have none."""

from sandbox.kubernetes_server.cluster import Cluster
from sandbox.kubernetes_server.controllers.budgets import BudgetKeeper
from sandbox.kubernetes_server.controllers.frame import Controller
from sandbox.kubernetes_server.controllers.garbage import GarbageCollector
from sandbox.kubernetes_server.controllers.job_runner import JobRunner
from sandbox.kubernetes_server.controllers.lifecycle import NamespaceCleaner, PodCollector
from sandbox.kubernetes_server.controllers.scheduler import Scheduler

_CONTROLLERS: tuple[type[Controller], ...] = (
    GarbageCollector,
    NamespaceCleaner,
    PodCollector,
    BudgetKeeper,
    JobRunner,
)


class Controllers:
    """Those that are switched on, from `start` to `stop`."""

    def __init__(self, cluster: Cluster, *, controllers: bool, scheduler: bool) -> None:
        chosen = _CONTROLLERS if controllers else ()
        also: tuple[type[Controller], ...] = (Scheduler,) if scheduler else ()
        self._running = [each(cluster) for each in (*chosen, *also)]

    def start(self) -> None:
        for each in self._running:
            each.start()

    def stop(self) -> None:
        for each in self._running:
            each.stop()
