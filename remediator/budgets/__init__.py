"""How many nodes may be out of service at once, and who is next.

Pure. Counts only what is seen now: nodes by live reads and operations as they are stored, so that
a reservation is counted once and goes with its node or its operation.
"""

from remediator.budgets.allocation import allocate, decide
from remediator.budgets.counting import BudgetUse, Scope, scope_of, unavailable, usage

__all__ = ["BudgetUse", "Scope", "allocate", "decide", "scope_of", "unavailable", "usage"]
