"""Carries out effects, each by live calls with the UID or resourceVersion it was decided on.

That the operation is still as it was decided on is seen last, just before the write: whatever is read before may take
its time, and another replica may lead by then. Decides nothing. What is gone already is no error where it was to go; what somebody else holds is.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from chassis.errors import PermanentError
from chassis.kube_client import (
    JOBS,
    NODES,
    PODS,
    AlreadyExists,
    Conflict,
    EvictionRefused,
    Forbidden,
    Invalid,
    KubeClient,
    NotFound,
    PatchKind,
    Throttled,
    Unavailable,
)
from remediator.cluster import (
    AskCheckpoint,
    AskProbe,
    CreateJob,
    DeleteJob,
    DeletePod,
    Effect,
    EvictionAnswer,
    EvictionKind,
    EvictPod,
    ForgetWish,
    Isolate,
    Release,
)
from remediator.kube_cluster.nodes import isolated, probe_asked, released, taint_of
from remediator.kube_cluster.reading import part
from remediator.kube_cluster.resources import NODE_OPERATIONS
from remediator.operation import CHECKPOINT_REQUEST, NodeOperation

_SERVER_ERROR = 500
_SEVERAL = "more than one PodDisruptionBudget"
_MOST_TEXT = 200


class Hands:
    """The effects on one cluster, for any thread.

    `confirm` raises Conflict if an operation is not any more what it was; `is_active` tells whether one of this name
    stands.
    """

    def __init__(
        self,
        client: KubeClient,
        clock: Callable[[], datetime],
        is_active: Callable[[str], bool],
        confirm: Callable[[NodeOperation], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._is_active = is_active
        self._confirm = confirm
        self._answers: dict[str, EvictionAnswer] = {}
        self._by_type: Mapping[type, Callable[[Any], None]] = {
            EvictPod: self._remove,
            DeletePod: self._remove,
            AskCheckpoint: self._ask_checkpoint,
            DeleteJob: self._delete_job,
            ForgetWish: self._forget_wish,
        }

    def answer(self, pod_uid: str) -> EvictionAnswer | None:
        """What the API said when a pod was to be removed last."""
        return self._answers.get(pod_uid)

    def forget(self, before: datetime) -> None:
        """Drop the answers from before a time."""
        # A copy at once: effects for other nodes may be under way.
        old = [uid for uid, answer in list(self._answers.items()) if answer.at < before]
        for uid in old:
            self._answers.pop(uid, None)

    def carry_out(self, operation: NodeOperation, effect: Effect) -> None:
        """Do it.

        Raises:
            TemporaryError: It may work later, or the operation has changed.
            PermanentError: It is refused; nothing was done.
        """
        if isinstance(effect, CreateJob):
            self._create_job(operation, effect)
        elif isinstance(effect, Isolate | Release | AskProbe):
            patch = self._node_patch(effect)
            if patch is not None:
                self._confirm(operation)
                self._client.patch(NODES, effect.node, patch, kind=PatchKind.MERGE)
        else:
            self._confirm(operation)
            self._by_type[type(effect)](effect)

    def _node_patch(self, effect: Isolate | Release | AskProbe) -> Mapping[str, Any] | None:
        """What is to change of the node, under the version at which it was read; None for nothing."""
        if isinstance(effect, Release):
            return self._releasing(effect)
        node = self._client.get(NODES, effect.node)
        _same(node, effect.node_uid)
        if isinstance(effect, AskProbe):
            return probe_asked(node, effect.operation_uid)
        owner = taint_of(node)
        if owner not in {None, effect.operation} and self._is_active(str(owner)):
            raise PermanentError(f"node {effect.node} is isolated by {owner}, which is active")
        return isolated(node, effect.operation)

    def _releasing(self, effect: Release) -> Mapping[str, Any] | None:
        try:
            node = self._client.get(NODES, effect.node)
        except NotFound:
            return None
        if part(node, "metadata").get("uid") != effect.node_uid:
            return None
        _same_boot(node, effect.boot_id, "it was proven")
        return released(node, effect.operation, effect.operation_uid)

    # Pods.

    def _evict(self, effect: EvictPod) -> None:
        pod = effect.pod
        self._client.evict(
            pod.name, pod.namespace, uid=pod.uid, grace_seconds=_seconds(effect.grace)
        )

    def _delete(self, effect: DeletePod) -> None:
        pod = effect.pod
        grace = _seconds(effect.grace)
        self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=grace)

    def _remove(self, effect: EvictPod | DeletePod) -> None:
        """One pod that cannot go holds up no other: how it went is remembered for the next look."""
        kind, text, wait = EvictionKind.ACCEPTED, "", None
        try:
            self._evict(effect) if isinstance(effect, EvictPod) else self._delete(effect)
        except (NotFound, Conflict):
            kind = EvictionKind.GONE
        except EvictionRefused as error:
            kind, text, wait = EvictionKind.BUDGET, _short(error), error.retry_after
        except Throttled as error:
            kind, text, wait = EvictionKind.THROTTLED, _short(error), error.retry_after
        except Unavailable as error:
            if error.status != _SERVER_ERROR:
                raise
            several = _SEVERAL in str(error)
            kind = EvictionKind.SEVERAL_BUDGETS if several else EvictionKind.FAILED
            text = _short(error)
        except (Forbidden, Invalid) as error:
            kind, text = EvictionKind.FAILED, _short(error)
        now = self._clock()
        retry_at = None if wait is None else now + wait
        self._answers[effect.pod.uid] = EvictionAnswer(kind, now, text, retry_at)

    def _ask_checkpoint(self, effect: AskCheckpoint) -> None:
        metadata = {"uid": effect.pod.uid, "annotations": {CHECKPOINT_REQUEST: effect.operation}}
        with suppress(NotFound, Conflict):
            self._client.patch(
                PODS,
                effect.pod.name,
                {"metadata": metadata},
                effect.pod.namespace,
                kind=PatchKind.MERGE,
            )

    # Jobs.

    def _create_job(self, operation: NodeOperation, effect: CreateJob) -> None:
        intent = operation.status.intent
        node = self._client.get(NODES, operation.spec.node)
        _same_boot(node, "" if intent is None else intent.boot_id, "the repair was announced")
        self._confirm(operation)
        # One of this name is this one, or the next look finds that it is not.
        with suppress(AlreadyExists):
            self._client.create(JOBS, effect.manifest, effect.namespace)

    def _delete_job(self, effect: DeleteJob) -> None:
        """The pods go by name as well: a kubelet starts none that is being deleted."""
        selector = f"batch.kubernetes.io/job-name={effect.name}"
        for pod in self._client.list(PODS, effect.namespace, label_selector=selector).items:
            metadata = pod["metadata"]
            with suppress(NotFound, Conflict):
                self._client.delete(PODS, metadata["name"], effect.namespace, uid=metadata["uid"])
        with suppress(NotFound):
            self._client.delete(JOBS, effect.name, effect.namespace, propagation="Background")

    def _forget_wish(self, effect: ForgetWish) -> None:
        path = "/metadata/annotations/" + effect.annotation.replace("~", "~0").replace("/", "~1")
        patch = [
            {"op": "test", "path": path, "value": effect.value},
            {"op": "remove", "path": path},
        ]
        # Another value is another wish, which the next look takes up.
        with suppress(NotFound, Invalid):
            self._client.patch(NODE_OPERATIONS, effect.operation, patch, kind=PatchKind.JSON)


def _same(node: Mapping[str, Any], uid: str) -> None:
    metadata = part(node, "metadata")
    if metadata.get("uid") != uid:
        raise Conflict(
            f"node {metadata.get('name')} is another one by now", status=409, reason="OtherNode"
        )


def _same_boot(node: Mapping[str, Any], boot_id: str, when: str) -> None:
    if boot_id and part(node, "status", "nodeInfo").get("bootID") != boot_id:
        name = part(node, "metadata").get("name")
        text = f"node {name} has rebooted since {when}"
        raise Conflict(text, status=409, reason="OtherBoot")


def _seconds(grace: timedelta | None) -> int | None:
    return None if grace is None else round(grace.total_seconds())


def _short(error: Exception) -> str:
    return str(error)[-_MOST_TEXT:]
