"""Answers as kubectl's tables: a few columns for the kinds that people look at, the CRD's own for custom ones.

Columns are fewer than the real server's; `kubectl get -o yaml` never comes here.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from sandbox.kubernetes_rules.resources import Column, ResourceType
from sandbox.kubernetes_server.calls import Call
from sandbox.kubernetes_server.storage import Record

_ACCEPT = "as=table;v=v1;g=meta.k8s.io"
Body = Mapping[str, Any]
_Cell = Callable[[Body], Any]
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def wanted(call: Call) -> bool:
    """Whether the client's first choice is a Table."""
    first = call.headers.get("accept", "").split(",", 1)[0]
    return _ACCEPT in first.replace(" ", "").lower()


def table(
    kind: ResourceType, records: Sequence[Record], metadata: Mapping[str, Any], call: Call
) -> bytes:
    columns = _columns(kind)
    whole = call.params.text("includeObject")
    answer = {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata),
        "columnDefinitions": [_definition(*entry[:3]) for entry in columns],
        "rows": [_row(record.body, columns, whole) for record in records],
    }
    return orjson.dumps(answer)


_ColumnEntry = tuple[str, str, int, _Cell]


def _definition(name: str, kind: str, priority: int) -> dict[str, Any]:
    shown = "name" if name == "Name" else ""
    return {"name": name, "type": kind, "format": shown, "description": "", "priority": priority}


def _row(body: Body, columns: Sequence[_ColumnEntry], whole: str) -> dict[str, Any]:
    row: dict[str, Any] = {"cells": [cell(body) for *_, cell in columns]}
    if whole == "Object":
        row["object"] = body
    elif whole != "None":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": body["metadata"],
        }
    return row


def _columns(kind: ResourceType) -> list[_ColumnEntry]:
    name: _ColumnEntry = ("Name", "string", 0, lambda body: body["metadata"]["name"])
    age: _ColumnEntry = ("Age", "string", 0, _age)
    if kind.custom:
        own = [_custom_column(each) for each in kind.columns]
        return [name, *(own or [age])]
    middle = _MIDDLE.get((kind.group, kind.plural), ())
    return [name, *((head, "string", 0, cell) for head, cell in middle), age]


def _custom_column(column: Column) -> _ColumnEntry:
    def cell(body: Body) -> Any:
        value = _at(body, column.path)
        if column.type == "date":
            return _since(value) if value else None
        return orjson.dumps(value).decode() if isinstance(value, (dict, list)) else value

    shown = "string" if column.type == "date" else column.type
    return column.name, shown, column.priority, cell


def _at(body: Any, path: str) -> Any:
    """The value at a plain JSON path (`.status.phase`); None when it is not there."""
    value = body
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _age(body: Body) -> str:
    return _since(body["metadata"].get("creationTimestamp"))


def _since(text: Any) -> str:
    try:
        then = datetime.fromisoformat(str(text))
    except ValueError:
        return "<unknown>"
    seconds = max(0, int((datetime.now(UTC) - then).total_seconds()))
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _node_status(body: Body) -> str:
    conditions = {each["type"]: each["status"] for each in _at(body, "status.conditions") or ()}
    ready = {"True": "Ready", "False": "NotReady"}.get(conditions.get("Ready", ""), "NotReady")
    return f"{ready},SchedulingDisabled" if _at(body, "spec.unschedulable") else ready


def _pod_ready(body: Body) -> str:
    states = _at(body, "status.containerStatuses") or ()
    ready = sum(bool(each.get("ready")) for each in states)
    return f"{ready}/{len(_at(body, 'spec.containers') or ())}"


def _pod_status(body: Body) -> str:
    if body["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(_at(body, "status.reason") or _at(body, "status.phase") or "Unknown")


def _job_completions(body: Body) -> str:
    return f"{_at(body, 'status.succeeded') or 0}/{_at(body, 'spec.completions') or 1}"


_MIDDLE: Mapping[tuple[str, str], Sequence[tuple[str, _Cell]]] = {
    ("", "nodes"): (
        ("Status", _node_status),
        ("Version", lambda body: _at(body, "status.nodeInfo.kubeletVersion") or ""),
    ),
    ("", "pods"): (
        ("Ready", _pod_ready),
        ("Status", _pod_status),
        ("Node", lambda body: _at(body, "spec.nodeName") or "<none>"),
    ),
    ("", "namespaces"): (("Status", lambda body: _at(body, "status.phase") or "Active"),),
    ("batch", "jobs"): (("Completions", _job_completions),),
    ("", "events"): (
        ("Type", lambda body: body.get("type", "")),
        ("Reason", lambda body: body.get("reason", "")),
        ("Message", lambda body: body.get("message", "")),
    ),
    ("coordination.k8s.io", "leases"): (
        ("Holder", lambda body: _at(body, "spec.holderIdentity") or ""),
    ),
    ("policy", "poddisruptionbudgets"): (
        ("Allowed disruptions", lambda body: _at(body, "status.disruptionsAllowed") or 0),
    ),
}
