"""When a node's condition is written anew although no probe has ended: heartbeats, and after a reboot. Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from exporters.gpu_monitor.nodes import MonitoredNode
from exporters.gpu_monitor.patches import status_patch
from exporters.gpu_monitor.record import current_record
from exporters.probe_pods import Outcome, PodView

_JITTER = 0.2
_AT_ONCE = 100


def due(
    nodes: Iterable[MonitoredNode], period: timedelta, now: datetime
) -> tuple[MonitoredNode, ...]:
    """The nodes to write now, those first whose condition is about another boot, then the oldest; not too many.

    For a node whose kubelet is silent nobody can vouch.
    """
    ours = [node for node in nodes if node.is_ours and node.is_ready and not node.is_deleting]
    found = [node for node in ours if _is_due(node, period, now)]
    found.sort(
        key=lambda node: (not _is_outdated(node), node.heartbeat is not None, node.heartbeat)
    )
    return tuple(found[:_AT_ONCE])


def patch(node: MonitoredNode, *, now: datetime) -> Mapping[str, Any] | None:
    """The condition as it is known, with a new heartbeat; None if the node is not ours any more."""
    if not node.is_ours:
        return None
    return status_patch(node.view, current_record(node.record, node.view, node.boot_id, now), now)


def out_of_time(pod: PodView) -> PodView:
    """A pod that its kubelet has not ended in time, as one that it has."""
    return replace(pod, trouble=pod.trouble or Outcome.TIMEOUT)


def _is_outdated(node: MonitoredNode) -> bool:
    return node.record is None or node.record.boot_id != node.boot_id


def _is_due(node: MonitoredNode, period: timedelta, now: datetime) -> bool:
    if _is_outdated(node) or node.heartbeat is None:
        return True
    age = now - node.heartbeat
    if age < period * (1 - _JITTER):
        return False
    dice = hashlib.sha256(f"{node.name} {node.heartbeat}".encode("utf-8", "replace")).digest()[0]
    return age >= period * (1 - _JITTER + 2 * _JITTER * dice / 255)
