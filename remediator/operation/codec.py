"""NodeOperation objects as JSON, read strictly and written whole.

Pure. Kubernetes has checked an object against the CRD, but people edit, and an older CRD may stand:
whatever cannot be read is told with its place and never guessed. Times are RFC 3339 in UTC.
"""

from collections.abc import Mapping
from typing import Any

from chassis.contracts import DOMAIN, TimelineOutcome
from remediator.operation.fields import Fields, compact
from remediator.operation.model import (
    MAX_ATTEMPTS,
    MAX_CAUSES,
    MAX_HISTORY,
    Attempt,
    Cause,
    HeldBy,
    HistoryEntry,
    Intent,
    NodeOperation,
    OperationSpec,
    OperationStatus,
)
from remediator.operation.reasons import (
    AttemptOutcome,
    CauseKind,
    IntentAction,
    Phase,
    Reason,
    Trigger,
    Wish,
)

API_VERSION = f"{DOMAIN}/v1alpha1"
"""The CRD is named nodeoperations.nodemend.dev: the resource and the group."""
KIND = "NodeOperation"


def read(raw: Mapping[str, Any]) -> NodeOperation:
    """The operation in an object of the API.

    Raises:
        PermanentError: A field is missing or wrong; the message names it.
    """
    whole = Fields(raw, "NodeOperation")
    metadata = whole.inner("metadata")
    name = metadata.text("name", needed=True)
    whole = whole.at(f"NodeOperation {name}")
    metadata = whole.inner("metadata")
    return NodeOperation(
        name=name,
        uid=metadata.text("uid"),
        resource_version=metadata.text("resourceVersion"),
        created_at=metadata.needed_time("creationTimestamp"),
        spec=_spec(whole.inner("spec")),
        status=_status(whole.inner("status", needed=False)),
        annotations=metadata.texts("annotations"),
        deleting=metadata.time("deletionTimestamp") is not None,
    )


def _spec(fields: Fields) -> OperationSpec:
    return OperationSpec(
        node=fields.text("nodeName", needed=True),
        playbook=fields.text("playbook", needed=True),
        trigger=fields.word("trigger", Trigger),
        episode=fields.number("episode", 1),
        dry_run=fields.flag("dryRun"),
        requested_by=fields.text("requestedBy"),
        causes=tuple(_cause(each) for each in fields.each("causes", MAX_CAUSES)),
    )


def _cause(fields: Fields) -> Cause:
    return Cause(
        kind=fields.word("kind", CauseKind),
        name=fields.text("name", needed=True),
        since=fields.needed_time("startsAt"),
        fingerprint=fields.text("fingerprint"),
        text=fields.text("text"),
        labels=fields.texts("labels"),
    )


def _status(fields: Fields) -> OperationStatus:
    intent = fields.optional("intent")
    return OperationStatus(
        phase=fields.word("phase", Phase, Phase.RECEIVED),
        reason=fields.word("reason", Reason, Reason.ACCEPTED),
        message=fields.text("message"),
        since=fields.time("since"),
        deadline=fields.time("deadline"),
        wake_at=fields.time("wakeAt"),
        node_uid=fields.text("nodeUID"),
        boot_id=fields.text("bootID"),
        rung=fields.number("rung"),
        rung_name=fields.text("rungName"),
        attempt=fields.number("attempt"),
        isolated=fields.flag("isolated"),
        isolated_at=fields.time("isolatedAt"),
        intent=None if intent is None else _intent(intent),
        attempts=tuple(_attempt(each) for each in fields.each("attempts", MAX_ATTEMPTS)),
        held_by=tuple(_held_by(each) for each in fields.each("gates", MAX_HISTORY)),
        history=tuple(_entry(each) for each in fields.each("history", MAX_HISTORY)),
        fixed_at=fields.time("fixedAt"),
        clear_since=fields.time("clearSince"),
        wish=fields.optional_word("wish", Wish),
        wish_by=fields.text("wishBy"),
        told=fields.number("told"),
        ended_at=fields.time("endedAt"),
        outcome=fields.optional_word("outcome", TimelineOutcome),
    )


