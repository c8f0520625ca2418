"""Operations whose playbook or rung the configuration has no more: nothing new is done, yet a person can end them. Pure."""

from datetime import datetime

from remediator.cluster import NodeView, Observation, Release
from remediator.config import Playbook
from remediator.lifecycle.ending import RELEASE
from remediator.lifecycle.step import LOOK_AGAIN, Act, Step, Wait, record
from remediator.operation import Intent, IntentAction, NodeOperation, Phase, Reason, Wish

_BEGINS = frozenset({Phase.RECEIVED, Phase.GATED})
_NEED_NO_RUNG = _BEGINS | {Phase.RELEASING, Phase.ESCALATED}


def without_playbook(
    operation: NodeOperation, observation: Observation, playbook: Playbook | None, now: datetime
) -> Step | None:
    """What becomes of an operation whose playbook or rung is gone; None if both are there."""
    missing, status, node = _missing(operation, playbook), operation.status, observation.node
    if missing is None or node is None:
        return None
    if status.phase in _BEGINS:
        return record(operation, now, Phase.CANCELLED, Reason.PLAYBOOK_GONE, missing)
    if status.phase is Phase.RELEASING and status.reason is Reason.CANCELLED_BY_PERSON:
        return _given_back(operation, node, now)
    if status.phase is Phase.ESCALATED:
        return _escalated(operation, node, missing, now)
    return record(operation, now, Phase.ESCALATED, Reason.PLAYBOOK_GONE, missing, clear_since=None)


def _missing(operation: NodeOperation, playbook: Playbook | None) -> str | None:
    status = operation.status
    if playbook is None:
        return f"the configuration has no playbook {operation.spec.playbook}"
    # What a person has asked to be proven goes back to the person, and never up the ladder.
    asked = status.phase is Phase.VERIFYING and status.wish is not None
    if asked or status.phase in _NEED_NO_RUNG:
        return None
    names = [rung.name for rung in playbook.ladder]
    if names[status.rung : status.rung + 1] == [status.rung_name]:
        return None
    return f"the playbook has no rung {status.rung_name} at place {status.rung + 1} any more"


def _escalated(operation: NodeOperation, node: NodeView, missing: str, now: datetime) -> Step:
    """Without a playbook nothing can be proven: only what was never touched is given back."""
    status, tainted = operation.status, node.operation_taint == operation.name
    if tainted is not status.isolated:
        return _as_it_stands(operation, now, tainted=tainted)
    if status.wish is None:
        return Wait(None, status.reason, missing)
    if not tainted:
        text = f"closed by {status.wish_by}; the node was in service all the time"
        return record(operation, now, Phase.CANCELLED, Reason.CANCELLED_BY_PERSON, text, wish=None)
    if status.wish is Wish.CANCEL and not operation.repaired:
        return record(
            operation,
            now,
            Phase.RELEASING,
            Reason.CANCELLED_BY_PERSON,
            f"cancelled by {status.wish_by} before any repair",
            intent=Intent(IntentAction.RELEASE, now, node.boot_id),
            deadline=now + RELEASE,
        )
    text = (
        f"asked for by {status.wish_by}, but {missing}, so nothing can prove the node;"
        " put the playbook back, or look at the node and take the taint off"
    )
    return record(operation, now, Phase.ESCALATED, Reason.PLAYBOOK_GONE, text, wish=None)


def _as_it_stands(operation: NodeOperation, now: datetime, *, tainted: bool) -> Step:
    if tainted:
        text = "our taint stands after all"
        return record(operation, now, Phase.ESCALATED, operation.status.reason, text, isolated=True)
    text = "our taint was removed by somebody; the node is theirs now"
    return record(
        operation,
        now,
        Phase.CANCELLED,
        Reason.TAINT_REMOVED,
        text,
        isolated=False,
        clear_since=None,
        wish=None,
    )


def _given_back(operation: NodeOperation, node: NodeView, now: datetime) -> Step:
    status = operation.status
    if node.operation_taint != operation.name:
        return record(
            operation,
            now,
            Phase.CANCELLED,
            Reason.CANCELLED_BY_PERSON,
            status.message,
            isolated=False,
            wish=None,
        )
    if status.deadline is not None and now >= status.deadline:
        text = "the taint could not be taken off in time"
        return record(operation, now, Phase.ESCALATED, Reason.CANNOT_RELEASE, text, wish=None)
    effect = Release(node.name, node.uid, operation.name, operation.uid)
    return Act((effect,), now + LOOK_AGAIN)
