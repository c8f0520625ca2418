"""The metric families of a node and what each means; the names here are an interface."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Family(StrEnum):
    """The metric families of a node, by the names that a configuration uses."""

    CONDITION = "condition"
    REASON = "reason"
    LAST_TRANSITION = "last_transition"
    LAST_HEARTBEAT = "last_heartbeat"
    STALE = "stale"
    INFO = "info"
    LABELS = "labels"


_FAMILIES: Mapping[Family, tuple[str, str]] = MappingProxyType(
    {
        Family.CONDITION: (
            "nodemend_node_condition",
            "Whether a condition has this status (1) or not (0); all three are always there.",
        ),
        Family.REASON: (
            "nodemend_node_condition_reason",
            "Always 1; the label is the reason that the condition has now, Other if it is no known one.",
        ),
        Family.LAST_TRANSITION: (
            "nodemend_node_condition_last_transition_timestamp_seconds",
            "When the condition's status last changed.",
        ),
        Family.LAST_HEARTBEAT: (
            "nodemend_node_condition_last_heartbeat_timestamp_seconds",
            "When the condition was last written.",
        ),
        Family.STALE: (
            "nodemend_node_condition_stale",
            "Whether nobody vouches for the condition any more: an old heartbeat, or a node that is silent.",
        ),
        Family.INFO: (
            "nodemend_node_info",
            "Always 1; GPU model and number of allocatable GPUs, kernel, driver.",
        ),
        Family.LABELS: (
            "nodemend_node_labels",
            "Always 1; the node's labels that the configuration names.",
        ),
    }
)
METRIC_NAMES: Mapping[Family, str] = MappingProxyType(
    {family: name for family, (name, _) in _FAMILIES.items()}
)
HEADERS: Mapping[Family, bytes] = MappingProxyType(
    {
        family: f"# HELP {name} {says}\n# TYPE {name} gauge\n".encode()
        for family, (name, says) in _FAMILIES.items()
    }
)
ORDER = tuple(Family)
