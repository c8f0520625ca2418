"""Patches of a node's status: the condition, the record behind it, the answer to a request. Pure.

Strategic merge patches that carry the resourceVersion they were made from: written by somebody whose view is old,
they change nothing. One patch holds all, so condition and record cannot part.
"""

from datetime import UTC, datetime
from typing import Any

from chassis.contracts import (
    PROBE_OWNER_ANNOTATION,
    PROBE_RESULT_ANNOTATION,
    ProbeOwner,
    ProbeResult,
)
from exporters.condition_writer import NodeView
from exporters.gpu_monitor.record import COVERAGE_ANNOTATION, NodeRecord, dump_record
from exporters.verdict import ConditionState


def status_patch(
    view: NodeView, record: NodeRecord, now: datetime, answer: ProbeResult | None = None
) -> dict[str, Any]:
    """The condition as it is now, with its record, and an answer if there is one."""
    annotations = {COVERAGE_ANNOTATION: dump_record(record)}
    if answer is not None:
        annotations[PROBE_RESULT_ANNOTATION] = answer.dump()
    return {
        "metadata": {**_fence(view), "annotations": annotations},
        "status": {"conditions": [condition_entry(record.state, now)]},
    }


def claim_patch(view: NodeView, record: NodeRecord, now: datetime) -> dict[str, Any]:
    """Take over a node that nobody owns, with the condition that it starts from."""
    patch = status_patch(view, record, now)
    patch["metadata"]["annotations"][PROBE_OWNER_ANNOTATION] = ProbeOwner.GPU_MONITOR.value
    return patch


def condition_entry(state: ConditionState, now: datetime) -> dict[str, str]:
    """The condition as an entry of a Node's `status.conditions`."""
    return {
        "type": state.type,
        "status": state.status.value,
        "reason": str(state.reason),
        "message": state.message,
        "lastHeartbeatTime": _text(now),
        "lastTransitionTime": _text(state.last_transition),
    }


def _fence(view: NodeView) -> dict[str, str]:
    return {"uid": view.uid, "resourceVersion": view.version}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
