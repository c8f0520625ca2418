"""The whole Job of one attempt.

Pure. Its name is the attempt's, so that making it twice meets the first one; it is tried once (backoffLimit 0, Never),
and kept until its operation goes.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any

from chassis.contracts import DOMAIN
from chassis.errors import PermanentError
from remediator.cluster import NodeView
from remediator.config import JobSettings, JobTemplate, Rung
from remediator.operation import (
    API_VERSION,
    ATTEMPT_LABEL,
    KIND,
    OPERATION_LABEL,
    OPERATION_UID_LABEL,
    RUNG_LABEL,
    Intent,
    NodeOperation,
)
from remediator.repair_jobs.admin_pods import admin_pod, keep_off
from remediator.repair_jobs.arguments import arguments_of
from remediator.repair_jobs.own_pods import own_pod

NODE_ANNOTATION = f"{DOMAIN}/node"
_BY_OTHERS = frozenset({"restart_pods", "hand_over"})


def job_for(
    operation: NodeOperation,
    rung: Rung,
    node: NodeView,
    jobs: JobSettings,
    templates: Mapping[str, JobTemplate],
) -> dict[str, Any]:
    """The Job that the operation's present intent announces, for the API.

    Raises:
        PermanentError: It cannot be made: no announced intent, an unknown boot, a template that is
            gone, or a cause whose labels make no sense.
    """
    intent = _announced(operation, rung)
    labels = _labels(operation)
    env = _environment(operation, intent)
    template = _template(rung, templates)
    annotations = {NODE_ANNOTATION: node.name}
    if template is None:
        env = {**env, **_environment_of(rung, jobs)}
        pod = own_pod(rung.repair.kind, arguments_of(operation, rung.repair), env, jobs)
    else:
        pod = admin_pod(template, env, jobs)
        annotations = {**template.annotations, **annotations}
    _place(pod, rung, node)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": intent.job,
            "namespace": jobs.namespace,
            "labels": labels,
            "annotations": {NODE_ANNOTATION: node.name},
            "ownerReferences": [_owner(operation)],
        },
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": ceil(rung.timeout.total_seconds()),
            "template": {
                "metadata": {
                    "labels": {**(template.labels if template else {}), **labels},
                    "annotations": annotations,
                },
                "spec": pod,
            },
        },
    }


def is_ours(job_labels: Mapping[str, str], operation: NodeOperation) -> bool:
    """Whether a Job with these labels is of this operation's present attempt, whatever its name."""
    wanted = _labels(operation)
    return bool(operation.uid) and all(job_labels.get(key) == wanted[key] for key in _IDENTITY)


_IDENTITY = (OPERATION_UID_LABEL, RUNG_LABEL, ATTEMPT_LABEL)


def _labels(operation: NodeOperation) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "nodemend-repair",
        OPERATION_LABEL: operation.name,
        OPERATION_UID_LABEL: operation.uid,
        RUNG_LABEL: str(operation.status.rung),
        ATTEMPT_LABEL: str(operation.status.attempt),
    }


def _announced(operation: NodeOperation, rung: Rung) -> Intent:
    intent = operation.status.intent
    if rung.repair.kind in _BY_OTHERS:
        raise PermanentError(f"{rung.repair.kind} is carried out without a Job")
    if intent is None or not intent.job:
        raise PermanentError(f"operation {operation.name} has announced no Job")
    if rung.repair.on_node and not intent.boot_id:
        raise PermanentError(
            f"the boot id of {operation.spec.node} is unknown, so the repair could not tell whether"
            " it comes too late"
        )
    return intent


def _environment(operation: NodeOperation, intent: Intent) -> dict[str, str]:
    return {
        "NODEMEND_NODE": operation.spec.node,
        "NODEMEND_BOOT_ID": intent.boot_id,
        "NODEMEND_ATTEMPT": intent.job,
        "NODEMEND_OPERATION": operation.name,
        "NODEMEND_OPERATION_UID": operation.uid,
    }


def _environment_of(rung: Rung, jobs: JobSettings) -> dict[str, str]:
    """What one of our own scripts must know beside the attempt."""
    return {"NODEMEND_DRIVER_ROOT": jobs.driver_root} if rung.repair.reset_gpu else {}


def _template(rung: Rung, templates: Mapping[str, JobTemplate]) -> JobTemplate | None:
    name = rung.repair.template
    if name is None:
        return None
    if name not in templates:
        raise PermanentError(f"rung {rung.name}: job_templates has no {name} any more")
    return templates[name]


def _place(pod: dict[str, Any], rung: Rung, node: NodeView) -> None:
    if rung.repair.on_node:
        pod["nodeName"] = node.name
        pod["tolerations"] = [{"operator": "Exists"}]
    else:
        keep_off(pod, node.name)


def _owner(operation: NodeOperation) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": operation.name,
        "uid": operation.uid,
        "controller": False,
        "blockOwnerDeletion": False,
    }
