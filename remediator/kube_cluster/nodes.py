"""Node objects as the decisions see them, and the changes to their taints and annotations.

Pure. A view keeps only what decisions need: there may be thousands.
"""

from collections.abc import Mapping
from sys import intern
from typing import Any

from chassis.contracts import (
    PROBE_REQUEST_ANNOTATION,
    PROBE_RESULT_ANNOTATION,
    SCALE_DOWN_DISABLED_ANNOTATION,
    ProbeResult,
    ProbeVerdict,
)
from remediator.cluster import ConditionView, NodeView, ProbeState, ProbeView
from remediator.kube_cluster.reading import LONG_AGO, count, each, part, text, texts, time
from remediator.operation import OPERATION_TAINT, PAUSED, SCALE_DOWN_MARK

GPU = "nvidia.com/gpu"
_GPU_COUNT = "nvidia.com/gpu.count"
"""A label by NVIDIA's GPU feature discovery."""
_KEPT = (
    PAUSED,
    SCALE_DOWN_MARK,
    SCALE_DOWN_DISABLED_ANNOTATION,
    PROBE_REQUEST_ANNOTATION,
    PROBE_RESULT_ANNOTATION,
)
_VIRTUAL_LABELS = (("type", "virtual-kubelet"), ("eks.amazonaws.com/compute-type", "fargate"))
_VIRTUAL_TAINT = "virtual-kubelet.io/provider"
_SCALING_IN_TAINTS = frozenset({"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"})
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_MOST_MESSAGE = 256


def node_view(raw: Mapping[str, Any]) -> NodeView:
    """The view of a Node."""
    metadata, spec, status = part(raw, "metadata"), part(raw, "spec"), part(raw, "status")
    labels = texts(metadata, "labels")
    annotations = part(metadata, "annotations")
    taints = {text(taint, "key"): text(taint, "value") for taint in each(spec, "taints")}
    conditions = {one.type: one for one in map(_condition, each(status, "conditions"))}
    ready = conditions.get("Ready")
    return NodeView(
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        boot_id=text(part(status, "nodeInfo"), "bootID"),
        ready=ready.status if ready else "Unknown",
        unschedulable=spec.get("unschedulable") is True,
        operation_taint=taints.get(OPERATION_TAINT),
        labels=labels,
        annotations={key: str(annotations[key]) for key in _KEPT if key in annotations},
        conditions=conditions,
        is_virtual=_is_virtual(labels, taints),
        scaling_in="deletionTimestamp" in metadata or not _SCALING_IN_TAINTS.isdisjoint(taints),
        control_plane=any(label in labels for label in _CONTROL_PLANE),
        gpus=_gpus(status, labels),
        created_at=time(metadata, "creationTimestamp"),
    )


def _gpus(status: Mapping[str, Any], labels: Mapping[str, str]) -> int:
    """Whole GPUs: those that are cut into MIG devices are no resource of this name, but a label counts them."""
    told = count(part(status, "allocatable"), GPU) or count(part(status, "capacity"), GPU)
    return told or count(labels, _GPU_COUNT)


def _condition(raw: Mapping[str, Any]) -> ConditionView:
    since = time(raw, "lastTransitionTime") or LONG_AGO
    return ConditionView(
        type=intern(text(raw, "type")),
        status=intern(text(raw, "status")),
        since=since,
        heartbeat=time(raw, "lastHeartbeatTime") or since,
        reason=intern(text(raw, "reason")),
        message=intern(text(raw, "message", _MOST_MESSAGE)),
    )


def _is_virtual(labels: Mapping[str, str], taints: Mapping[str, str]) -> bool:
    labelled = any(labels.get(key) == value for key, value in _VIRTUAL_LABELS)
    return labelled or _VIRTUAL_TAINT in taints


