"""What a person should do about an operation that waits for one: for the issue, and for the page.

Pure. docs/operations.md says the same at more length.
"""

from collections.abc import Mapping
from types import MappingProxyType

from remediator.operation.model import NodeOperation
from remediator.operation.reasons import Reason

_ADVICE: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.AMBIGUOUS: "nobody knows whether the last repair happened: look at the node before"
        " anything else",
        Reason.RUNGS_EXHAUSTED: "no known fix helped: inspect the hardware",
        Reason.TOO_MANY_OPERATIONS: "repairs do not last: inspect the hardware",
        Reason.DRAIN_DEADLINE: "the pods named above do not leave: talk to their owners",
        Reason.POD_CANNOT_GO: "the pods named above cannot leave: talk to their owners",
        Reason.GATE_DEADLINE: "find out what holds it back for so long",
        Reason.CANNOT_PROVE: "the checks do not answer: look at the node's agent and at monitoring",
        Reason.CANNOT_ISOLATE: "the API does not take the taint: the remediator's log has its answer",
        Reason.CANNOT_RELEASE: "the API does not let the taint go: the remediator's log has its answer",
        Reason.PLAYBOOK_GONE: "bring the playbook back into the configuration, or take the node over",
        Reason.INVALID_OPERATION: "find out who edited the operation, and look at the node",
    }
)


def what_next(operation: NodeOperation, reason: Reason) -> str:
    """One sentence: what to do about an operation that has escalated for this reason, and how it ends then."""
    node = operation.spec.node
    advice = _ADVICE.get(reason, "a person must look at the node")
    after = (
        f"when it is well, `remediator release {node}` proves it and returns it"
        if operation.status.isolated
        else f"`remediator cancel {operation.name}` ends it"
    )
    return f"{advice}; {after}"