def _intent(fields: Fields) -> Intent:
    return Intent(
        action=fields.word("action", IntentAction),
        at=fields.needed_time("at"),
        boot_id=fields.text("bootID"),
        job=fields.text("job"),
        destructive=fields.flag("destructive"),
        job_seen=fields.flag("jobSeen"),
        giving_up=fields.flag("givingUp"),
    )


def _attempt(fields: Fields) -> Attempt:
    return Attempt(
        rung=fields.number("rung"),
        number=fields.number("attempt"),
        started_at=fields.needed_time("startedAt"),
        ended_at=fields.time("endedAt"),
        outcome=fields.word("outcome", AttemptOutcome),
        text=fields.text("text"),
    )


def _held_by(fields: Fields) -> HeldBy:
    return HeldBy(fields.text("name", needed=True), fields.text("reason"), fields.time("until"))


def _entry(fields: Fields) -> HistoryEntry:
    return HistoryEntry(
        number=fields.number("number"),
        at=fields.needed_time("at"),
        phase=fields.word("phase", Phase),
        reason=fields.word("reason", Reason),
        rung=fields.number("rung"),
        attempt=fields.number("attempt"),
        text=fields.text("text"),
    )


def spec_json(spec: OperationSpec) -> dict[str, Any]:
    """The object's `spec`."""
    return compact(
        nodeName=spec.node,
        playbook=spec.playbook,
        trigger=spec.trigger.value,
        episode=spec.episode,
        dryRun=spec.dry_run,
        requestedBy=spec.requested_by,
        causes=[cause_json(each) for each in spec.causes],
    )


def cause_json(cause: Cause) -> dict[str, Any]:
    """One entry of `spec.causes`."""
    return compact(
        kind=cause.kind.value,
        name=cause.name,
        startsAt=cause.since,
        fingerprint=cause.fingerprint,
        text=cause.text,
        labels=dict(cause.labels),
    )


def status_json(status: OperationStatus) -> dict[str, Any]:
    """The object's `status`, whole: what is absent is empty."""
    return compact(
        phase=status.phase.value,
        reason=status.reason.value,
        message=status.message,
        since=status.since,
        deadline=status.deadline,
        wakeAt=status.wake_at,
        nodeUID=status.node_uid,
        bootID=status.boot_id,
        rung=status.rung,
        rungName=status.rung_name,
        attempt=status.attempt,
        isolated=status.isolated,
        isolatedAt=status.isolated_at,
        intent=None if status.intent is None else _intent_json(status.intent),
        attempts=[_attempt_json(each) for each in status.attempts],
        gates=[
            compact(name=each.gate, reason=each.text, until=each.until) for each in status.held_by
        ],
        history=[_entry_json(each) for each in status.history],
        fixedAt=status.fixed_at,
        clearSince=status.clear_since,
        wish=status.wish and status.wish.value,
        wishBy=status.wish_by,
        told=status.told,
        endedAt=status.ended_at,
        outcome=status.outcome and status.outcome.value,
    )


def _intent_json(intent: Intent) -> dict[str, Any]:
    return compact(
        action=intent.action.value,
        at=intent.at,
        bootID=intent.boot_id,
        job=intent.job,
        destructive=intent.destructive,
        jobSeen=intent.job_seen,
        givingUp=intent.giving_up,
    )


def _attempt_json(attempt: Attempt) -> dict[str, Any]:
    return compact(
        rung=attempt.rung,
        attempt=attempt.number,
        startedAt=attempt.started_at,
        endedAt=attempt.ended_at,
        outcome=attempt.outcome.value,
        text=attempt.text,
    )


def _entry_json(entry: HistoryEntry) -> dict[str, Any]:
    return compact(
        number=entry.number,
        at=entry.at,
        phase=entry.phase.value,
        reason=entry.reason.value,
        rung=entry.rung,
        attempt=entry.attempt,
        text=entry.text,
    )


def to_json(operation: NodeOperation) -> dict[str, Any]:
    """The whole object, as it would be sent; server-side fields only where they are known."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": compact(
            name=operation.name,
            uid=operation.uid,
            resourceVersion=operation.resource_version,
            creationTimestamp=operation.created_at,
            annotations=dict(operation.annotations),
            deletionTimestamp=operation.created_at if operation.deleting else None,
        ),
        "spec": spec_json(operation.spec),
        "status": status_json(operation.status),
    }
