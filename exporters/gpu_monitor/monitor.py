"""What the leader does in a round: takes in what has ended, withdraws, creates, vouches for what still holds.

Every decision is made elsewhere (`probe_pods.plan`, `record.fold`); every effect is looked at twice: whether we still
lead, and whether the object is still the one that the decision was about. What fails is left to the next round.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError
from chassis.kube_client import AlreadyExists, KubePermanentError, NotFound
from exporters.config.gpu_monitor import GpuMonitorSettings
from exporters.cuda_probe.lines import parse_reports
from exporters.gpu_monitor import vouching
from exporters.gpu_monitor.cluster import ProbeCluster
from exporters.gpu_monitor.ends import run_of, says_all
from exporters.gpu_monitor.exposition import ProbeExposition
from exporters.gpu_monitor.metrics import MonitorMetrics
from exporters.gpu_monitor.nodes import MonitoredNode
from exporters.gpu_monitor.nodes_book import NodesBook
from exporters.gpu_monitor.patches import claim_patch, status_patch
from exporters.gpu_monitor.pods_book import PodsBook
from exporters.gpu_monitor.record import Run, current_record, fold, proof
from exporters.gpu_monitor.settings import plan_policy, recipe_of
from exporters.probe_pods import (
    Decision,
    Outcome,
    PodStage,
    PodView,
    Probe,
    Purpose,
    WithdrawReason,
    plan,
    pod_body,
    view_of_pod,
)
from exporters.readings import ProbeReport

_LOG_PATIENCE = timedelta(seconds=60)
_REFUSED_PAUSE = timedelta(seconds=60)
_CLAIMS_A_ROUND = 200
_NO_VERDICT_OF = {
    WithdrawReason.PENDING_TOO_LONG: Outcome.PENDING,
    WithdrawReason.CANNOT_START: None,
    WithdrawReason.OVERDUE: None,
}
"""Withdrawals that count as a run of their node, and as which; None: as the pod says."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a term of leadership works with. `leads` must be asked before each effect."""

    cluster: ProbeCluster
    settings: Callable[[], GpuMonitorSettings]
    metrics: MonitorMetrics
    exposition: ProbeExposition
    clock: Callable[[], datetime]
    leads: Callable[[], bool]
    log: FilteringBoundLogger


