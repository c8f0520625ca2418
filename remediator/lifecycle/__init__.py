"""The state machine: from what is stored and what is seen to the one next step.

Pure. `reconcile` observes, calls `next_step`, and does what it says: wait, write one status, or
carry out effects whose intent that status holds.
"""

from remediator.lifecycle.common import DELETION
from remediator.lifecycle.deciding import next_step
from remediator.lifecycle.plan import plan_text, steps
from remediator.lifecycle.step import Act, Case, Policy, Record, Step, Wait, record
from remediator.lifecycle.wants import Wants, wants

__all__ = [
    "DELETION",
    "Act",
    "Case",
    "Policy",
    "Record",
    "Step",
    "Wait",
    "Wants",
    "next_step",
    "plan_text",
    "record",
    "steps",
    "wants",
]