def probe_view(node: NodeView, operation_uid: str) -> ProbeView:
    """How the probe that this operation asked for stands; another's request or answer is none."""
    if node.annotations.get(PROBE_REQUEST_ANNOTATION) != operation_uid:
        return ProbeView()
    found = ProbeResult.parse(node.annotations.get(PROBE_RESULT_ANNOTATION, ""))
    if found is None or found.operation != operation_uid or found.boot_id != node.boot_id:
        return ProbeView(ProbeState.ASKED)
    wrong = [uuid for uuid, verdict in found.gpus.items() if verdict is not ProbeVerdict.PASSED]
    return ProbeView(_STATES[found.result], found.boot_id, found.at, ", ".join(sorted(wrong)))


_STATES = {
    ProbeVerdict.PASSED: ProbeState.PASSED,
    ProbeVerdict.PROBLEM: ProbeState.FAILED,
    ProbeVerdict.INCONCLUSIVE: ProbeState.INCONCLUSIVE,
}


def isolated(raw: Mapping[str, Any], operation: str) -> dict[str, Any] | None:
    """The merge patch that isolates a node for an operation; None if it is so already.

    The whole list of taints goes with the resourceVersion it was read at: it is replaced, not merged.
    A scale-down that somebody else has switched off stays theirs.
    """
    before = list(each(raw, "spec", "taints"))
    taints = [dict(taint) for taint in before if taint.get("key") != OPERATION_TAINT]
    taints.append({"key": OPERATION_TAINT, "value": operation, "effect": "NoSchedule"})
    annotations = part(raw, "metadata", "annotations")
    changes: dict[str, Any] = {}
    if SCALE_DOWN_DISABLED_ANNOTATION not in annotations or SCALE_DOWN_MARK in annotations:
        changes = {SCALE_DOWN_DISABLED_ANNOTATION: "true", SCALE_DOWN_MARK: operation}
    unchanged = all(annotations.get(key) == value for key, value in changes.items())
    if taint_of(raw) == operation and unchanged:
        return None
    return _patch(raw, {"spec": {"taints": taints}}, changes)


def released(raw: Mapping[str, Any], operation: str, operation_uid: str) -> dict[str, Any] | None:
    """The merge patch that undoes what this operation did to a node and nothing else; None: nothing."""
    annotations = part(raw, "metadata", "annotations")
    changes: dict[str, Any] = {}
    if annotations.get(SCALE_DOWN_MARK) == operation:
        changes = {SCALE_DOWN_DISABLED_ANNOTATION: None, SCALE_DOWN_MARK: None}
    if annotations.get(PROBE_REQUEST_ANNOTATION) == operation_uid:
        changes[PROBE_REQUEST_ANNOTATION] = None
    body: dict[str, Any] = {}
    if taint_of(raw) == operation:
        kept = [taint for taint in each(raw, "spec", "taints") if not _is_ours(taint, operation)]
        body = {"spec": {"taints": [dict(taint) for taint in kept] or None}}
    return _patch(raw, body, changes) if body or changes else None


def probe_asked(raw: Mapping[str, Any], operation_uid: str) -> dict[str, Any] | None:
    """The merge patch that asks for a probe, again if an answer stands; None if one is awaited."""
    annotations = part(raw, "metadata", "annotations")
    asked = annotations.get(PROBE_REQUEST_ANNOTATION) == operation_uid
    if asked and PROBE_RESULT_ANNOTATION not in annotations:
        return None
    changes: dict[str, Any] = {PROBE_REQUEST_ANNOTATION: operation_uid}
    if asked:
        changes[PROBE_RESULT_ANNOTATION] = None
    return _patch(raw, {}, changes)


def taint_of(raw: Mapping[str, Any]) -> str | None:
    """The value of our taint, None if the node has none."""
    for taint in each(raw, "spec", "taints"):
        if taint.get("key") == OPERATION_TAINT:
            return text(taint, "value")
    return None


def _is_ours(taint: Mapping[str, Any], operation: str) -> bool:
    return taint.get("key") == OPERATION_TAINT and taint.get("value") == operation


def _patch(
    raw: Mapping[str, Any], body: dict[str, Any], annotations: dict[str, Any]
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": part(raw, "metadata").get("resourceVersion")}
    if annotations:
        metadata["annotations"] = annotations
    return {**body, "metadata": metadata}
