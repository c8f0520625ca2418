"""A simulated node as the API sees it: Node, its status, its Lease, its taints. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sandbox.simulated_nodes.hardware import NodeSpec, machine_id

LEASE_NAMESPACE = "kube-node-lease"
GPU_RESOURCE = "nvidia.com/gpu"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
_KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def seconds_text(moment: datetime) -> str:
    """A time as metav1.Time writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_text(moment: datetime) -> str:
    """A time as metav1.MicroTime writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def condition(
    type_: str,
    status: str,
    reason: str,
    message: str,
    now: datetime,
    before: Mapping[str, str] | None,
) -> dict[str, str]:
    """A node condition; its transition keeps its time while the status stays as it was `before`."""
    text = seconds_text(now)
    same = before is not None and before["status"] == status
    return {
        "type": str(type_),
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": text,
        "lastTransitionTime": before["lastTransitionTime"] if same and before else text,
    }


def kubelet_conditions(
    ready: bool,  # noqa: FBT001  (the status it tells)
    why: str,
    now: datetime,
    before: Mapping[str, dict[str, str]],
) -> list[dict[str, str]]:
    """The four conditions that a kubelet writes."""
    told = {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
        "Ready": ("True", "KubeletReady") if ready else ("False", "KubeletNotReady"),
    }
    return [
        condition(each, *told[each], why if each == "Ready" else "", now, before.get(each))
        for each in _KUBELET_CONDITIONS
    ]


def unknown_conditions(now: datetime, before: Mapping[str, dict[str, str]]) -> list[dict[str, str]]:
    """What the control plane writes of a node whose kubelet has fallen silent; the heartbeats stay old."""
    return [
        condition(each, "Unknown", "NodeStatusUnknown", "no word from the kubelet", now, old)
        | {"lastHeartbeatTime": old["lastHeartbeatTime"]}
        for each in _KUBELET_CONDITIONS
        if (old := before.get(each)) is not None
    ]


def node_body(spec: NodeSpec, status: Mapping[str, Any]) -> dict[str, Any]:
    """The Node that a kubelet registers."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": spec.name,
            "labels": node_labels(spec),
            "annotations": dict(spec.annotations),
        },
        "spec": {"providerID": f"simulated://{spec.name}"},
        "status": dict(status),
    }


def node_labels(spec: NodeSpec) -> dict[str, str]:
    """The labels of kubelet and GPU feature discovery, then those of the spec."""
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "nodemend.dev/simulated": "true",
    }
    if spec.gpu is not None:
        labels |= {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": spec.gpu.product,
            "nvidia.com/gpu.family": spec.gpu.family,
            "nvidia.com/gpu.count": str(spec.gpu_count),
            "nvidia.com/gpu.memory": str(spec.gpu.memory_mib),
            "nvidia.com/gpu.compute.major": str(spec.gpu.compute[0]),
            "nvidia.com/gpu.compute.minor": str(spec.gpu.compute[1]),
            "nvidia.com/cuda.driver-version.full": spec.driver,
            "nvidia.com/cuda.runtime-version.full": spec.cuda,
        }
    return labels | dict(spec.labels)


def node_status(
    spec: NodeSpec, boot_id: str, usable_gpus: int, conditions: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """The status that a kubelet writes; `usable_gpus` is what the device plugin offers."""
    capacity = {
        "cpu": str(spec.cpus),
        "memory": f"{spec.memory_gib}Gi",
        "ephemeral-storage": "900Gi",
        "pods": str(spec.max_pods),
    }
    allocatable = {**capacity, "memory": f"{spec.memory_gib - 1}Gi"}
    if spec.gpu is not None:
        capacity[GPU_RESOURCE] = str(spec.gpu_count)
        allocatable[GPU_RESOURCE] = str(usable_gpus)
    return {
        "capacity": capacity,
        "allocatable": allocatable,
        "addresses": [
            {"type": "InternalIP", "address": spec.address},
            {"type": "Hostname", "address": spec.name},
        ],
        "nodeInfo": _node_info(spec, boot_id),
        "conditions": [dict(each) for each in conditions],
    }


def _node_info(spec: NodeSpec, boot_id: str) -> dict[str, str]:
    identity = machine_id(spec.name)
    return {
        "machineID": identity,
        "systemUUID": identity,
        "bootID": boot_id,
        "kernelVersion": spec.kernel,
        "osImage": spec.os_image,
        "containerRuntimeVersion": spec.runtime,
        "kubeletVersion": spec.kubelet,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def lease_body(
    name: str, uid: str, seconds: float, now: datetime, version: str | None
) -> dict[str, Any]:
    """The Lease that a kubelet renews; `version` is its last resourceVersion, None for a new one."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": LEASE_NAMESPACE,
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
    }
    if version is not None:
        metadata["resourceVersion"] = version
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": max(1, round(seconds)),
            "renewTime": micro_text(now),
        },
    }


def wanted_taints(
    taints: Iterable[Mapping[str, Any]], ready: str, now: datetime
) -> list[dict[str, Any]]:
    """The taints with those of the control plane as they must be for a Ready status; others' are kept."""
    ours = {NOT_READY_TAINT: ready == "False", UNREACHABLE_TAINT: ready == "Unknown"}
    old = [dict(taint) for taint in taints]
    kept = [taint for taint in old if ours.get(taint["key"], True)]
    present = {taint["key"] for taint in kept}
    added = [
        {"key": key, "effect": "NoSchedule", "timeAdded": seconds_text(now)}
        for key, wanted in ours.items()
        if wanted and key not in present
    ]
    return kept + added
