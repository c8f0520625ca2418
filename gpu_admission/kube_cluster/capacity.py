"""Keeps the CPU resource for high-priority CPU pods on the nodes, as the catalogue says.

A kubelet that restarts reports extended resources that it does not know as 0, so the amount is put
back whenever a node's status differs. Only this one resource is ever written. Must not decide how
much: `cpu_share` does.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError
from chassis.kube_client import NODES, KubeClient, NotFound, PatchKind
from chassis.kube_lease import Term
from chassis.kube_watch import Change, KubeCache, WatchMetrics
from gpu_admission.catalogue import Catalogue, CPUPolicy, parse_quantity
from gpu_admission.cpu_share import capacity_of
from gpu_admission.metrics import CapacityMetrics

_AGAIN = timedelta(seconds=5)
_TURN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class NodeShares:
    """What of a node matters here: all that `capacity_of` reads."""

    body: dict[str, Any]


class CapacityKeeper:
    """A watch on the nodes for all replicas; the leader writes."""

    def __init__(  # noqa: PLR0913 - composition: each is a part of its own
        self,
        client: KubeClient,
        catalogue: Callable[[], Catalogue | None],
        *,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
        metrics: CapacityMetrics,
        watches: WatchMetrics,
        resync: timedelta,
    ) -> None:
        """Nothing is read yet."""
        self._client = client
        self._catalogue = catalogue
        self._log = log
        self._metrics = metrics
        self._resync = resync
        self._clock = clock
        self._changed: set[str] = set()  # only ever as many as there are nodes
        self._all_changed = False
        self._something = threading.Condition()
        self._again: dict[str, datetime] = {}
        self._right: dict[str, bool] = {}  # by node with a capacity in the catalogue
        self._nodes: KubeCache[NodeShares] = KubeCache(
            client,
            NODES,
            log=log,
            clock=clock,
            keep=_shares,
            on_change=self._node_changed,
            metrics=watches,
        )

    def start(self) -> None:
        """Begin to watch."""
        self._nodes.start()

    def stop(self) -> None:
        """End the watch."""
        self._nodes.stop()

    def look_at_all(self) -> None:
        """After a new catalogue: look at every node. From any thread."""
        with self._something:
            self._all_changed = True
            self._something.notify()

    def _node_changed(self, change: Change[NodeShares]) -> None:
        # A heartbeat that changes nothing we read wakes nobody.
        if change.new is None or change.old is None or change.old != change.new:
            with self._something:
                self._changed.add(change.key)
                self._something.notify()

    def lead(self, term: Term) -> None:
        """Keep the capacity right until the term is over."""
        self._metrics.leads(leads=True)
        try:
            self._lead(term)
        finally:
            self._metrics.leads(leads=False)

    def _lead(self, term: Term) -> None:
        # Of the time before, when somebody else led, nothing is known.
        self._right.clear()
        self._again.clear()
        next_round = self._clock()
        while not term.is_set():
            changed, look_at_all = self._changes()
            now = self._clock()
            if look_at_all or now >= next_round:
                changed = set(self._nodes.items()) | self._right.keys()
                next_round = now + self._resync
            else:
                changed |= {name for name, at in self._again.items() if at <= now}
            for name in changed:
                if term.is_set():
                    return
                self._keep_right(name)
            self._tell()

    def _changes(self) -> tuple[set[str], bool]:
        """The nodes that have changed since, and whether all are to be looked at; waits a moment."""
        with self._something:
            if not self._changed and not self._all_changed:
                self._something.wait(_TURN_SECONDS)
            changed, self._changed = self._changed, set()
            look_at_all, self._all_changed = self._all_changed, False
        return changed, look_at_all

    def _keep_right(self, name: str) -> None:
        self._again.pop(name, None)
        node, policy = self._nodes.get(name), self._policy()
        wanted = None if node is None or policy is None else capacity_of(node.body, policy)
        if node is None or policy is None or wanted is None:
            self._right.pop(name, None)
        elif _carries(node.body, policy.resource, wanted):
            self._right[name] = True
        else:
            self._write(name, node, policy.resource, wanted)

    def _write(self, name: str, node: NodeShares, resource: str, wanted: int) -> None:
        try:
            self._client.patch(
                NODES,
                name,
                _patch(node.body, resource, wanted),
                kind=PatchKind.JSON,
                subresource="status",
            )
        except NotFound:
            self._right.pop(name, None)
        except NodemendError as error:
            self._right[name] = False
            self._again[name] = self._clock() + _AGAIN
            self._metrics.wrote("error")
            self._log.warning("capacity_not_written", node=name, error=str(error))
        else:
            self._right[name] = True
            self._metrics.wrote("ok")
            self._log.info("capacity_written", node=name, resource=resource, amount=wanted)

    def _policy(self) -> CPUPolicy | None:
        catalogue = self._catalogue()
        return None if catalogue is None else catalogue.cpu

    def _tell(self) -> None:
        right = sum(self._right.values())
        self._metrics.nodes.labels("right").set(right)
        self._metrics.nodes.labels("wrong").set(len(self._right) - right)


def _shares(body: dict[str, Any]) -> NodeShares:
    """The node without what heartbeats change."""
    meta, spec, status = (body.get(part) or {} for part in ("metadata", "spec", "status"))
    return NodeShares(
        {
            "metadata": {"name": meta.get("name"), "labels": meta.get("labels") or {}},
            "spec": {"taints": spec.get("taints") or []},
            "status": {
                "capacity": status.get("capacity") or {},
                "allocatable": status.get("allocatable") or {},
            },
        }
    )


def _carries(body: Mapping[str, Any], resource: str, wanted: int) -> bool:
    return all(
        parse_quantity(body["status"][part].get(resource)) == wanted
        for part in ("capacity", "allocatable")
    )


def _patch(body: Mapping[str, Any], resource: str, wanted: int) -> list[dict[str, Any]]:
    """Capacity and allocatable: a kubelet would copy the one to the other with its next report."""
    key = resource.replace("~", "~0").replace("/", "~1")
    patch: list[dict[str, Any]] = []
    for part in ("capacity", "allocatable"):
        if not body["status"][part]:
            patch.append({"op": "add", "path": f"/status/{part}", "value": {}})
        patch.append({"op": "add", "path": f"/status/{part}/{key}", "value": str(wanted)})
    return patch
