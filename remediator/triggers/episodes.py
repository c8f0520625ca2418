"""Whether a fault is a new episode of its node, joins the running operation, or is known already.

Pure. Derived from the stored operations and nothing else, so a restart replays nothing: a fault that
has fired all along since an operation ended begins no new one before it was seen clear.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from remediator.operation import MAX_CAUSES, Cause, CauseKind, NodeOperation


@dataclass(frozen=True, slots=True)
class NewEpisode:
    """The operation of this number is to be made."""

    number: int


@dataclass(frozen=True, slots=True)
class Join:
    """The fault becomes a cause of this operation."""

    operation: str


@dataclass(frozen=True, slots=True)
class Ignore:
    """Nothing changes."""

    operation: str
    text: str


Episode = NewEpisode | Join | Ignore


def episode(node_uid: str, cause: Cause, operations: Iterable[NodeOperation]) -> Episode:
    """What a fault means, given all stored operations of nodes of this name.

    Args:
        node_uid: Of the node now; operations of an earlier node of the name do not count.
        cause: The fault, firing.
        operations: Those of the node, finished ones included.
    """
    ours = [each for each in operations if each.status.node_uid in {"", node_uid}]
    active = sorted((each for each in ours if each.active), key=lambda each: each.age_order)
    if active:
        return _with_active(active[0], cause)
    if not ours:
        return NewEpisode(1)
    number = max(each.spec.episode for each in ours)
    # One that people made by hand may have any number: the one that ended last tells what was seen since.
    last = max(ours, key=lambda each: (each.status.ended_at or each.created_at, each.spec.episode))
    if cause.kind is CauseKind.PERSON or _is_later(last, cause):
        return NewEpisode(number + 1)
    return Ignore(last.name, "the fault has not been seen clear since this operation ended")


def _with_active(operation: NodeOperation, cause: Cause) -> Episode:
    if any(each.key == cause.key for each in operation.spec.causes):
        return Ignore(operation.name, "the operation knows this cause")
    if len(operation.spec.causes) >= MAX_CAUSES:
        return Ignore(operation.name, f"the operation has {MAX_CAUSES} causes already")
    return Join(operation.name)


def _is_later(last: NodeOperation, cause: Cause) -> bool:
    # The lifecycle writes clear_since when it proves a node, and for an operation that ended in
    # another way when it sees all causes clear after the end.
    seen_clear = last.status.clear_since
    if seen_clear is None:
        return False
    if cause.kind is CauseKind.CONDITION:
        # Conditions tell whole seconds: one that stands again within the second of the clear is later.
        return cause.since >= seen_clear.replace(microsecond=0)
    return cause.since > seen_clear
