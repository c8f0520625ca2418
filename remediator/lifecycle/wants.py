"""What must be read to decide about an operation: only what its phase looks at. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from remediator.config import Playbook, Query
from remediator.operation import IntentAction, NodeOperation, Phase

_PODS = frozenset({Phase.GATED, Phase.DRAINING, Phase.EXECUTING})
_ALERTS_IDLE = frozenset({Phase.EXECUTING, Phase.AWAITING_RETURN})
_PROOF = frozenset({Phase.VERIFYING, Phase.RELEASING})


@dataclass(frozen=True, slots=True)
class Wants:
    """What to read beside the node: pods, the Job by its name, alerts, queries (PromQL by name), probe."""

    pods: bool = False
    job: str = ""
    alerts: bool = False
    queries: Mapping[str, str] = field(default_factory=dict)
    probe: bool = False


def wants(operation: NodeOperation, playbook: Playbook | None) -> Wants:
    """What the next decision about an operation looks at."""
    status = operation.status
    intent = status.intent
    runs_job = intent is not None and intent.action is IntentAction.RUN_JOB
    ended = status.phase.is_final and status.clear_since is not None
    return Wants(
        pods=status.phase in _PODS,
        job=intent.job if intent is not None and runs_job else "",
        alerts=not ended and status.phase not in _ALERTS_IDLE,
        queries=_queries(operation, playbook),
        probe=status.phase in _PROOF,
    )


def _queries(operation: NodeOperation, playbook: Playbook | None) -> dict[str, str]:
    if playbook is None:
        return {}
    asked: tuple[Query, ...] = ()
    if operation.status.phase is Phase.GATED:
        asked = playbook.gates.guards
    elif operation.status.phase in _PROOF:
        asked = playbook.proof.queries
    node = operation.spec.node.replace("\\", "\\\\").replace('"', '\\"')
    return {each.name: each.expr.replace("{{ node }}", node) for each in asked}
