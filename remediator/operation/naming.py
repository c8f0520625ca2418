"""The names by which an operation, its Jobs and its marks are found again after a crash.

Pure. Deterministic, so that doing something twice meets the first one instead of making a second.
"""

from hashlib import sha256

from chassis.contracts import DOMAIN

SCALE_DOWN_MARK = f"{DOMAIN}/scale-down-marked"
"""On a Node: the operation that switched scale-down off, so that only it switches it on again."""
APPROVED_BY = f"{DOMAIN}/approved-by"
CANCELLED_BY = f"{DOMAIN}/cancelled-by"
RELEASE_REQUESTED_BY = f"{DOMAIN}/release-requested-by"
CHECKPOINT_REQUEST = f"{DOMAIN}/checkpoint-request"
"""On a Pod: the operation before whose eviction a checkpoint is to be written."""
CHECKPOINT_DONE = f"{DOMAIN}/checkpoint-done"
"""On a Pod, written by its owner: the operation whose request is fulfilled."""
PAUSED = f"{DOMAIN}/remediation-paused"
"""On a Node: no new operation begins there; the value says who paused it."""
FINALIZER = f"{DOMAIN}/node-operation"
"""Keeps an operation that is being deleted until its node is left in order."""

OPERATION_UID_LABEL = f"{DOMAIN}/operation-uid"
OPERATION_LABEL = f"{DOMAIN}/operation"
RUNG_LABEL = f"{DOMAIN}/rung"
ATTEMPT_LABEL = f"{DOMAIN}/attempt"

_DIGITS = 20


def operation_name(node_uid: str, episode: int) -> str:
    """The name of the operation for a node's fault episode, `no-` and 20 hexadecimal digits."""
    digest = sha256(f"{node_uid}/{episode}".encode()).hexdigest()
    return f"no-{digest[:_DIGITS]}"


def job_name(operation_uid: str, rung: int, attempt: int) -> str:
    """The name of the Job of one attempt: `op-`, the operation's UID, rung, attempt."""
    return f"op-{operation_uid}-{rung}-{attempt}"