class Monitor:
    """One term of leadership; a new one knows nothing but what the API tells."""

    def __init__(self, around: Surroundings, nodes: NodesBook, pods: PodsBook) -> None:
        self._around = around
        self._nodes = nodes
        self._pods = pods
        self._refused: datetime | None = None
        self._told: set[str] = set()

    def round(self) -> None:
        """Do all that is to be done now."""
        now = self._around.clock()
        nodes = self._nodes.nodes()
        self._claim(nodes, now)
        look = self._pods.look(now)
        for pod in look.vanished:
            run = run_of(pod, parse_reports(pod.message))
            self._take_in(pod, run, nodes, now)
        for pod in self._while_leading(look.pods.values()):
            if pod.stage is PodStage.ENDED:
                self._clean_up(pod, nodes, now)
        self._act(self._nodes.nodes(), look.pods, now)
        self._vouch(self._nodes.nodes(), now)

    def _act(
        self, nodes: Mapping[str, MonitoredNode], pods: Mapping[str, PodView], now: datetime
    ) -> None:
        settings = self._around.settings()
        found = plan(
            (n.for_plan() for n in nodes.values()), pods.values(), plan_policy(settings), now
        )
        counts = {each: sum(p.purpose is each for p in pods.values()) for each in Purpose}
        self._around.metrics.show(found, counts)
        for pod, reason in self._while_leading(found.withdraw):
            self._withdraw(pod, reason, nodes, now)
        if self._refused is not None and now - self._refused < _REFUSED_PAUSE:
            return
        for decision in self._while_leading(found.create):
            if not self._create(decision, nodes[decision.node.name], settings, now):
                return

    def _while_leading(self, things: Iterable[T]) -> Iterator[T]:
        for each in tuple(things):
            if not self._around.leads():
                return
            yield each

    # Nodes.

    def _claim(self, nodes: Mapping[str, MonitoredNode], now: datetime) -> None:
        self._around.exposition.meet(name for name, node in nodes.items() if node.is_ours)
        self._tell_owners(nodes)
        if not self._around.settings().enabled:
            return
        free = [node for node in nodes.values() if not node.owner][:_CLAIMS_A_ROUND]
        for node in self._while_leading(free):
            self._nodes.write(node, partial(_claimed, now=now))

    def _tell_owners(self, nodes: Mapping[str, MonitoredNode]) -> None:
        others = {
            name: node.owner for name, node in nodes.items() if node.owner and not node.is_ours
        }
        for name in sorted(others.keys() - self._told):
            self._around.log.warning("node_has_another_owner", node=name, owner=others[name])
        self._told = set(others)

    def _vouch(self, nodes: Mapping[str, MonitoredNode], now: datetime) -> None:
        settings = self._around.settings()
        if not settings.enabled:
            return
        for node in self._while_leading(vouching.due(nodes.values(), settings.heartbeat, now)):
            if not self._nodes.write(node, partial(vouching.patch, now=now)):
                return

    # Ends.

    def _clean_up(self, pod: PodView, nodes: Mapping[str, MonitoredNode], now: datetime) -> None:
        """Take in what a pod that has ended says, then delete it."""
        if not self._pods.is_settled(pod):
            reports = self._reports(pod, now)
            if reports is None or not self._take_in(pod, run_of(pod, reports), nodes, now):
                return
        if self._pods.must_be_removed(pod):
            self._delete(pod)

    def _reports(self, pod: PodView, now: datetime) -> tuple[ProbeReport, ...] | None:
        """What a pod has reported; None if that cannot be known yet."""
        told = parse_reports(pod.message)
        if says_all(pod, told) or pod.trouble not in {None, Outcome.TIMEOUT}:
            return told
        try:
            logged = parse_reports(self._around.cluster.log(pod))
        except KubePermanentError as error:
            if not isinstance(error, NotFound):
                self._failed("log", pod.node, error)
            return told
        except NodemendError as error:
            self._failed("log", pod.node, error)
            return told if self._pods.ended_for(pod, now) > _LOG_PATIENCE else None
        return max(told, logged, key=len)

    def _take_in(
        self, pod: PodView, run: Run, nodes: Mapping[str, MonitoredNode], now: datetime
    ) -> bool:
        """Write what a probe has found; whether that is done."""
        node = nodes.get(pod.node)
        if node is not None and not self._nodes.write(node, partial(_after_run, pod, run, now=now)):
            return False
        self._count(pod, run.outcome)
        return True

    def _count(self, pod: PodView, outcome: Outcome) -> None:
        self._pods.settle(pod)
        self._around.exposition.count(pod.node, outcome)
        self._around.log.info(
            "probe_ended", node=pod.node, purpose=pod.purpose, outcome=outcome, detail=pod.detail
        )

    def _withdraw(
        self,
        pod: PodView,
        reason: WithdrawReason,
        nodes: Mapping[str, MonitoredNode],
        now: datetime,
    ) -> None:
        if self._pods.is_settled(pod):
            return
        reports: tuple[ProbeReport, ...] = ()
        if reason is WithdrawReason.OVERDUE:
            pod = vouching.out_of_time(pod)
            reports = self._reports(pod, now) or ()
        if not self._delete(pod):
            return
        self._around.log.info("probe_withdrawn", node=pod.node, reason=reason)
        if reason in _NO_VERDICT_OF:
            self._take_in(pod, run_of(pod, reports, _NO_VERDICT_OF[reason]), nodes, now)
        else:
            self._count(pod, Outcome.INTERRUPTED)

    def _delete(self, pod: PodView) -> bool:
        try:
            self._around.cluster.delete(pod)
        except NodemendError as error:
            self._failed("delete", pod.node, error)
            return False
        self._pods.removed(pod)
        return True

    # Beginnings.

    def _create(
        self, decision: Decision, node: MonitoredNode, settings: GpuMonitorSettings, now: datetime
    ) -> bool:
        """Make a probe pod; False when no other should be tried in this round."""
        try:
            gpus = self._gpus_for(decision, settings)
        except NodemendError as error:
            self._failed("list", node.name, error)
            return False
        if gpus < 1:
            self._skip(node, now)
            return True
        body = pod_body(Probe(decision.node, decision.purpose, gpus), recipe_of(settings))
        try:
            made = self._around.cluster.create(body)
        except AlreadyExists:
            return self._met_another(body, now)
        except KubePermanentError as error:
            return self._was_refused(node.name, str(error), now)
        except NodemendError as error:
            self._failed("create", node.name, error)
            return False
        return self._is_harmless(made, now)

    def _gpus_for(self, decision: Decision, settings: GpuMonitorSettings) -> int:
        offered = decision.node.allocatable
        if decision.purpose is Purpose.PROOF:
            return offered
        if isinstance(settings.gpus, int):
            return min(settings.gpus, offered)
        return offered - self._around.cluster.gpus_in_use(decision.node.name)

    def _skip(self, node: MonitoredNode, now: datetime) -> None:
        run = Run(Outcome.SKIPPED_BUSY, boot_id=node.boot_id)
        if self._nodes.write(node, partial(_after_skip, run, now=now)):
            self._around.exposition.count(node.name, Outcome.SKIPPED_BUSY)

    def _met_another(self, body: Mapping[str, Any], now: datetime) -> bool:
        """Ours, which the watch has not told of yet; or somebody else's: then it is tried again later."""
        placeholder = view_of_pod({**body, "metadata": {**body["metadata"], "uid": "unknown"}})
        self._pods.created(placeholder, now)
        self._pods.settle(placeholder)
        self._around.log.info("probe_pod_exists", pod=body["metadata"]["name"])
        return True

    def _is_harmless(self, made: Mapping[str, Any], now: datetime) -> bool:
        pod = view_of_pod(made)
        self._pods.created(pod, now)
        priority = made["spec"].get("priority")
        if isinstance(priority, int) and priority < 0:
            return True
        self._pods.settle(pod)
        self._delete(pod)
        why = f"its PriorityClass gives it the priority {priority}; it must be below 0"
        return self._was_refused(pod.node, why, now)

    def _was_refused(self, node: str, why: str, now: datetime) -> bool:
        """Not this node's fault, and the others' pods would fare no better: wait a little."""
        self._refused = now
        self._around.exposition.count(node, Outcome.REFUSED)
        self._around.log.error("probe_pod_refused", node=node, error=why)
        return False

    def _failed(self, verb: str, node: str, error: NodemendError) -> None:
        self._around.metrics.api_failures.labels(verb).inc()
        self._around.log.warning("api_call_failed", verb=verb, node=node, error=str(error))


def _claimed(node: MonitoredNode, *, now: datetime) -> Mapping[str, Any] | None:
    if node.owner:
        return None
    record = current_record(node.record, node.view, node.boot_id, now)
    return claim_patch(node.view, record, now)


def _after_run(
    pod: PodView, run: Run, node: MonitoredNode, *, now: datetime
) -> Mapping[str, Any] | None:
    """The node after a probe; None if it is not about the node as it is now, or was taken in before."""
    is_same = (node.view.uid, node.boot_id) == (pod.node_uid, pod.boot_id)
    record = current_record(node.record, node.view, node.boot_id, now)
    if not is_same or not node.is_ours or record.pod == run.pod:
        return None
    asked = pod.purpose is Purpose.PROOF and node.request == pod.operation
    answer = proof(run, pod.operation, node.boot_id, node.expected, now) if asked else None
    return status_patch(node.view, fold(record, run, node.expected, now), now, answer)


def _after_skip(run: Run, node: MonitoredNode, *, now: datetime) -> Mapping[str, Any] | None:
    if not node.is_ours or node.boot_id != run.boot_id:
        return None
    record = current_record(node.record, node.view, node.boot_id, now)
    return status_patch(node.view, fold(record, run, node.expected, now), now)
