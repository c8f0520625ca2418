"""What holds in every phase: node gone or replaced, a person's word, our taint removed. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from chassis.contracts import PROBE_REQUEST_ANNOTATION
from remediator.cluster import DeleteJob, ForgetWish, JobState, NodeView, Observation, Release
from remediator.config import Config
from remediator.lifecycle.step import LOOK_AGAIN, Act, Case, Record, Step, Wait, clipped, record
from remediator.operation import (
    CANCELLED_BY,
    RELEASE_REQUESTED_BY,
    SCALE_DOWN_MARK,
    IntentAction,
    NodeOperation,
    Phase,
    Reason,
    Wish,
)

DELETION = "the deletion of the operation"
"""Stands for the person in `wish_by` when the object is being deleted."""
REMOVAL = timedelta(minutes=10)
"""How long a Job that must not begin any more may take to go before a person is told."""

_WISHES = ((CANCELLED_BY, Wish.CANCEL), (RELEASE_REQUESTED_BY, Wish.RELEASE))
_TAINT_EXPECTED = frozenset(
    {
        Phase.ISOLATED,
        Phase.DRAINING,
        Phase.EXECUTING,
        Phase.AWAITING_RETURN,
        Phase.VERIFYING,
        Phase.RETRYING,
        Phase.NEXT_RUNG,
        Phase.ESCALATED,
    }
)
_BEGINS = frozenset({Phase.RECEIVED, Phase.GATED})


def without_node(operation: NodeOperation, observation: Observation, now: datetime) -> Step | None:
    """The end of an operation whose node is gone, or another one under the same name."""
    node = observation.node
    if node is None:
        text = "there is no node of this name"
        return record(operation, now, Phase.NODE_GONE, Reason.NODE_DELETED, text, isolated=False)
    pinned = operation.status.node_uid
    if pinned and pinned != node.uid:
        text = "the node was deleted, and another one has its name"
        return record(operation, now, Phase.SUPERSEDED, Reason.NODE_REPLACED, text, isolated=False)
    return None


def inconsistent(operation: NodeOperation) -> str | None:
    """Why the stored status cannot be ours: somebody edited it by hand."""
    status = operation.status
    if status.phase in _BEGINS:
        return None
    if not status.node_uid:
        return "status.nodeUID is missing"
    if operation.spec.dry_run:
        return "a dry run never comes to this phase"
    if status.since is None:
        return "status.since is missing"
    if status.phase in _TAINT_EXPECTED - {Phase.ESCALATED} and not status.isolated:
        return "status.isolated is not set"
    return None


def wish(operation: NodeOperation, now: datetime) -> Step | None:
    """Take a person's annotation into the status, and only then off the object."""
    status = operation.status
    for annotation, wanted in _WISHES:
        by = operation.annotations.get(annotation)
        if not by:
            continue
        useless = wanted is Wish.RELEASE and status.phase is not Phase.ESCALATED
        if useless or (status.wish, status.wish_by) == (wanted, clipped(by)):
            effect = ForgetWish(operation.name, annotation, by)
            return Act((effect,), now + LOOK_AGAIN)
        return _take_up(operation, now, wanted, clipped(by))
    if operation.deleting and status.wish is None and status.wish_by != DELETION:
        return _take_up(operation, now, Wish.CANCEL, DELETION)
    return None


def _take_up(operation: NodeOperation, now: datetime, wanted: Wish, by: str) -> Step:
    status = operation.status
    return record(
        operation,
        now,
        status.phase,
        status.reason,
        status.message,
        wish=wanted,
        wish_by=by,
        held_by=status.held_by,
        deadline=status.deadline,
    )


def taint_removed(case: Case) -> Step | None:
    """A person who takes our taint off ends the operation."""
    status = case.status
    if not status.isolated or status.phase not in _TAINT_EXPECTED or case.tainted:
        return None
    text = "our taint was removed by somebody; the node is theirs now"
    return record(
        case.operation,
        case.now,
        Phase.CANCELLED,
        Reason.TAINT_REMOVED,
        text,
        isolated=False,
        clear_since=None,
    )


def without_its_job(
    operation: NodeOperation, observation: Observation, config: Config, now: datetime, end: Step
) -> Step:
    """An end that comes from outside, once a Job that was announced cannot begin behind it any more.

    One that has begun is let be. One that cannot be read or deleted is named to a person.
    """
    status, job = operation.status, observation.job
    intent = status.intent
    if intent is None or intent.action is not IntentAction.RUN_JOB or not intent.job:
        return end
    if not isinstance(end, Record) or end.status.phase is status.phase:
        return end
    unread = job is None or job.state is JobState.UNKNOWN or job.name != intent.job
    waits = job is not None and job.state is JobState.ACTIVE and not job.began
    if not unread and not waits:
        return end
    if now >= (status.deadline or status.since or intent.at) + REMOVAL:
        return _with_warning(end, f"Job {intent.job} may begin yet; delete it")
    if unread:
        return Wait(now + LOOK_AGAIN, status.reason, "the Job has not been read")
    return Act((DeleteJob(intent.job, config.jobs.namespace),), now + LOOK_AGAIN)


def _with_warning(end: Record, warning: str) -> Record:
    status = end.status
    text = clipped(f"{warning}. {status.message}")
    history = (*status.history[:-1], *(replace(last, text=text) for last in status.history[-1:]))
    return Record(replace(status, message=text, history=history))


def at_rest(
    operation: NodeOperation, observation: Observation, now: datetime, *, clear: bool
) -> Step:
    """An operation that has ended: take off what came late or was left, remember a fault seen clear."""
    status, node = operation.status, observation.node
    ours = node is not None and node.uid == status.node_uid and not operation.spec.dry_run
    late = ours and node is not None and _left(operation, node)
    if late and node is not None and status.phase in {Phase.SUCCEEDED, Phase.CANCELLED}:
        effect = Release(node.name, node.uid, operation.name, operation.uid)
        return Act((effect,), now + LOOK_AGAIN)
    if clear and status.clear_since is None:
        return record(operation, now, status.phase, status.reason, status.message, clear_since=now)
    return Wait(None, status.reason, status.message)


def _left(operation: NodeOperation, node: NodeView) -> bool:
    """Whether the node carries anything of this operation: a person who takes the taint off leaves the marks."""
    marked = node.annotations.get(SCALE_DOWN_MARK) == operation.name
    asked = node.annotations.get(PROBE_REQUEST_ANNOTATION) == operation.uid
    return node.operation_taint == operation.name or marked or (asked and bool(operation.uid))


def is_stale(observation: Observation, config: Config, now: datetime) -> bool:
    """Whether what is seen is too old to act on."""
    return observation.stale(now, config.freshness.nodes)


def without(operation: NodeOperation, others: Sequence[NodeOperation]) -> list[NodeOperation]:
    """The other operations: itself is never among them."""
    return [each for each in others if each.name != operation.name]
