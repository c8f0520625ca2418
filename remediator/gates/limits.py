"""How often: since the node's last operation, in the fleet's last hour, on this node in a week. Pure."""

from remediator.cluster import Open, Verdict
from remediator.gates.case import GateCase
from remediator.operation import HeldBy, NodeOperation


def cooldown(case: GateCase) -> Verdict:
    """Some time passes between two operations on one node."""
    ended = [
        each.status.ended_at
        for each in case.same_node
        if each.status.ended_at is not None and each.status.isolated_at is not None
    ]
    if not ended or case.now >= (until := max(ended) + case.playbook.gates.cooldown):
        return Open()
    return HeldBy("cooldown", "the node's last operation has only just ended", until)


def rate_limit(case: GateCase) -> Verdict:
    """Only so many nodes are isolated in a stretch of time."""
    limit = case.config.rate_limit
    lately = sorted(
        each.status.isolated_at
        for each in case.others
        if each.status.isolated_at is not None and each.status.isolated_at > case.now - limit.per
    )
    if len(lately) < limit.isolations:
        return Open()
    free = lately[len(lately) - limit.isolations] + limit.per
    return HeldBy("rate_limit", f"{limit.isolations} nodes were isolated lately", free)


def too_many_operations(case: GateCase) -> list[NodeOperation]:
    """The repairs on this node that make another one pointless; empty while there are few."""
    limit = case.playbook.operations_limit
    counted = [
        each
        for each in case.same_node
        if each.repaired
        and each.status.node_uid == case.node.uid
        and each.status.attempts[-1].started_at > case.now - limit.within
    ]
    return counted if len(counted) >= limit.count else []
