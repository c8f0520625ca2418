"""What to do next for one incident: a function from what is known to a named step with a reason.

It is level-triggered: it looks at the state, never at the event that led here, so asking twice gives the same answer
and a crash between two steps loses nothing. It does no I/O; the worker carries the step out and asks again.
"""

from alerts2gh.issue_plan.changes import (
    damp,
    is_flapping,
    observed,
    start_anew,
    without_intent,
)
from alerts2gh.issue_plan.planning import (
    fires_anew_since,
    next_step,
    reason_to_stay_open,
    was_quiet_since,
)
from alerts2gh.issue_plan.steps import (
    PRIORITY,
    REFUSING_REASONS,
    WRITES_TO_EXISTING,
    Action,
    Reason,
    Step,
)

__all__ = [
    "PRIORITY",
    "REFUSING_REASONS",
    "WRITES_TO_EXISTING",
    "Action",
    "Reason",
    "Step",
    "damp",
    "fires_anew_since",
    "is_flapping",
    "next_step",
    "observed",
    "reason_to_stay_open",
    "start_anew",
    "was_quiet_since",
    "without_intent",
]
