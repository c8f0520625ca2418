"""What one decision looks at, by live reads: the node, its pods, the Job; peers are asked in the background.

Decides nothing.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from structlog.typing import FilteringBoundLogger

from chassis.kube_client import JOBS, NODES, PODS, KubeClient, NotFound
from remediator.cluster import (
    AlertView,
    JobState,
    JobView,
    NodeView,
    Observation,
    PodView,
    QueryView,
)
from remediator.config import Config, Playbook
from remediator.kube_cluster.asked import Asked
from remediator.kube_cluster.effects import Hands
from remediator.kube_cluster.nodes import GPU, node_view, probe_view
from remediator.kube_cluster.peers import AlertSnapshot, peers_of
from remediator.kube_cluster.pods import job_view, pod_view
from remediator.kube_cluster.reading import part
from remediator.kube_cluster.watched_pods import WatchedPods
from remediator.lifecycle import Wants, wants
from remediator.operation import NodeOperation, Phase
from remediator.repair_jobs import is_ours

_MAX_AGE = timedelta(seconds=15)
_ALERTS = "alerts"


class Eyes:
    """Looks at the cluster for operations; `wake` is told whose awaited answers have come."""

    def __init__(
        self,
        client: KubeClient,
        config: Config,
        hands: Hands,
        *,
        wake: Callable[[Collection[str]], None],
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
    ) -> None:
        self._client = client
        self._hands = hands
        self._wake = wake
        self._clock = clock
        self._log = log
        self._draining = WatchedPods(client, wake, clock, log)
        self._alerts: Asked[AlertSnapshot] | None = None
        self._queries: Asked[QueryView] | None = None
        self.use(config)

    def use(self, config: Config) -> None:
        """Take a configuration; the peers that it names are asked from now on."""
        alertmanagers, prometheus = peers_of(config, self._clock, self._log)
        old = (self._alerts, self._queries)
        self._config = config
        self._alerts = self._queries = None
        if config.alertmanagers:
            self._alerts = self._asked(alertmanagers.ask, config.freshness.alerts)
        if prometheus is not None:
            self._queries = self._asked(prometheus.ask, config.freshness.queries)
        for each in old:
            if each is not None:
                each.stop()

    def _asked(self, ask: Callable[[str], Any], freshness: timedelta) -> Asked[Any]:
        asked: Asked[Any] = Asked(
            ask,
            clock=self._clock,
            max_age=min(_MAX_AGE, freshness / 4),
            told=self._wake,
            log=self._log,
        )
        asked.start()
        return asked

    def only(self, names: Collection[str]) -> None:
        """Watch the pods of no other operations any more."""
        self._draining.only(names)

    def stop(self) -> None:
        """Ask nobody any more, and watch no pods."""
        self._draining.stop()
        for each in (self._alerts, self._queries):
            if each is not None:
                each.stop()

    def node(self, name: str) -> NodeView | None:
        """A node by a live read."""
        try:
            return node_view(self._client.get(NODES, name))
        except (NotFound, ValueError):
            return None

    def observe(self, operation: NodeOperation, playbook: Playbook | None) -> Observation:
        """What the operation's phase needs, by live reads.

        Raises:
            TemporaryError: The API cannot be asked.
        """
        wanted = wants(operation, playbook)
        as_of = self._clock()
        node = self.node(operation.spec.node)
        probe = {"probe": probe_view(node, operation.uid)} if wanted.probe and node else {}
        return Observation(
            as_of=as_of,
            node=node,
            pods=self._pods(operation, playbook, wanted),
            job=self._job(operation, wanted.job) if wanted.job else None,
            alerts=self._alert_views(operation) if wanted.alerts else {},
            queries=self._query_views(operation, wanted),
            **probe,
        )

    def _pods(
        self, operation: NodeOperation, playbook: Playbook | None, wanted: Wants
    ) -> tuple[PodView, ...] | None:
        if operation.status.phase is not Phase.DRAINING:
            self._draining.leave(operation)
        if not wanted.pods or playbook is None:
            return None
        dry = operation.spec.dry_run or playbook.dry_run or self._config.dry_run
        if operation.status.phase is Phase.GATED and not dry:
            return None  # only a dry run tells of the pods before the node is isolated
        resources = {
            GPU,
            *(name for rung in playbook.ladder for name in rung.drain.gpu_resources),
        }
        found = self._client.list(PODS, field_selector=f"spec.nodeName={operation.spec.node}")
        views = [pod_view(raw, resources) for raw in found.items]
        if operation.status.phase is Phase.DRAINING and any(map(_may_have_to_go, views)):
            self._draining.watch(operation)  # its first list wakes, so nothing is missed
        return tuple(replace(view, answer=self._hands.answer(view.uid)) for view in views)

    def _job(self, operation: NodeOperation, name: str) -> JobView:
        namespace = self._config.jobs.namespace
        try:
            raw = self._client.get(JOBS, name, namespace)
        except NotFound:
            return JobView(name, JobState.MISSING)
        if not is_ours(part(raw, "metadata", "labels"), operation):
            return JobView(name, JobState.FOREIGN)
        selector = f"batch.kubernetes.io/job-name={name}"
        pods = self._client.list(PODS, namespace, label_selector=selector).items
        uid = part(raw, "metadata").get("uid")
        own = [pod for pod in pods if _belongs(pod, uid)]
        return job_view(raw, own)

    def _alert_views(self, operation: NodeOperation) -> dict[str, AlertView]:
        fingerprints = {cause.fingerprint for cause in operation.spec.causes if cause.fingerprint}
        if not fingerprints or self._alerts is None:
            return {}
        # What was asked before the operation came may not know the alert yet.
        found = self._alerts.get(_ALERTS, operation.name, operation.created_at)
        if found is None:
            return {}
        return {each: found.value.view(each, found.as_of) for each in fingerprints}

    def _query_views(self, operation: NodeOperation, wanted: Wants) -> dict[str, QueryView]:
        if self._queries is None:
            return {}
        found = {
            name: self._queries.get(promql, operation.name)
            for name, promql in wanted.queries.items()
        }
        return {
            name: replace(answer.value, name=name)
            for name, answer in found.items()
            if answer is not None
        }


def _may_have_to_go(pod: PodView) -> bool:
    return not (pod.mirror or pod.daemon_set or pod.finished)


def _belongs(pod: dict[str, Any], uid: Any) -> bool:
    owners = part(pod, "metadata").get("ownerReferences") or ()
    return any(part(owner).get("uid") == uid for owner in owners)
