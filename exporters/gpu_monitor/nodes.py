"""A Node object as gpu-monitor sees it: its GPUs, who owns their probes, what is asked, what is known. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chassis.contracts import (
    OPERATION_TAINT,
    PROBE_OWNER_ANNOTATION,
    PROBE_REQUEST_ANNOTATION,
    PROBE_RESULT_ANNOTATION,
    ConditionType,
    ProbeOwner,
    ProbeResult,
    ProbeVerdict,
    probe_request,
)
from exporters.condition_writer import NodeView, view_of
from exporters.gpu_monitor.record import COVERAGE_ANNOTATION, NodeRecord, load_record
from exporters.probe_pods import ProbeNode

_PRESENT = "nvidia.com/gpu.present"
_REPLICAS = "nvidia.com/gpu.replicas"
"""Labels of NVIDIA's GPU feature discovery: that there is a GPU, and how many pods share one."""


@dataclass(frozen=True, slots=True)
class MonitoredNode:
    """A node. `capacity` and `allocatable` count what pods may ask for, `expected` the GPUs behind it."""

    view: NodeView
    boot_id: str
    is_ready: bool
    is_deleting: bool
    is_labelled: bool
    capacity: int
    allocatable: int
    replicas: int
    isolated_by: str
    record: NodeRecord | None

    @property
    def name(self) -> str:
        return self.view.name

    @property
    def expected(self) -> int:
        return -(-self.capacity // self.replicas)

    @property
    def has_gpus(self) -> bool:
        return self.is_labelled or self.capacity > 0

    @property
    def owner(self) -> str:
        """Who owns its probes; empty if nobody says so."""
        return self.view.annotations.get(PROBE_OWNER_ANNOTATION, "")

    @property
    def is_ours(self) -> bool:
        return self.owner == ProbeOwner.GPU_MONITOR

    @property
    def request(self) -> str:
        """The operation that asks for a proof, answered or not; none while the boot has no name."""
        asked = probe_request(self.view.annotations.get(PROBE_REQUEST_ANNOTATION))
        return asked if self.boot_id else ""

    @property
    def answer(self) -> ProbeResult | None:
        """The answer to the request that stands; one for another operation or boot is none."""
        found = ProbeResult.parse(self.view.annotations.get(PROBE_RESULT_ANNOTATION, ""))
        if found is None or (found.operation, found.boot_id) != (self.request, self.boot_id):
            return None
        return found

    @property
    def heartbeat(self) -> datetime | None:
        """When its GPURuntimeError was last written."""
        return self.view.heartbeats.get(ConditionType.GPU_RUNTIME_ERROR)

    def for_plan(self) -> ProbeNode:
        answer = self.answer
        unclear = answer is not None and answer.result is ProbeVerdict.INCONCLUSIVE
        record = self.record
        return ProbeNode(
            name=self.name,
            uid=self.view.uid,
            boot_id=self.boot_id,
            is_ready=self.is_ready,
            allocatable=self.allocatable,
            is_ours=self.is_ours,
            is_deleting=self.is_deleting,
            isolated_by=self.isolated_by,
            request=self.request if answer is None or unclear else "",
            answered=answer.at if answer is not None and unclear else None,
            probed=record.probed if record is not None and record.boot_id == self.boot_id else None,
        )


def node_reader(resource: str) -> Callable[[Mapping[str, Any]], MonitoredNode]:
    """Makes what reads Node objects; GPUs are those of this resource."""

    def read(node: Mapping[str, Any]) -> MonitoredNode:
        return _read(node, resource)

    return read


def _read(node: Mapping[str, Any], resource: str) -> MonitoredNode:
    metadata, status = node["metadata"], node.get("status") or {}
    labels = metadata.get("labels") or {}
    view = view_of(node)
    return MonitoredNode(
        view=view,
        boot_id=str((status.get("nodeInfo") or {}).get("bootID", "")),
        is_ready=any(
            each.get("type") == "Ready" and each.get("status") == "True"
            for each in status.get("conditions") or ()
        ),
        is_deleting="deletionTimestamp" in metadata,
        is_labelled=labels.get(_PRESENT) == "true",
        capacity=_count((status.get("capacity") or {}).get(resource)),
        allocatable=_count((status.get("allocatable") or {}).get(resource)),
        replicas=max(1, _count(labels.get(_REPLICAS))),
        isolated_by=_isolated_by(node),
        record=load_record(view.annotations.get(COVERAGE_ANNOTATION, "")),
    )


def _isolated_by(node: Mapping[str, Any]) -> str:
    for taint in (node.get("spec") or {}).get("taints") or ():
        if taint.get("key") == OPERATION_TAINT:
            return str(taint.get("value") or "an operation without a name")
    return ""


def _count(text: object) -> int:
    digits = str(text)
    return int(digits) if digits.isascii() and digits.isdigit() else 0
