"""How many nodes may be out of service at once, and who is next.

Pure. Counts only what is seen now: nodes by live reads and operations as they are stored, so that
a reservation is counted once and goes with its node or its operation.
"""

from remediator.budgets.account import Account, BudgetUse, usage
from remediator.budgets.allocation import Allocation, allocate, decide
from remediator.budgets.counting import unavailable

__all__ = ["Account", "Allocation", "BudgetUse", "allocate", "decide", "unavailable", "usage"]
