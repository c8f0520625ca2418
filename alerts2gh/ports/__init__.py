"""What the worker needs of GitHub and of the store, as protocols; the adapters and the tests' twins fulfil them."""

from alerts2gh.ports.store import (
    BudgetState,
    DeadLetter,
    Ending,
    Episode,
    Lease,
    OpenIncident,
    Refusal,
    Repeat,
    Store,
    StoreConflictError,
    TimelineRow,
)
from alerts2gh.ports.tracker import (
    Answer,
    Outcome,
    RateLimit,
    TrackedComment,
    TrackedIssue,
    Tracker,
)

__all__ = [
    "Answer",
    "BudgetState",
    "DeadLetter",
    "Ending",
    "Episode",
    "Lease",
    "OpenIncident",
    "Outcome",
    "RateLimit",
    "Refusal",
    "Repeat",
    "Store",
    "StoreConflictError",
    "TimelineRow",
    "TrackedComment",
    "TrackedIssue",
    "Tracker",
]
