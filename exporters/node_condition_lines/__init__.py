"""A Node object as Prometheus text: rendered once a change, one piece of bytes for each metric family.

Pure. It decides how a condition is shown and when its verdict has become too old to be believed; it does not know where
nodes come from or who asks.
"""

from exporters.node_condition_lines.families import HEADERS, METRIC_NAMES, ORDER, Family
from exporters.node_condition_lines.freshness import Freshness, StaleLines, stale_lines
from exporters.node_condition_lines.label_text import label_value
from exporters.node_condition_lines.rendering import (
    KUBERNETES_REASONS,
    LinesPolicy,
    NodeLines,
    Oddity,
    render_node,
)

__all__ = [
    "HEADERS",
    "KUBERNETES_REASONS",
    "METRIC_NAMES",
    "ORDER",
    "Family",
    "Freshness",
    "LinesPolicy",
    "NodeLines",
    "Oddity",
    "StaleLines",
    "label_value",
    "render_node",
    "stale_lines",
]
