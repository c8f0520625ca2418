"""A Node object as lines of Prometheus' text format: one piece of bytes for each metric family.

Whatever a Node object holds, the text stays valid and every series appears once.
"""

import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from chassis.contracts import ConditionReason, known_reason
from exporters.node_condition_lines.families import METRIC_NAMES, ORDER, Family
from exporters.node_condition_lines.freshness import Freshness
from exporters.node_condition_lines.label_text import label_value, shared_value


class Oddity(StrEnum):
    """What a Node object can hold that cannot be shown as it is."""

    BAD_STATUS = "bad_status"
    """A status other than True, False and Unknown; shown as unknown."""
    BAD_TIME = "bad_time"
    """A time that is no RFC 3339 time after 1970; its sample is left out."""
    DUPLICATE_TYPE = "duplicate_type"
    """A second condition of one type; the last one in the list is shown."""
    NO_TYPE = "no_type"
    """An entry without a type; it is left out."""


KUBERNETES_REASONS = frozenset(
    {
        "KubeletReady",
        "KubeletNotReady",
        "KubeletHasSufficientMemory",
        "KubeletHasInsufficientMemory",
        "KubeletHasNoDiskPressure",
        "KubeletHasDiskPressure",
        "KubeletHasSufficientPID",
        "KubeletHasInsufficientPID",
        "NodeStatusUnknown",
        "NodeStatusNeverUpdated",
        "RouteCreated",
        "NoRouteCreated",
    }
)
"""What the kubelet, the node and the route controllers write as reasons."""


def _endings(current: str) -> tuple[str, ...]:
    return tuple(
        f',status="{each}"}} {int(each == current)}\n' for each in ("true", "false", "unknown")
    )


_ENDINGS = {"True": _endings("true"), "False": _endings("false"), "Unknown": _endings("unknown")}
_NO_TIME = float("nan")
_WHOLE = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class LinesPolicy:
    """How nodes are shown.

    Attributes:
        families: Which to render.
        known_reasons: Reasons to show as they are, beside those of Nodemend and Kubernetes.
        stale_after: A heartbeat of this age no longer vouches for its condition.
        always_fresh: Condition types that are never called stale.
        gpu_resources: The resources whose allocatable numbers are added up as GPUs.
        gpu_model_labels: Node labels that may hold the GPU model; the first that is there counts.
        driver_labels: Alternatives for the driver version; of each, the values are joined by dots.
        node_labels: Pairs of a metric label's name and the key of the node label that it shows.
    """

    families: frozenset[Family]
    known_reasons: frozenset[str]
    stale_after: timedelta
    always_fresh: frozenset[str]
    gpu_resources: tuple[str, ...]
    gpu_model_labels: tuple[str, ...]
    driver_labels: tuple[tuple[str, ...], ...]
    node_labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NodeLines:
    """A node's samples: `chunks` by the order of `ORDER`, empty for families that are not wanted or change with time."""

    chunks: tuple[bytes, ...]
    freshness: Freshness
    oddities: tuple[Oddity, ...]


def render_node(node: Mapping[str, Any], policy: LinesPolicy) -> NodeLines:
    """All samples of a Node object (as the API gives it in JSON) that do not change with time alone."""
    metadata = _mapping(node.get("metadata"))
    status = _mapping(node.get("status"))
    name = label_value(metadata.get("name"))
    oddities: list[Oddity] = []
    conditions = _by_type(status.get("conditions"), oddities)
    labels = _mapping(metadata.get("labels"))
    shown = _Shown(name, conditions, labels, status, policy, oddities)
    wanted = policy.families
    chunks = tuple(
        "".join(_RENDERERS[family](shown)).encode() if family in wanted else b"" for family in ORDER
    )
    return NodeLines(chunks, _freshness(shown), tuple(oddities))


@dataclass(frozen=True, slots=True)
class _Shown:
    name: str
    conditions: Mapping[str, Mapping[str, Any]]
    labels: Mapping[str, Any]
    status: Mapping[str, Any]
    policy: LinesPolicy
    oddities: list[Oddity]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _by_type(conditions: object, oddities: list[Oddity]) -> dict[str, Mapping[str, Any]]:
    """The conditions by their type as a label value: what differs only in bytes that are no UTF-8 is one type."""
    found: dict[str, Mapping[str, Any]] = {}
    for each in conditions if isinstance(conditions, list) else ():
        condition = _mapping(each)
        kind = condition.get("type")
        if not isinstance(kind, str) or not kind:
            oddities.append(Oddity.NO_TYPE)
            continue
        shown = shared_value(kind)
        if shown in found:
            oddities.append(Oddity.DUPLICATE_TYPE)
        if _status(condition) is None:
            oddities.append(Oddity.BAD_STATUS)
        found[shown] = condition
    return found


