"""What the active probe says, once everything else holds.

Pure. Only a result of this boot and from after the repair counts.
"""

from datetime import timedelta
from enum import StrEnum

from remediator.cluster import NodeView, ProbeState, ProbeView
from remediator.proof.findings import Times

_AGAIN_AFTER = timedelta(minutes=1)
"""A probe that could not tell is asked for again, as often as that."""


class ProbeSays(StrEnum):
    """What is to be done about the probe."""

    PASSED = "passed"
    FAILED = "failed"
    ASK = "ask"
    WAIT = "wait"


def probe_says(probe: ProbeView, node: NodeView | None, times: Times) -> ProbeSays:
    """Whether the probe has passed, has found a problem, is awaited, or is to be asked for (again)."""
    if probe.state is ProbeState.NOT_ASKED:
        return ProbeSays.ASK
    if probe.state is ProbeState.ASKED:
        return ProbeSays.WAIT
    at = probe.at
    if at is None or at <= times.fixed or node is None or _other_boot(probe, node):
        return ProbeSays.ASK  # the answer to an earlier question
    if probe.state is ProbeState.INCONCLUSIVE:
        return ProbeSays.ASK if times.now >= at + _AGAIN_AFTER else ProbeSays.WAIT
    return ProbeSays.PASSED if probe.state is ProbeState.PASSED else ProbeSays.FAILED


def _other_boot(probe: ProbeView, node: NodeView) -> bool:
    return not node.boot_id or probe.boot_id != node.boot_id
