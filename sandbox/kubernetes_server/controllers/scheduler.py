"""The scheduler: puts pending pods on nodes, says why it cannot, and makes room by priority.

Which node fits and who must go is decided by `kubernetes_rules.placement`; of many that fit only the
first hundred are compared, as the real scheduler samples in large clusters.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.kubernetes_rules import placement
from sandbox.kubernetes_rules.objects import rfc3339
from sandbox.kubernetes_rules.resources import NODE, POD
from sandbox.kubernetes_rules.statuses import Refusal
from sandbox.kubernetes_server.access import ADMINS, User
from sandbox.kubernetes_server.calls import Actor
from sandbox.kubernetes_server.controllers.frame import Change, Controller
from sandbox.kubernetes_server.storage import DELETED, Body, Event, Record
from sandbox.kubernetes_server.subresources import bound

NAME = "default-scheduler"
_ACTOR = Actor(User("system:kube-scheduler", (ADMINS,)))
_COMPARED = 100
_ENDED = frozenset({"Succeeded", "Failed"})


class Scheduler(Controller):
    """Tries new pods at once, and all that wait again when a node or a pod makes a difference."""

    collections = (POD.plural, NODE.plural)

    def react(self, changes: Sequence[Change]) -> None:
        if not any(_matters(each) for each in changes):
            return
        pods = self.store.collection(POD.plural).records()
        waiting = [each for each in pods if _is_waiting(each.body)]
        if not waiting:
            return
        there: dict[str, list[Body]] = defaultdict(list)
        for each in pods:
            node = each.body["spec"].get("nodeName")
            if node and (each.body.get("status") or {}).get("phase") not in _ENDED:
                there[node].append(each.body)
        nodes = [each.body for each in self.store.collection(NODE.plural).records()]
        for record in sorted(waiting, key=_rank):
            self._schedule(record, nodes, there)

    def _schedule(
        self, record: Record, nodes: Sequence[Body], there: dict[str, list[Body]]
    ) -> None:
        found = _placed(record.body, nodes, there)
        if found.node is not None and not found.victims:
            if self._write(record, lambda pod: bound(pod, str(found.node), self._now()), "binding"):
                there[found.node].append(record.body)
            return
        for victim in found.victims:
            self._preempt(victim)
        nominated = found.node if found.victims else None
        self._write(
            record, lambda pod: self._unschedulable(pod, found.message, nominated), "status"
        )

    def _unschedulable(self, pod: Body, message: str, nominated: str | None) -> Body:
        gated = bool(pod["spec"].get("schedulingGates"))
        wanted = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated" if gated else "Unschedulable",
            "message": message,
        }
        status = _with_condition(pod, wanted, self._now())
        if nominated:
            status["nominatedNodeName"] = nominated
        return {**pod, "status": status}

    def _preempt(self, victim: Mapping[str, Any]) -> None:
        metadata = victim["metadata"]
        record = self.store.collection(POD.plural).get((metadata["namespace"], metadata["name"]))
        if record is None or record.body["metadata"].get("deletionTimestamp"):
            return
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{NAME}: preempting to accommodate a higher priority pod",
        }
        self._write(
            record,
            lambda pod: {**pod, "status": _with_condition(pod, target, self._now())},
            "status",
        )
        self.delete(POD, record)

    def _write(self, record: Record, change: Any, subresource: str) -> bool:
        """Whether the pod was still there to be written."""
        try:
            self.cluster.objects.update(POD, *record.key, change, _ACTOR, subresource)
        except Refusal as refusal:
            if refusal.reason != "NotFound":
                raise
            return False
        return True

    def _now(self) -> str:
        return rfc3339(self.cluster.objects.now())


def _placed(
    pod: Body, nodes: Sequence[Body], there: Mapping[str, list[Body]]
) -> placement.Placement:
    if pod["spec"].get("schedulingGates"):
        return placement.place(pod, [], [])
    fitting: list[Body] = []
    for node in nodes:
        if not placement.why_not(pod, node, there.get(node["metadata"]["name"], ())):
            fitting.append(node)
            if len(fitting) == _COMPARED:
                break
    chosen = fitting or nodes
    pods = [each for node in chosen for each in there.get(node["metadata"]["name"], ())]
    return placement.place(pod, chosen, pods)


def _matters(change: Change) -> bool:
    event = change.event
    if change.collection == POD.plural:
        if event.kind == DELETED or _is_waiting(event.record.body):
            return True
        return (event.record.body.get("status") or {}).get("phase") in _ENDED
    return event.kind != DELETED and _differs(event)


def _differs(event: Event) -> bool:
    """Whether a node changed in what placement looks at; heartbeats do not."""
    if event.previous is None:
        return True
    return any(
        _part(event.record.body, path) != _part(event.previous.body, path)
        for path in (("spec",), ("metadata", "labels"), ("status", "allocatable"))
    )


def _part(body: Body, path: Sequence[str]) -> Any:
    value: Any = body
    for each in path:
        value = (value or {}).get(each)
    return value


def _is_waiting(pod: Body) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and spec.get("schedulerName", NAME) == NAME
        and not pod["metadata"].get("deletionTimestamp")
        and (pod.get("status") or {}).get("phase") not in _ENDED
    )


def _rank(record: Record) -> tuple[int, str]:
    priority = int(record.body["spec"].get("priority") or 0)
    return -priority, str(record.body["metadata"].get("creationTimestamp"))


def _with_condition(pod: Body, wanted: Mapping[str, str], now: str) -> Body:
    """The pod's status with a condition; its time stays when nothing but the text changes."""
    status = dict(pod.get("status") or {})
    others = [each for each in status.get("conditions") or () if each["type"] != wanted["type"]]
    same = [each for each in status.get("conditions") or () if each["type"] == wanted["type"]]
    kept = same and same[0]["status"] == wanted["status"]
    since = same[0].get("lastTransitionTime") if kept else now
    condition = {**wanted, "lastProbeTime": None, "lastTransitionTime": since}
    status["conditions"] = [*others, condition]
    return status