def _status(condition: Mapping[str, Any]) -> str | None:
    status = condition.get("status")
    return status if isinstance(status, str) and status in _ENDINGS else None


def _condition_lines(node: _Shown) -> Iterator[str]:
    for kind, condition in node.conditions.items():
        start = f'nodemend_node_condition{{node="{node.name}",condition="{kind}"'
        true, false, unknown = _ENDINGS[_status(condition) or "Unknown"]
        yield f"{start}{true}{start}{false}{start}{unknown}"


def _reason_lines(node: _Shown) -> Iterator[str]:
    for kind, condition in node.conditions.items():
        reason = _shown_reason(condition.get("reason"), node.policy.known_reasons)
        yield (
            f'nodemend_node_condition_reason{{node="{node.name}",condition="{kind}",reason="{reason}"}} 1\n'
        )


def _shown_reason(reason: object, known: frozenset[str]) -> str:
    if not isinstance(reason, str):
        return ConditionReason.OTHER.value
    if reason in KUBERNETES_REASONS or reason in known:
        return shared_value(reason)
    return known_reason(reason)


def _time_lines(family: Family, key: str) -> Callable[[_Shown], Iterator[str]]:
    metric = METRIC_NAMES[family]

    def lines(node: _Shown) -> Iterator[str]:
        for kind, condition in node.conditions.items():
            moment = _seconds(condition.get(key))
            if moment is not None:
                yield f'{metric}{{node="{node.name}",condition="{kind}"}} {moment:.15g}\n'
            elif condition.get(key) is not None:
                node.oddities.append(Oddity.BAD_TIME)

    return lines


def _seconds(text: object) -> float | None:
    """Seconds since 1970 of an RFC 3339 time; None for none, one without a zone, or one before 1970."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        seconds = moment.timestamp() if moment.tzinfo is not None else -1.0
    except (ValueError, OverflowError):
        return None
    return seconds if seconds > 0 else None


def _info_lines(node: _Shown) -> Iterator[str]:
    model = next(
        (str(node.labels[k]) for k in node.policy.gpu_model_labels if k in node.labels), ""
    )
    system = _mapping(node.status.get("nodeInfo"))
    yield (
        f'nodemend_node_info{{node="{node.name}",gpu_model="{label_value(model)}",gpu_count="{_gpu_count(node)}"'
        f',kernel="{label_value(system.get("kernelVersion"))}",driver="{label_value(_driver(node))}"}} 1\n'
    )


def _gpu_count(node: _Shown) -> int:
    """What the node offers of the resources; a quantity that is no whole number counts as none."""
    allocatable = _mapping(node.status.get("allocatable"))
    offered = (str(allocatable.get(resource, "")) for resource in node.policy.gpu_resources)
    return sum(int(each) for each in offered if _WHOLE.fullmatch(each))


def _driver(node: _Shown) -> str:
    for keys in node.policy.driver_labels:
        if all(key in node.labels for key in keys):
            return ".".join(str(node.labels[key]) for key in keys)
    return ""


def _label_lines(node: _Shown) -> Iterator[str]:
    shown = "".join(
        f',{name}="{label_value(node.labels.get(key))}"' for name, key in node.policy.node_labels
    )
    yield f'nodemend_node_labels{{node="{node.name}"{shown}}} 1\n'


def _nothing(_node: _Shown) -> Iterator[str]:
    return iter(())


_RENDERERS: Mapping[Family, Callable[[_Shown], Iterator[str]]] = MappingProxyType(
    {
        Family.CONDITION: _condition_lines,
        Family.REASON: _reason_lines,
        Family.LAST_TRANSITION: _time_lines(Family.LAST_TRANSITION, "lastTransitionTime"),
        Family.LAST_HEARTBEAT: _time_lines(Family.LAST_HEARTBEAT, "lastHeartbeatTime"),
        Family.STALE: _nothing,
        Family.INFO: _info_lines,
        Family.LABELS: _label_lines,
    }
)


def _freshness(node: _Shown) -> Freshness:
    wanted = Family.STALE in node.policy.families
    judged = [
        (kind, _seconds(condition.get("lastHeartbeatTime")))
        for kind, condition in node.conditions.items()
        if wanted and kind not in node.policy.always_fresh
    ]
    return Freshness(
        node.name,
        _shared_types(tuple(kind for kind, _ in judged)),
        array("d", (_NO_TIME if at is None else at for _, at in judged)),
        node.conditions.get("Ready", {}).get("status") == "Unknown",
    )


@lru_cache(maxsize=1024)
def _shared_types(types: tuple[str, ...]) -> tuple[str, ...]:
    """The same object for the same types: thousands of nodes have the same conditions."""
    return types
