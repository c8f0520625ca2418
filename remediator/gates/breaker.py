"""The circuit breaker: too much of the fleet out at once means that the fault is not the nodes'.

Pure. Opens by itself, closes only by a person; then the present alone counts, and isolations from
before the reset do not.
"""

from collections.abc import Iterable
from datetime import datetime

from remediator.budgets import unavailable
from remediator.cluster import BreakerState, Fleet
from remediator.config import Breaker
from remediator.operation import NodeOperation


def breaker_after(
    fleet: Fleet, operations: Iterable[NodeOperation], settings: Breaker, now: datetime
) -> BreakerState | None:
    """The state to remember before anything is done in this pass; None leaves it as it is."""
    counted = [node for node in fleet.nodes.values() if node.counts]
    if fleet.breaker.open or not settings.enabled or len(counted) < settings.min_nodes:
        return None
    operations = list(operations)
    limit = settings.max_unavailable.limit(len(counted))
    since = max(now - settings.within, fleet.breaker.reset_at or now - settings.within)
    lately = {
        each.spec.node
        for each in operations
        if each.status.isolated_at is not None and each.status.isolated_at > since
    }
    out = {
        name for name in unavailable(fleet, operations) if _is_ours_or_down(fleet, operations, name)
    }
    affected = (lately & set(fleet.nodes)) | out
    if len(affected) <= limit:
        return None
    text = (
        f"{len(affected)} of {len(counted)} nodes are isolated or not Ready, more than"
        f" {settings.max_unavailable} ({limit}); find the common cause, then `remediator resume`"
    )
    return BreakerState(open=True, since=now, text=text, reset_at=fleet.breaker.reset_at)


def _is_ours_or_down(fleet: Fleet, operations: list[NodeOperation], name: str) -> bool:
    # A person's cordon is no fault: rolling maintenance must not open the breaker.
    node = fleet.nodes[name]
    held = any(each.holds_capacity and each.spec.node == name for each in operations)
    return held or node.operation_taint is not None or not node.is_ready
