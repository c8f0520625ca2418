"""What alerts2gh knows about one incident, and how a delivery changes it.

An incident is one thing that is wrong: a hash of where it is filed and of the labels that name it. Its members
are alerts, by fingerprint. This package holds the data and folds deliveries into it; it decides nothing about
GitHub (issue_plan does) and does no I/O.
"""

from alerts2gh.incident.folding import (
    Folded,
    after_members_changed,
    fold,
    member_after,
    new_incident,
)
from alerts2gh.incident.identity import (
    incident_id,
    label_key,
)
from alerts2gh.incident.model import (
    OWN_ALERTNAMES,
    REFUSED_ALERTNAME,
    ROLLUP_ALERTNAME,
    Assignment,
    ClosedBy,
    DeliveryPart,
    Disposition,
    FoldReason,
    Incident,
    Intent,
    IntentAction,
    Issue,
    IssueState,
    LeftIssue,
    Member,
    PastIssue,
    Target,
    Transition,
)

__all__ = [
    "OWN_ALERTNAMES",
    "REFUSED_ALERTNAME",
    "ROLLUP_ALERTNAME",
    "Assignment",
    "ClosedBy",
    "DeliveryPart",
    "Disposition",
    "FoldReason",
    "Folded",
    "Incident",
    "Intent",
    "IntentAction",
    "Issue",
    "IssueState",
    "LeftIssue",
    "Member",
    "PastIssue",
    "Target",
    "Transition",
    "after_members_changed",
    "fold",
    "incident_id",
    "label_key",
    "member_after",
    "new_incident",
]
