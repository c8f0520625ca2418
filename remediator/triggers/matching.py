"""What became of a fault at the door. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from remediator.operation import Cause


class NoMatchReason(StrEnum):
    """Why a fault leads to no operation: said in the answer and counted."""

    NO_PLAYBOOK = "no_playbook"
    RESOLVED = "resolved"
    NO_NODE_LABEL = "no_node_label"
    UNKNOWN_NODE = "unknown_node"
    """A name that no node has; found by intake."""
    EXCLUDED_NODE = "excluded_node"
    """A virtual node, or one being scaled in; found by intake."""
    NODE_NOT_SELECTED = "node_not_selected"
    """`nodes` of no playbook that takes it fits the node; found by intake."""
    UNREADABLE_OPERATION = "unreadable_operation"
    """The node's operation was edited into something that cannot be read; found by intake."""


@dataclass(frozen=True, slots=True)
class Match:
    """A playbook takes the fault."""

    playbook: str
    node: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class NoMatch:
    """Nothing is to be done, and why."""

    reason: NoMatchReason
    text: str


@dataclass(frozen=True, slots=True)
class Later:
    """A condition has not lasted long enough: look again then."""

    playbook: str
    until: datetime
