"""Three-valued verdicts: findings of checks, damped and put together into Node Conditions. Pure."""

from exporters.verdict.conditions import (
    adopt,
    standing_problems,
    step,
    unchecked,
)
from exporters.verdict.findings import (
    NODE,
    CheckReport,
    CheckSpec,
    ConditionPolicy,
    ConditionState,
    Damping,
    Finding,
    Memory,
    Result,
    Status,
    Track,
)
from exporters.verdict.message import MAX_BYTES, bounded_message
from exporters.verdict.persistence import dump_state, load_state

__all__ = [
    "MAX_BYTES",
    "NODE",
    "CheckReport",
    "CheckSpec",
    "ConditionPolicy",
    "ConditionState",
    "Damping",
    "Finding",
    "Memory",
    "Result",
    "Status",
    "Track",
    "adopt",
    "bounded_message",
    "dump_state",
    "load_state",
    "standing_problems",
    "step",
    "unchecked",
]
