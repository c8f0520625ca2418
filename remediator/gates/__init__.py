"""What holds an operation back, each gate with its name and a sentence for the object.

Pure. `before_isolation` asks every gate, `before_harm` only those that stop work that has begun:
nothing here ever stops a verification or a release.
"""

from remediator.gates.breaker import breaker_after
from remediator.gates.case import GateCase
from remediator.gates.evaluation import GATES, before_harm, before_isolation
from remediator.gates.limits import too_many_operations
from remediator.gates.windows import next_opening

__all__ = [
    "GATES",
    "GateCase",
    "before_harm",
    "before_isolation",
    "breaker_after",
    "next_opening",
    "too_many_operations",
]
