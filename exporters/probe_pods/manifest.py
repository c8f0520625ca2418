"""A probe pod as the API takes it. Pure."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from exporters.probe_pods.model import (
    BOOT_ANNOTATION,
    GPUS_ANNOTATION,
    LABELS,
    NODE_ANNOTATION,
    NODE_UID_ANNOTATION,
    OPERATION_ANNOTATION,
    PURPOSE_ANNOTATION,
    ProbeNode,
    Purpose,
)

CONTAINER = "gpu-probe"


@dataclass(frozen=True, slots=True)
class PodRecipe:
    """What all probe pods have in common; `security_context` is the container's."""

    namespace: str
    image: str
    resource: str
    command: Sequence[str]
    args: Sequence[str]
    priority_class: str
    deadline: timedelta
    grace: timedelta
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: Sequence[str] = ()
    runtime_class: str | None = None
    service_account: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    security_context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe: of which node, why, and of how many GPUs."""

    node: ProbeNode
    purpose: Purpose
    gpus: int


def pod_name(node_uid: str) -> str:
    """The name of a node's only probe pod: so the API itself refuses a second one."""
    return f"gpu-probe-{hashlib.sha256(node_uid.encode()).hexdigest()[:20]}"


def pod_body(probe: Probe, recipe: PodRecipe) -> dict[str, Any]:
    """The pod. The scheduler places it, on its node alone: so it knows of the GPUs that the pod takes."""
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "priorityClassName": recipe.priority_class,
        # Refused unless the class says so, too: a probe must not drive anybody out.
        "preemptionPolicy": "Never",
        "activeDeadlineSeconds": math.ceil(recipe.deadline.total_seconds()),
        "terminationGracePeriodSeconds": math.ceil(recipe.grace.total_seconds()),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": _only_on(probe.node.name)},
        "containers": [_container(probe.gpus, recipe)],
    }
    if recipe.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in recipe.image_pull_secrets]
    if recipe.runtime_class is not None:
        spec["runtimeClassName"] = recipe.runtime_class
    if recipe.service_account is not None:
        spec["serviceAccountName"] = recipe.service_account
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(probe.node.uid),
            "namespace": recipe.namespace,
            "labels": {**recipe.labels, **LABELS},
            "annotations": _annotations(probe),
        },
        "spec": spec,
    }


def _only_on(node: str) -> dict[str, Any]:
    # By field and not by the label kubernetes.io/hostname, which need not be the name. No other node can ever fit, so
    # there is nothing that an autoscaler could add.
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _annotations(probe: Probe) -> dict[str, str]:
    node = probe.node
    operation = node.request if probe.purpose is Purpose.PROOF else ""
    return {
        NODE_ANNOTATION: node.name,
        NODE_UID_ANNOTATION: node.uid,
        BOOT_ANNOTATION: node.boot_id,
        PURPOSE_ANNOTATION: probe.purpose,
        GPUS_ANNOTATION: str(probe.gpus),
        **({OPERATION_ANNOTATION: operation} if operation else {}),
    }


def _container(gpus: int, recipe: PodRecipe) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": recipe.image,
        "imagePullPolicy": recipe.image_pull_policy,
        "command": list(recipe.command),
        "args": list(recipe.args),
        "resources": {
            "requests": dict(recipe.requests),
            "limits": {recipe.resource: str(gpus)},
        },
        "securityContext": dict(recipe.security_context),
        # Where the log cannot be read, its end is in the status at least when the probe did not pass.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
