"""The plan: from the state of an incident to its next step."""

from datetime import datetime, timedelta

from alerts2gh.config import ClosedWhileFiring, CommentOn, Recovery
from alerts2gh.incident import (
    ClosedBy,
    Incident,
    Intent,
    IntentAction,
    Issue,
    IssueState,
    Member,
)
from alerts2gh.issue_plan.changes import is_flapping
from alerts2gh.issue_plan.steps import REFUSING_REASONS, Action, Reason, Step

_REOPEN_OBSERVE_EVERY = timedelta(minutes=10)
_KEEP_OPEN_OBSERVE_EVERY = timedelta(hours=1)
_ROLLUP_EDIT_EVERY = timedelta(seconds=15)
_GIVEN_UP = (Action.NOTHING, Reason.DEAD)


def next_step(incident: Incident, recovery: Recovery, block_hash: str, now: datetime) -> Step:
    """Decide the next step. `block_hash` is the hash of our part of the body as it should read now."""
    if incident.dead_reason:
        over = incident.rolled_into and not incident.is_firing  # its rollup lives on
        action, reason = (Action.TELL_ROLLUP, Reason.STORM_OVER) if over else _GIVEN_UP
        return Step(action, reason)
    if incident.retry_at and now < incident.retry_at:
        return Step(Action.SLEEP, Reason.BACKING_OFF, incident.retry_at)
    if incident.intent:
        return _after_unknown(incident.intent, recovery, now)
    if incident.rolled_into:
        return _while_rolled_up(incident, now)
    if incident.audit_at and now >= incident.audit_at:
        return Step(Action.LOOK, Reason.DUPLICATE_AUDIT)
    return _soonest(_by_issue(incident, block_hash, now), incident.audit_at)


def _soonest(step: Step, at: datetime | None) -> Step:
    """A step that ends our work for now must still wake us for what is due later."""
    if at is None or step.action not in (Action.NOTHING, Action.SLEEP):
        return step
    return Step(Action.SLEEP, step.reason, min(at, step.at) if step.at else at)


def _after_unknown(intent: Intent, recovery: Recovery, now: datetime) -> Step:
    """An intent without an answer: a write was begun, here or in a process that died."""
    if intent.action not in (IntentAction.CREATE, IntentAction.COMMENT):
        return Step(Action.FORGET_INTENT, Reason.SAFE_TO_REPEAT)
    if intent.looks >= len(recovery.look_after):
        return Step(Action.FORGET_INTENT, Reason.LISTED_AND_NOT_FOUND)
    since = intent.unknown_since or intent.started_at
    due = since + recovery.look_after[intent.looks]
    if now < due:
        return Step(Action.SLEEP, Reason.OUTCOME_UNKNOWN, due)
    return Step(Action.LOOK, Reason.OUTCOME_UNKNOWN)


def _by_issue(incident: Incident, block_hash: str, now: datetime) -> Step:
    if incident.left and (incident.issue or not incident.is_firing):
        return Step(Action.LEAVE, Reason.MOVED_AWAY)
    if incident.issue is None:
        if not incident.is_firing:
            return Step(Action.NOTHING, Reason.NEVER_FIRED)
        reason = Reason.FIRING_AFTER_WINDOW if incident.past else Reason.FIRST_FIRING
        return Step(Action.CREATE, reason)
    if incident.issue.state is IssueState.OPEN:
        step = _while_open(incident, incident.issue, block_hash, now)
        return _paced(incident, incident.issue, step, now)
    return _or_story(incident, incident.issue, _while_closed(incident, incident.issue, now))


def _while_rolled_up(incident: Incident, now: datetime) -> Step:
    """Told in the rollup issue; on its own again once it is over or has an issue."""
    if incident.issue is not None:
        return Step(Action.TELL_ROLLUP, Reason.SPLIT_FROM_ROLLUP)
    if not incident.is_firing:
        return Step(Action.TELL_ROLLUP, Reason.STORM_OVER)
    if not incident.rolled_told:
        return Step(Action.TELL_ROLLUP, Reason.ROLLED_UP)
    if incident.split_at is None or now >= incident.split_at:
        return Step(Action.CREATE, Reason.STORM_OUTLASTED)
    return Step(Action.SLEEP, Reason.ROLLED_UP, incident.split_at)


