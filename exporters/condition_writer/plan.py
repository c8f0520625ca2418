"""What a patch of a node's status must hold, from what is wanted and what the node has. Pure.

Types of others are never named in a patch. Which types are ours stands in an annotation of the node, changed by the
same patch as the conditions, so that a type that we no longer write can be removed after any restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from chassis.contracts import DOMAIN, PROBE_OWNER_ANNOTATION
from exporters.verdict import ConditionState, Status

OWNED_ANNOTATION = f"{DOMAIN}/owned-conditions"
"""On a Node: the condition types that the node agent writes, joined by commas."""
KUBERNETES_TYPES = frozenset(
    {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
)
_TEXT_LIMIT = 1024
_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class NodeView:
    """What matters here of a Node object."""

    name: str
    uid: str
    version: str
    annotations: Mapping[str, str]
    conditions: Mapping[str, ConditionState]
    heartbeats: Mapping[str, datetime]

    @property
    def owned(self) -> frozenset[str]:
        """The types that its annotation says are ours; never those of Kubernetes, whatever it says."""
        listed = self.annotations.get(OWNED_ANNOTATION, "").split(",")
        return frozenset(filter(None, listed)) - KUBERNETES_TYPES


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the node shall have.

    `conditions` are written. Of the types in `undecided` nothing is said yet: they are neither written nor removed.
    Those in `handed_over` stay on the node for another writer and are no longer ours. `annotations` are set, or with
    None removed.
    """

    conditions: Mapping[str, ConditionState] = field(default_factory=dict)
    undecided: frozenset[str] = frozenset()
    handed_over: frozenset[str] = frozenset()
    annotations: Mapping[str, str | None] = field(default_factory=dict)


_NOTHING: Mapping[str, ConditionState] = MappingProxyType({})


def plan_patch(
    wanted: Wanted,
    view: NodeView,
    written: Mapping[str, ConditionState] = _NOTHING,
    *,
    now: datetime,
    heartbeat: bool,
) -> dict[str, Any] | None:
    """The body for a strategic merge patch of the node's status, None if there is nothing to say.

    Args:
        wanted: The goal.
        view: The node as it is known.
        written: What we last wrote; a condition that differs from it is a change.
        now: For heartbeat times.
        heartbeat: Write all conditions, changed or not: this mends what others have changed, too.
    """
    conditions = {kind: state for kind, state in wanted.conditions.items() if _is_ours(kind)}
    changed = [kind for kind, state in conditions.items() if _differs(state, written.get(kind))]
    told = sorted(conditions if heartbeat or changed else ())
    gone = sorted(view.owned - conditions.keys() - wanted.undecided - wanted.handed_over)
    entries: list[dict[str, str]] = [_entry(conditions[kind], now) for kind in told]
    entries += [{"$patch": "delete", "type": kind} for kind in gone if kind in view.conditions]
    annotations = _annotation_changes(wanted, conditions, view)
    if not entries and not annotations:
        return None
    body: dict[str, Any] = {"metadata": {"uid": view.uid}}
    if annotations:
        body["metadata"]["annotations"] = annotations
    if PROBE_OWNER_ANNOTATION in annotations:
        body["metadata"]["resourceVersion"] = view.version  # of two that claim it, one shall win
    if entries:
        body["status"] = {"conditions": entries}
    return body


def _is_ours(kind: str) -> bool:
    return kind not in KUBERNETES_TYPES


def _differs(state: ConditionState, before: ConditionState | None) -> bool:
    return before is None or _shown(state) != _shown(before)


def _shown(state: ConditionState) -> tuple[Status, str, str, datetime]:
    moved = state.last_transition.replace(microsecond=0)
    return state.status, state.reason, state.message, moved


def _annotation_changes(
    wanted: Wanted, conditions: Mapping[str, ConditionState], view: NodeView
) -> dict[str, str | None]:
    owned = sorted(conditions.keys() | (view.owned & wanted.undecided))
    goal: dict[str, str | None] = {
        **wanted.annotations,
        OWNED_ANNOTATION: ",".join(owned) or None,
    }
    return {key: value for key, value in goal.items() if view.annotations.get(key) != value}


def _entry(state: ConditionState, now: datetime) -> dict[str, str]:
    return {
        "type": state.type,
        "status": state.status,
        "reason": state.reason,
        "message": state.message.encode()[:_TEXT_LIMIT].decode(errors="ignore"),
        "lastHeartbeatTime": _text(now),
        "lastTransitionTime": _text(state.last_transition),
    }


def next_heartbeat(now: datetime, period: timedelta, dice: float) -> datetime:
    """When to write all again: a period later, give or take a fifth. `dice` is from 0 to 1."""
    return now + period * (1 - _JITTER + 2 * _JITTER * dice)


def view_of(node: Mapping[str, Any]) -> NodeView:
    """What matters of a Node as the API gives it. Conditions that make no sense are left out."""
    metadata = node["metadata"]
    conditions: dict[str, ConditionState] = {}
    heartbeats: dict[str, datetime] = {}
    for each in (node.get("status") or {}).get("conditions") or ():
        state = _state(each)
        if state is not None:
            conditions[state.type] = state
        if state is not None and (beat := _time(each.get("lastHeartbeatTime"))) is not None:
            heartbeats[state.type] = beat
    return NodeView(
        name=str(metadata["name"]),
        uid=str(metadata.get("uid", "")),
        version=str(metadata.get("resourceVersion", "")),
        annotations=dict(metadata.get("annotations") or {}),
        conditions=conditions,
        heartbeats=heartbeats,
    )


def _state(found: Mapping[str, Any]) -> ConditionState | None:
    kind, status = found.get("type"), found.get("status")
    if not isinstance(kind, str) or not kind:
        return None
    return ConditionState(
        type=kind,
        status=Status(status) if status in set(Status) else Status.UNKNOWN,
        reason=str(found.get("reason") or ""),
        message=str(found.get("message") or ""),
        last_transition=_time(found.get("lastTransitionTime")) or _EPOCH,
    )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _time(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
