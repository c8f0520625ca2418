"""Writes conditions of one node to the Kubernetes API: ours, and nobody else's.

`plan` is the pure half: what a patch must hold. `writer` sends it: changes at once, heartbeats slowly, failures again.
"""

from exporters.condition_writer.plan import (
    OWNED_ANNOTATION,
    NodeView,
    Wanted,
    next_heartbeat,
    plan_patch,
    view_of,
)
from exporters.condition_writer.writer import ConditionWriter, PatchResult

__all__ = [
    "OWNED_ANNOTATION",
    "ConditionWriter",
    "NodeView",
    "PatchResult",
    "Wanted",
    "next_heartbeat",
    "plan_patch",
    "view_of",
]
