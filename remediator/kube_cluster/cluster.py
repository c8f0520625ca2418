"""The real cluster: caches that wake decisions, live reads to decide on, effects under the version they were decided on.

Decides nothing. What it keeps of thousands of nodes is only what decisions look at.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError
from chassis.kube_client import CONFIG_MAPS, JOBS, NODES, PODS, KubeClient
from chassis.kube_watch import Change, KubeCache, WatchMetrics
from remediator.cluster import BreakerState, Effect, Fleet, NodeView, Observation
from remediator.config import Config, Playbook
from remediator.kube_cluster.effects import Hands
from remediator.kube_cluster.fleet import HEARD_LATELY, FleetNodes
from remediator.kube_cluster.nodes import node_view
from remediator.kube_cluster.observing import Eyes
from remediator.kube_cluster.reading import part
from remediator.kube_cluster.resources import NODE_OPERATIONS
from remediator.kube_cluster.state import Switches, SwitchStore, switches_of
from remediator.kube_cluster.stored import Shelf, Stored, stored_of
from remediator.kube_cluster.writing import Pen
from remediator.operation import (
    OPERATION_LABEL,
    OPERATION_UID_LABEL,
    NodeOperation,
    OperationSpec,
    OperationStatus,
    Phase,
)


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told: names of operations to look at again, nodes that changed, and that a switch moved."""

    operations: Callable[[Collection[str]], None]
    node: Callable[[NodeView | None, NodeView | None], None]
    switches: Callable[[], None]


