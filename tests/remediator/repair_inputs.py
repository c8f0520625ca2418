"""Builders for what drain, proof and repair_jobs look at, with defaults that mean: nothing special."""

from datetime import UTC, datetime, timedelta
from typing import Any

from remediator.cluster import ConditionView, NodeView, PodView
from remediator.config import Rung
from remediator.operation import (
    Cause,
    CauseKind,
    Intent,
    IntentAction,
    NodeOperation,
    OperationSpec,
    OperationStatus,
    Phase,
    Trigger,
    job_name,
)

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
UID = "11111111-2222-4333-8444-555555555555"


def at(seconds: float = 0) -> datetime:
    return START + timedelta(seconds=seconds)


def an_operation(*causes: Cause, **status: Any) -> NodeOperation:
    status = {
        "phase": Phase.DRAINING,
        "since": START,
        "rung": 0,
        "attempt": 1,
        "boot_id": "boot-2",
        **status,
    }
    return NodeOperation(
        name="no-0123456789abcdef0123",
        uid=UID,
        resource_version="7",
        created_at=START,
        spec=OperationSpec("n1", "gpu", Trigger.ALERT, 1, causes=causes),
        status=OperationStatus(**status),
    )


def an_alert(name: str = "GPULost", fingerprint: str = "00000000000000aa", **labels: str) -> Cause:
    return Cause(CauseKind.ALERT, name, START, fingerprint, labels=labels)


def a_condition(name: str = "GPUIsLost") -> Cause:
    return Cause(CauseKind.CONDITION, name, START)


def an_intent(boot_id: str = "boot-1") -> Intent:
    return Intent(IntentAction.RUN_JOB, START, boot_id, job_name(UID, 0, 1), destructive=True)


def a_pod(name: str = "p", **values: Any) -> PodView:
    values = {"owner_kind": "ReplicaSet", "namespace": "ml", **values}
    return PodView(name=name, uid=values.pop("uid", f"uid-{name}"), **values)


def a_node(**values: Any) -> NodeView:
    return NodeView(**{"name": "n1", "uid": "node-uid", "boot_id": "boot-2", **values})


def judged(type_: str, status: str, heartbeat: datetime, since: datetime = START) -> ConditionView:
    return ConditionView(type_, status, since, heartbeat, reason="SomeReason")


def a_rung(kind: str = "reboot", arguments: dict[str, Any] | None = None, **values: Any) -> Rung:
    return Rung.model_validate({"name": "fix", "repair": {kind: arguments or {}}, **values})
