"""Builders for the tests of the remediator: small operations, nodes, playbooks with sensible parts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from remediator.cluster import (
    AlertView,
    ConditionView,
    Fleet,
    NodeView,
    Observation,
    PodView,
    Sight,
)
from remediator.config import Config
from remediator.operation import (
    Cause,
    CauseKind,
    NodeOperation,
    OperationSpec,
    OperationStatus,
    Phase,
    Trigger,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
START = NOW - timedelta(hours=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
FINGERPRINT = "00000000000000aa"

REBOOT: dict[str, Any] = {"name": "reboot", "repair": {"reboot": {}}}
REMOUNT: dict[str, Any] = {"name": "remount", "repair": {"remount_nfs": {}}}
HAND_OVER: dict[str, Any] = {"name": "person", "repair": {"hand_over": {"text": "Open a ticket."}}}
CONDITION: dict[str, Any] = {"any": [{"type": "GPUIsLost", "for": "1m"}]}


def playbook_of(**changes: Any) -> dict[str, Any]:
    """One playbook as the file has it: acts for real on a condition, by a reboot."""
    whole = {
        "name": "gpu",
        "conditions": CONDITION,
        "dry_run": False,
        "ladder": [REBOOT],
        "proof": {"soak": "1m", "deadline": "10m"},
        "gates": {"cooldown": "0s"},
    }
    return whole | changes


def config_of(*playbooks: dict[str, Any], **changes: Any) -> Config:
    """A configuration of these playbooks, one if none is given; no breaker unless it is asked for."""
    whole = {"playbooks": playbooks or (playbook_of(),), "breaker": {"enabled": False}}
    return Config.model_validate(whole | changes)


def node_of(name: str = "n1", **changes: Any) -> NodeView:
    """A healthy node."""
    return replace(NodeView(name, f"uid-{name}", "boot-1"), **changes)


def condition_of(status: str = "True", **changes: Any) -> ConditionView:
    """GPUIsLost, standing for an hour and judged now."""
    return replace(ConditionView("GPUIsLost", status, START, NOW), **changes)


def faulty(name: str = "n1", **changes: Any) -> NodeView:
    """A node with the fault that the playbook is for."""
    return node_of(name, **({"conditions": {"GPUIsLost": condition_of()}} | changes))


def pod_of(name: str = "job", **changes: Any) -> PodView:
    """A pod of a ReplicaSet."""
    pod = PodView("default", name, f"uid-{name}", owner_kind="ReplicaSet", owner_name="rs")
    return replace(pod, **changes)


def cause_of(kind: CauseKind = CauseKind.CONDITION, **changes: Any) -> Cause:
    """The condition, or an alert, that began an operation."""
    name, print_ = ("GPUIsLost", "") if kind is not CauseKind.ALERT else ("GPUDown", FINGERPRINT)
    return replace(Cause(kind, name, START, print_), **changes)


def operation_of(name: str = "no-1", **changes: Any) -> NodeOperation:
    """An operation on n1 that has just been made; keys of spec and status may be given directly."""
    spec = OperationSpec("n1", "gpu", Trigger.CONDITION, 1, causes=(cause_of(),))
    status = OperationStatus()
    for key in list(changes):
        if hasattr(spec, key) and key != "name":
            spec = replace(spec, **{key: changes.pop(key)})
        elif hasattr(status, key):
            status = replace(status, **{key: changes.pop(key)})
    made = NodeOperation(name, f"uid-{name}", "1", START, spec, status)
    return replace(made, **changes)


def pinned(name: str = "no-1", phase: Phase = Phase.GATED, **changes: Any) -> NodeOperation:
    """An operation in a phase, with what belongs to it: node and boot pinned, isolated if so."""
    calm = {Phase.RECEIVED, Phase.GATED}
    whole: dict[str, Any] = {
        "phase": phase,
        "since": NOW - MINUTE,
        "node_uid": f"uid-{changes.get('node', 'n1')}",
        "boot_id": "boot-1",
        "rung_name": "reboot",
        "isolated": phase not in calm,
        "isolated_at": None if phase in calm else NOW - MINUTE,
        "deadline": NOW + HOUR,
    }
    return operation_of(name, **(whole | changes))


def fleet_of(*nodes: NodeView, **changes: Any) -> Fleet:
    """These nodes, read now."""
    return replace(Fleet(NOW, {each.name: each for each in nodes}), **changes)


def seen(node: NodeView | None = None, **changes: Any) -> Observation:
    """The node, read now, without pods."""
    return replace(Observation(NOW, node, pods=()), **changes)


def alert_of(sight: Sight = Sight.FIRING, **changes: Any) -> AlertView:
    """The alert of `cause_of(CauseKind.ALERT)`, read now."""
    return replace(AlertView(FINGERPRINT, sight, NOW, START), **changes)
