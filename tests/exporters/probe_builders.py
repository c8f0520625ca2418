"""Nodes, probe pods and reports with a word for each thing that a test of gpu-monitor cares about."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from exporters.gpu_monitor.nodes import MonitoredNode, node_reader
from exporters.probe_pods import PlanPolicy, PodRecipe, PodStage, PodView, ProbeNode, Purpose
from exporters.readings import ProbeEnd, ProbeReport

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
POLICY = PlanPolicy(
    period=HOUR,
    max_share=0.05,
    pending_timeout=timedelta(seconds=60),
    proof_retry=timedelta(seconds=60),
)
RECIPE = PodRecipe(
    namespace="nodemend",
    image="nodemend:1",
    resource="nvidia.com/gpu",
    command=("exporters", "gpu-probe"),
    args=("--memory-mib", "64"),
    priority_class="nodemend-gpu-probe",
    deadline=timedelta(seconds=120),
    grace=timedelta(seconds=5),
)


def ago(**units: float) -> datetime:
    return NOW - timedelta(**units)


def a_probe_node(name: str = "n1", **changes: Any) -> ProbeNode:
    """A ready node with eight GPUs, ours, never probed."""
    whole: dict[str, Any] = {
        "name": name,
        "uid": f"uid-{name}",
        "boot_id": "boot-1",
        "is_ready": True,
        "allocatable": 8,
        **changes,
    }
    return ProbeNode(**whole)


def a_pod_view(node: str = "n1", **changes: Any) -> PodView:
    """A periodic probe that runs."""
    whole: dict[str, Any] = {
        "name": f"pod-{node}",
        "uid": f"pod-uid-{node}",
        "node": node,
        "node_uid": f"uid-{node}",
        "boot_id": "boot-1",
        "purpose": Purpose.PERIODIC,
        "operation": "",
        "gpus": 1,
        "created": ago(seconds=10),
        "stage": PodStage.RUNNING,
        **changes,
    }
    return PodView(**whole)


def a_report(uuid: str = "GPU-0", end: str = "pass", reason: str = "") -> ProbeReport:
    default = {"pass": "Healthy", "problem": "CudaMemoryFailed", "inconclusive": "GPUBusy"}[end]
    return ProbeReport(
        uuid, "A30", ProbeEnd(end), reason or default, "compare", None, "", 0.5, "told"
    )


def a_line(uuid: str = "GPU-0", end: str = "pass", reason: str = "Healthy") -> str:
    """A report as the probe prints it."""
    report = {"uuid": uuid, "model": "A30", "end": end, "reason": reason, "step": "compare"}
    return json.dumps({**report, "error_code": None, "error_name": "", "seconds": 0.5}) + "\n"


def a_gpu_node(  # one keyword a fact
    name: str = "n1",
    *,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    conditions: Sequence[Mapping[str, str]] = (),
    capacity: object = 8,
    allocatable: object = None,
    boot_id: str = "boot-1",
    ready: str = "True",
    taints: Sequence[Mapping[str, str]] = (),
    version: str = "1",
) -> dict[str, Any]:
    """A Node object with GPUs."""
    offered = capacity if allocatable is None else allocatable
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": {"taints": list(taints)},
        "status": {
            "capacity": {"nvidia.com/gpu": str(capacity)},
            "allocatable": {"nvidia.com/gpu": str(offered)},
            "conditions": [{"type": "Ready", "status": ready}, *conditions],
            "nodeInfo": {"bootID": boot_id},
        },
    }


def a_monitored_node(name: str = "n1", **changes: Any) -> MonitoredNode:
    return node_reader("nvidia.com/gpu")(a_gpu_node(name, **changes))