def _paced(incident: Incident, issue: Issue, step: Step, now: datetime) -> Step:
    """A storm changes the table of its rollup all the time; a few writes a minute tell it as well."""
    if not incident.is_rollup or step.action is not Action.EDIT or issue.written_at is None:
        return step
    due = issue.written_at + _ROLLUP_EDIT_EVERY
    return Step(Action.SLEEP, step.reason, due) if now < due else step


def _or_story(incident: Incident, issue: Issue, step: Step) -> Step:
    """An operation may end after the close; a closed issue takes comments. One that nobody wants is left in peace."""
    refused = issue.state_reason in REFUSING_REASONS
    if incident.stories and step.action is Action.NOTHING and not refused:
        return Step(Action.COMMENT, Reason.OPERATION_UNTOLD)
    return step


def _while_open(incident: Incident, issue: Issue, block_hash: str, now: datetime) -> Step:
    if not incident.assignment.settled and incident.disposition.assignees:
        return Step(Action.ASSIGN, Reason.UNASSIGNED)
    flapping = is_flapping(incident, now)
    if flapping != incident.flapping_label:
        return (
            Step(Action.LABEL, Reason.FLAPPING)
            if flapping
            else Step(Action.UNLABEL, Reason.FLAPPING_OVER)
        )
    untold = _untold(incident, flapping=flapping)
    if untold is not None:
        return Step(Action.COMMENT, untold)
    if flapping:
        return _edit_or(
            issue, block_hash, Step(Action.SLEEP, Reason.FLAPPING, incident.flapping_until)
        )
    if incident.is_firing:
        return _edit_or(issue, block_hash, _watch_for_a_human(incident, issue, now))
    return _towards_close(incident, issue, block_hash, now)


def _untold(incident: Incident, *, flapping: bool) -> Reason | None:
    """What a comment is due for. Node operations are told whatever `comment_on` says: nothing else tells them."""
    if incident.stories:
        return Reason.OPERATION_UNTOLD
    wanted = incident.disposition.policy.comment_on is CommentOn.TRANSITIONS
    return Reason.TRANSITIONS_UNTOLD if incident.untold and wanted and not flapping else None


def _edit_or(issue: Issue, block_hash: str, otherwise: Step) -> Step:
    if issue.block_hash != block_hash:
        return Step(Action.EDIT, Reason.BODY_OUTDATED)
    return otherwise


def _watch_for_a_human(incident: Incident, issue: Issue, now: datetime) -> Step:
    """Under `closed_while_firing: reopen` a person's close must be noticed though nothing else changes."""
    if incident.disposition.policy.closed_while_firing is not ClosedWhileFiring.REOPEN:
        return Step(Action.NOTHING, Reason.UP_TO_DATE)
    due = _next_look(issue, _REOPEN_OBSERVE_EVERY)
    if now < due:
        return Step(Action.SLEEP, Reason.UP_TO_DATE, due)
    return Step(Action.OBSERVE, Reason.HUMAN_CLOSED_WHILE_FIRING)


def _next_look(issue: Issue, every: timedelta) -> datetime:
    return (issue.seen_at or issue.created_at) + every


def _towards_close(incident: Incident, issue: Issue, block_hash: str, now: datetime) -> Step:
    held = reason_to_stay_open(incident, issue, now)
    if held is not None:
        return _edit_or(issue, block_hash, _while_held(incident, issue, held, now))
    due = (incident.resolved_since or now) + incident.disposition.policy.close_after
    if now < due:
        quiet = Step(Action.SLEEP, Reason.QUIET_PERIOD, due)
        # The close rewrites the body anyway; until then the comment has told it. A rollup has no comments.
        return _edit_or(issue, block_hash, quiet) if incident.is_rollup else quiet
    return Step(Action.CLOSE, Reason.QUIET_PERIOD_OVER)


