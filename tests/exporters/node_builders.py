"""Node objects as the API gives them, with a word for each thing that a test cares about."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from exporters.config.node_conditions import NodeConditionsSettings
from exporters.node_condition_lines import LinesPolicy

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def ago(**units: float) -> str:
    """The time so long before NOW, as Kubernetes writes it."""
    return (NOW - timedelta(**units)).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_condition(kind: object = "GPUIsLost", status: object = "False", **changes: Any) -> Any:
    """A condition with a fresh heartbeat; a change to None leaves the key out."""
    whole = {
        "type": kind,
        "status": status,
        "reason": "Healthy",
        "message": "all is well",
        "lastHeartbeatTime": ago(minutes=1),
        "lastTransitionTime": ago(hours=1),
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not None}


def a_node(
    name: str = "n1",
    conditions: Sequence[Any] = (),
    *,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, Any] | None = None,
    kernel: str = "6.1.0",
) -> dict[str, Any]:
    """A Node object."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "status": {
            "conditions": list(conditions),
            "allocatable": dict(allocatable or {}),
            "nodeInfo": {"kernelVersion": kernel},
        },
    }


def a_policy(**settings: Any) -> LinesPolicy:
    """The policy of a configuration with these keys."""
    return NodeConditionsSettings.model_validate(settings).lines_policy()
