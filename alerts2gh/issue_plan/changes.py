"""Changes of an incident that follow from a step or from what GitHub shows; all pure."""

from dataclasses import replace
from datetime import datetime

from alerts2gh.config import Recovery
from alerts2gh.incident import (
    Assignment,
    ClosedBy,
    FoldReason,
    Incident,
    IntentAction,
    Issue,
    IssueState,
    PastIssue,
)
from alerts2gh.issue_plan.steps import REFUSING_REASONS


def is_flapping(incident: Incident, now: datetime) -> bool:
    """Whether its ups and downs are damped now."""
    return incident.flapping_until is not None and now < incident.flapping_until


def without_intent(incident: Incident, recovery: Recovery, now: datetime) -> Incident:
    """Let go of a write that may or may not have been made, so that the plan decides anew.

    A create is audited later. Of an edit nobody knows whether it was the flapping label, so that is set once more.
    """
    action = incident.intent.action if incident.intent else None
    audit_at = incident.audit_at
    if action is IntentAction.CREATE:
        audit_at = now + recovery.audit_after
    label = incident.flapping_label
    if action is IntentAction.EDIT and incident.flapping_until is not None:
        label = not is_flapping(incident, now)
    return replace(incident, intent=None, audit_at=audit_at, flapping_label=label)


def start_anew(incident: Incident, ended: str) -> Incident:
    """Put the present issue among the past ones, so that the next step creates another that links to it."""
    issue = incident.issue
    past = incident.past
    if issue is not None:
        entry = PastIssue(issue.number, issue.url, ended, issue.created_at, issue.closed_at)
        past = (*past, entry)[-20:]
    return replace(
        incident,
        issue=None,
        intent=None,
        assignment=Assignment(),
        past=past,
        suppressed_members=(),
        flapping_label=False,
        displaced=False,
        settled_by="",
    )


def observed(incident: Incident, issue: Issue) -> Incident:
    """Take the issue as GitHub shows it now; a new "not planned" notes which members it had."""
    had = incident.suppressed_members
    refused = (
        issue.state is IssueState.CLOSED
        and issue.closed_by is ClosedBy.HUMAN
        and issue.state_reason in REFUSING_REASONS
    )
    if refused and not had:
        closed_at = issue.closed_at
        joined_later = {
            t.fingerprint
            for t in incident.untold
            if t.reason is FoldReason.NEW_MEMBER and closed_at is not None and t.at > closed_at
        }
        had = tuple(f for f in incident.members if f not in joined_later)
    if not refused:
        had = ()
    return replace(incident, issue=issue, suppressed_members=had)


def damp(incident: Incident, now: datetime) -> Incident:
    """Mark an incident as flapping when it went up and down too often in the window."""
    policy = incident.disposition.policy.flapping
    recent = [at for at in incident.flips if now - at <= policy.window]
    if len(recent) < policy.changes:
        return incident
    until = recent[-1] + policy.hold
    if until <= now or incident.flapping_until == until:
        return incident
    return replace(incident, flapping_until=until)