def _while_held(incident: Incident, issue: Issue, held: Reason, now: datetime) -> Step:
    if held is Reason.OPERATION_RUNNING and incident.held_until:
        return Step(Action.SLEEP, held, incident.held_until)
    if held is Reason.KEEP_OPEN and _labelled_keep_open(incident, issue):
        # Nothing tells us when a person takes the label off again.
        due = _next_look(issue, _KEEP_OPEN_OBSERVE_EVERY)
        return Step(Action.SLEEP, held, due) if now < due else Step(Action.OBSERVE, held)
    return Step(Action.NOTHING, held)


def reason_to_stay_open(incident: Incident, issue: Issue, now: datetime) -> Reason | None:
    """Why a fully resolved incident is not closed by us, or None."""
    policy = incident.disposition.policy
    if not policy.auto_close:
        return Reason.AUTO_CLOSE_OFF
    if incident.truncated:
        return Reason.TRUNCATED
    if _labelled_keep_open(incident, issue):
        return Reason.KEEP_OPEN
    if any(_says_keep_open(m, policy.keep_open_annotation) for m in incident.members.values()):
        return Reason.KEEP_OPEN
    if incident.held_until and now < incident.held_until:
        return Reason.OPERATION_RUNNING
    return None


def _labelled_keep_open(incident: Incident, issue: Issue) -> bool:
    keep_open = incident.disposition.policy.keep_open_label.lower()
    return any(label.lower() == keep_open for label in issue.labels)


def _says_keep_open(member: Member, annotation: str) -> bool:
    return member.annotations.get(annotation, "").strip().lower() == "true"


def _while_closed(incident: Incident, issue: Issue, now: datetime) -> Step:
    if not incident.is_firing:
        return Step(Action.NOTHING, Reason.CLOSED_AND_RESOLVED)
    if issue.closed_by is not ClosedBy.HUMAN:
        return _reopen_or_new(incident, issue, Reason.FIRING_AGAIN, now)
    if issue.state_reason in REFUSING_REASONS:
        return _while_not_wanted(incident, issue, now)
    reason = _reason_to_reopen(incident, issue)
    if reason is None:
        return Step(Action.NOTHING, Reason.HUMAN_CLOSE_RESPECTED)
    return _reopen_or_new(incident, issue, reason, now)


def _reason_to_reopen(incident: Incident, issue: Issue) -> Reason | None:
    """Why an issue that a person closed as completed comes back, or None."""
    policy = incident.disposition.policy.closed_while_firing
    if policy is ClosedWhileFiring.LEAVE:
        return Reason.FIRING_AGAIN if was_quiet_since(incident, issue.closed_at) else None
    if fires_anew_since(incident, issue.closed_at):
        return Reason.FIRING_AGAIN
    reopen = policy is ClosedWhileFiring.REOPEN
    return Reason.HUMAN_CLOSED_WHILE_FIRING if reopen else None


def fires_anew_since(incident: Incident, closed_at: datetime | None) -> bool:
    """Whether a member began to fire after the close (not merely went on firing)."""
    return closed_at is None or any(m.changed_at > closed_at for m in incident.firing)


def was_quiet_since(incident: Incident, closed_at: datetime | None) -> bool:
    """Whether all of it has been resolved after the close; what fires now is then another matter."""
    return closed_at is None or any(at > closed_at for at in incident.flips)


def _reopen_or_new(incident: Incident, issue: Issue, reason: Reason, now: datetime) -> Step:
    window = incident.disposition.policy.reopen_window
    if issue.closed_at is None or now - issue.closed_at <= window:
        return Step(Action.REOPEN, reason)
    return Step(Action.START_ANEW, Reason.FIRING_AFTER_WINDOW)


def _while_not_wanted(incident: Incident, issue: Issue, now: datetime) -> Step:
    """A person said "not planned": quiet for the members it had, a new member is a new matter."""
    had = set(incident.suppressed_members)
    if any(m.fingerprint not in had for m in incident.firing):
        return Step(Action.START_ANEW, Reason.NOT_PLANNED_NEW_MEMBER)
    until = (issue.closed_at or now) + incident.disposition.policy.suppress_for
    if now < until:
        return Step(Action.SLEEP, Reason.NOT_PLANNED_QUIET, until)
    return Step(Action.START_ANEW, Reason.NOT_PLANNED_OVER)
