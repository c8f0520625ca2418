"""Checks of the user's own: programs that tell by their exit status, as node-problem-detector runs them.

Its custom-plugin-monitor files are read as they are. Unlike there, a run that gave no verdict clears nothing, several
rules of one condition are put together, and a program that cannot be killed holds up nothing else.
"""

from exporters.custom_checks.definitions import (
    CustomMonitor,
    CustomRule,
    RuleKind,
    load_monitor,
    load_monitors,
)
from exporters.custom_checks.go_duration import parse_go_duration
from exporters.custom_checks.judging import (
    RuleEvent,
    RuleOutcome,
    events_of,
    policies_of,
    reports_of,
)
from exporters.custom_checks.running import run_rules

__all__ = [
    "CustomMonitor",
    "CustomRule",
    "RuleEvent",
    "RuleKind",
    "RuleOutcome",
    "events_of",
    "load_monitor",
    "load_monitors",
    "parse_go_duration",
    "policies_of",
    "reports_of",
    "run_rules",
]
