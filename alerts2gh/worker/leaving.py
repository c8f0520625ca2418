"""Closes the open issue that an incident has moved away from, with a link to the one that goes on.

It decides nothing: the plan asks for it once the new issue exists, or nothing fires any more.
"""

from dataclasses import replace
from datetime import datetime

from alerts2gh.incident import Incident, IntentAction, Issue, IssueState, LeftIssue
from alerts2gh.ports import Answer, Outcome, TrackedIssue, Tracker
from alerts2gh.rendering.block import frame
from alerts2gh.rendering.sanitising import issue_link
from alerts2gh.worker.effects import Effect

_GONE = frozenset({Outcome.GONE, Outcome.NOT_FOUND})


def left_behind(incident: Incident, tracker: Tracker) -> Effect | Answer[object] | None:
    """The write that closes it; None when it is closed or gone already, an answer when GitHub could not be asked.

    `tracker` is that of the issue's own credential.
    """
    left = incident.left
    if left is None:
        raise ValueError(f"incident {incident.id} has left no issue behind")
    seen = tracker.get_issue(left.target, left.number)
    if seen.outcome in _GONE or (seen.value and seen.value.state is IssueState.CLOSED):
        return None
    if seen.value is None:
        return seen
    return _closing(incident, left, seen.value, tracker)


def _closing(incident: Incident, left: LeftIssue, seen: TrackedIssue, tracker: Tracker) -> Effect:
    body = frame(seen.body, incident.id).filled(_told(incident.issue))

    def record(before: Incident, _value: object, _at: datetime) -> Incident:
        return without_left(before)

    return Effect(
        IntentAction.CLOSE,
        f"{incident.id[:12]}.leave{left.number}",
        lambda: tracker.edit_issue(
            left.target, left.number, body=body, state=IssueState.CLOSED, state_reason="not_planned"
        ),
        record,
        give_up=without_left,
    )


def without_left(incident: Incident) -> Incident:
    """Nothing is to be closed any more."""
    return replace(incident, left=None)


def _told(issue: Issue | None) -> str:
    head = "This conversation is locked, so alerts2gh cannot tell here how it goes on."
    if issue is None:
        return f"{head} Nothing fires any more."
    return f"{head} It goes on in {issue.repository}: {issue_link(issue.url, issue.number)}"