class KubeCluster:
    """One cluster through one client. `start` begins the watches; commands do without."""

    def __init__(
        self,
        client: KubeClient,
        config: Config,
        *,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
        metrics: WatchMetrics | None = None,
        listeners: Listeners | None = None,
    ) -> None:
        self._client = client
        self._config = config
        self._clock = clock
        self._log = log
        self._listeners = listeners or Listeners(_nobody, _nobody, _nobody)
        self.shelf = Shelf(client)
        self._pen = Pen(client, self.shelf)
        self._hands = Hands(client, clock, self._is_active, self._pen.confirm)
        self._eyes = Eyes(
            client, config, self._hands, wake=self._listeners.operations, clock=clock, log=log
        )
        self._switches = SwitchStore(client, config.leader.namespace, config.leader.state)
        self._lock = threading.Lock()
        self._seen_switches: tuple[datetime, Switches | None] | None = None
        self._nodes: KubeCache[NodeView] = self._cache(
            NODES, node_view, self._node_changed, metrics
        )
        self._fleet_nodes = FleetNodes(client, self._nodes, clock=clock, log=log)
        self._stored: KubeCache[Stored] = self._cache(
            NODE_OPERATIONS, stored_of, self._operation_changed, metrics
        )
        selected: dict[str, Any] = {
            "namespace": config.jobs.namespace,
            "label_selector": OPERATION_UID_LABEL,
        }
        self._jobs: KubeCache[str] = self._cache(
            JOBS, _operation_label, self._part_changed, metrics, **selected
        )
        self._job_pods: KubeCache[str] = self._cache(
            PODS, _operation_label, self._part_changed, None, **selected
        )
        self._state: KubeCache[Switches] = self._cache(
            CONFIG_MAPS,
            switches_of,
            self._state_changed,
            metrics,
            namespace=config.leader.namespace,
            field_selector=f"metadata.name={config.leader.state}",
        )

    def _cache(
        self,
        resource: Any,
        keep: Callable[[dict[str, Any]], Any],
        changed: Callable[[Change[Any]], None],
        metrics: WatchMetrics | None,
        **selected: Any,
    ) -> KubeCache[Any]:
        return KubeCache(
            self._client,
            resource,
            log=self._log,
            clock=self._clock,
            keep=keep,
            on_change=changed,
            metrics=metrics,
            **selected,
        )

    # Life.

    def use(self, config: Config) -> None:
        """Take a configuration; the peers that it names are asked from now on."""
        self._eyes.use(config)
        self._config = config

    def start(self) -> None:
        """Begin to watch."""
        for cache in self._caches:
            cache.start()

    def stop(self) -> None:
        """End all watches."""
        self._eyes.stop()
        for cache in self._caches:
            cache.stop()

    @property
    def _caches(self) -> tuple[KubeCache[Any], ...]:
        return (self._nodes, self._stored, self._jobs, self._job_pods, self._state)

    def wait_synced(self, timeout: float) -> bool:
        """Whether nodes and operations have been listed, waiting up to `timeout` seconds each."""
        return self._nodes.wait_synced(timeout) and self._stored.wait_synced(timeout)

    @property
    def why_not_ready(self) -> str | None:
        """Why nothing can be decided, None if it can."""
        if not self._nodes.has_synced or not self._stored.has_synced:
            return "nodes and operations have not been listed yet"
        return None

    def read_all(self) -> None:
        """List the operations live: for a new leader, and for a command that has no watches."""
        for raw in self._client.list(NODE_OPERATIONS).items:
            self.shelf.wrote(raw)

    @property
    def unreadable(self) -> int:
        """How many stored operations cannot be read."""
        return len(self.shelf.problems())

    @property
    def switched(self) -> tuple[bool, bool]:
        """Whether the fleet was paused and the breaker open when last seen."""
        fleet = self.watched_fleet()
        return fleet.pause is not None, fleet.breaker.open

    def watched_fleet(self) -> Fleet:
        """The fleet as the watches know it, for telling people; nothing is decided on it."""
        switches = self._state.get(f"{self._config.leader.namespace}/{self._config.leader.state}")
        known = switches or Switches()
        heard = self._nodes.last_event or self._clock()
        nodes = self._fleet_nodes.watched()
        return Fleet(heard, nodes, known.pause, known.breaker, unreadable=self.shelf.problems())

    # Reading.

    def operations(self) -> tuple[NodeOperation, ...]:
        """All operations that can be read, finished ones included."""
        return tuple(each.operation for each in self.shelf.all() if each.operation is not None)

    def stored(self, name: str) -> Stored | None:
        """One of the stored operations, our own last write included."""
        return self.shelf.get(name)

    def names(self) -> list[str]:
        """The names of all stored operations."""
        return [each.name for each in self.shelf.all()]

    def of_node(self, node: str) -> tuple[NodeOperation, ...]:
        """The operations of a node, oldest first."""
        return self.shelf.of_node(node)

    def refresh_name(self, name: str) -> None:
        """Read an operation live, after a conflict."""
        self.shelf.refresh(name)

    def nodes(self) -> Mapping[str, NodeView]:
        """The nodes as the watch knows them."""
        return self._fleet_nodes.watched()

    def find_node(self, name: str) -> NodeView | None:
        """A node as it is, from the watch or live; None when there is none.

        Raises:
            TemporaryError: The API cannot be asked.
        """
        heard = self._fleet_nodes.heard_within(self._config.freshness.nodes)
        found = self._nodes.get(name) if heard else None
        return found or self._eyes.node(name)

    def live_node(self, name: str) -> NodeView | None:
        """A node by a live read; None when there is none."""
        return self._eyes.node(name)

    def fleet(self) -> Fleet:
        """All nodes and the switches, the switches no older than a second."""
        as_of, nodes = self._fleet_nodes.read(self._config.freshness.nodes / 4)
        switches = self._live_switches(self._clock())
        known = switches or Switches()
        return Fleet(
            as_of=as_of,
            nodes=nodes,
            pause=known.pause,
            breaker=known.breaker,
            state_known=switches is not None,
            unreadable=self.shelf.problems(),
        )

    def _live_switches(self, now: datetime) -> Switches | None:
        with self._lock:
            seen = self._seen_switches
        if seen is not None and now - seen[0] < HEARD_LATELY:
            return seen[1]
        try:
            found: Switches | None = self._switches.read()
        except NodemendError as error:
            self._log.warning("switches_unknown", error=str(error))
            found = None
        with self._lock:
            self._seen_switches = (now, found)
        return found

    def observe(self, operation: NodeOperation, playbook: Playbook | None) -> Observation:
        """What the operation's phase needs, by live reads.

        Raises:
            TemporaryError: The API cannot be asked.
        """
        return self._eyes.observe(operation, playbook)

    # Writing.

    def create_operation(self, name: str, spec: OperationSpec) -> NodeOperation:
        """A new operation, held by our finalizer from the start."""
        return self._pen.create(name, spec)

    def join(self, operation: NodeOperation, spec: OperationSpec) -> NodeOperation:
        """Write more causes; Conflict if the operation has changed meanwhile."""
        return self._pen.join(operation, spec)

    def record(self, operation: NodeOperation, status: OperationStatus) -> NodeOperation:
        """One status write under the operation's resourceVersion."""
        return self._pen.record(operation, status)

    def apply(self, operation: NodeOperation, effect: Effect) -> None:
        """Carry out an effect if the operation is still as it was decided on."""
        self._hands.carry_out(operation, effect)

    def remember_breaker(self, state: BreakerState) -> None:
        """Persist the breaker before anything is done in its light."""
        found = self._switches.change(lambda now: replace(now, breaker=state))
        with self._lock:
            self._seen_switches = (self._clock(), found)

    def set_finalizer(self, name: str, *, wanted: bool) -> None:
        """Put our finalizer on, or take it off; others' stay."""
        self._pen.set_finalizer(name, wanted=wanted)

    def remove(self, operation: NodeOperation) -> None:
        """Delete a finished operation; its Jobs go with it."""
        self._pen.remove(operation)

    def tidy(self, *, leading: bool = True) -> None:
        """Forget what was only of use for a while; all of it once we do not lead any more."""
        self._hands.forget(self._clock() - timedelta(hours=6))
        draining = (each for each in self.operations() if each.status.phase is Phase.DRAINING)
        self._eyes.only([each.name for each in draining] if leading else ())

    # What the watches tell.

    def _is_active(self, name: str) -> bool:
        stored = self.shelf.get(name) or self.shelf.refresh(name)
        return stored is not None and (stored.operation is None or stored.operation.active)

    def _operation_changed(self, change: Change[Stored]) -> None:
        if self.shelf.seen(change.key, change.new):
            self._listeners.operations((change.key,))

    def _node_changed(self, change: Change[NodeView]) -> None:
        self._fleet_nodes.changed()
        self._listeners.node(change.old, change.new)

    def _part_changed(self, change: Change[str]) -> None:
        name = change.new or change.old
        if name:
            self._listeners.operations((name,))

    def _state_changed(self, _: Change[Switches]) -> None:
        with self._lock:
            self._seen_switches = None
        self._listeners.switches()


def _nobody(*_: object) -> None:
    return


def _operation_label(raw: dict[str, Any]) -> str:
    return str(part(raw, "metadata", "labels").get(OPERATION_LABEL, ""))
