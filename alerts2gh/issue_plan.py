"""What to do next for one incident: a function from what is known to a named step with a reason.

It is level-triggered: it looks at the state, never at the event that led here, so asking twice gives the same answer
and a crash between two steps loses nothing. It does no I/O; the worker carries the step out and asks again.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from alerts2gh.config import ClosedWhileFiring, CommentOn, Recovery
from alerts2gh.incident import (
    Assignment,
    ClosedBy,
    FoldReason,
    Incident,
    Intent,
    IntentAction,
    Issue,
    IssueState,
    Member,
    PastIssue,
)


class Action(StrEnum):
    """The next step. LOOK reads GitHub to clear up an unknown outcome; the writes are named as their intents.

    ROLL_UP is never planned here: the worker takes it in place of a CREATE while a storm is on.
    """

    NOTHING = "nothing"
    SLEEP = "sleep"
    LOOK = "look"
    FORGET_INTENT = "forget_intent"
    OBSERVE = "observe"
    START_ANEW = "start_anew"
    CREATE = "create"
    REOPEN = "reopen"
    CLOSE = "close"
    COMMENT = "comment"
    EDIT = "edit"
    ASSIGN = "assign"
    LABEL = "label"
    UNLABEL = "unlabel"
    ROLL_UP = "roll_up"
    TELL_ROLLUP = "tell_rollup"


class Reason(StrEnum):
    """Why that step."""

    DEAD = "dead"
    BACKING_OFF = "backing_off"
    STORM = "storm"
    ROLLED_UP = "rolled_up"
    STORM_OVER = "storm_over"
    STORM_OUTLASTED = "storm_outlasted"
    SPLIT_FROM_ROLLUP = "split_from_rollup"
    OUTCOME_UNKNOWN = "outcome_unknown"
    LISTED_AND_NOT_FOUND = "listed_and_not_found"
    SAFE_TO_REPEAT = "safe_to_repeat"
    DUPLICATE_AUDIT = "duplicate_audit"
    NEVER_FIRED = "never_fired"
    FIRST_FIRING = "first_firing"
    FIRING_AGAIN = "firing_again"
    FIRING_AFTER_WINDOW = "firing_after_window"
    HUMAN_CLOSED_WHILE_FIRING = "human_closed_while_firing"
    HUMAN_CLOSE_RESPECTED = "human_close_respected"
    NOT_PLANNED_NEW_MEMBER = "not_planned_new_member"
    NOT_PLANNED_QUIET = "not_planned_quiet"
    NOT_PLANNED_OVER = "not_planned_over"
    UNASSIGNED = "unassigned"
    OPERATION_UNTOLD = "operation_untold"
    TRANSITIONS_UNTOLD = "transitions_untold"
    BODY_OUTDATED = "body_outdated"
    QUIET_PERIOD_OVER = "quiet_period_over"
    QUIET_PERIOD = "quiet_period"
    TRUNCATED = "truncated"
    KEEP_OPEN = "keep_open"
    OPERATION_RUNNING = "operation_running"
    AUTO_CLOSE_OFF = "auto_close_off"
    FLAPPING = "flapping"
    FLAPPING_OVER = "flapping_over"
    UP_TO_DATE = "up_to_date"
    CLOSED_AND_RESOLVED = "closed_and_resolved"


@dataclass(frozen=True, slots=True)
class Step:
    """What to do, why, and (for SLEEP and for what may change by time alone) when to ask again."""

    action: Action
    reason: Reason
    at: datetime | None = None


WRITES_TO_EXISTING = frozenset(
    {
        Action.REOPEN,
        Action.CLOSE,
        Action.COMMENT,
        Action.EDIT,
        Action.START_ANEW,
        Action.LABEL,
        Action.UNLABEL,
    }
)
"""Steps that must see the issue as it is now before they are taken: a person may have changed it."""

PRIORITY = {
    Action.ROLL_UP: -1,  # the rollup's one write should tell as many as possible
    Action.TELL_ROLLUP: -1,
    Action.CREATE: 0,
    Action.START_ANEW: 0,
    Action.LOOK: 0,
    Action.REOPEN: 1,
    Action.CLOSE: 2,
    Action.ASSIGN: 3,
    Action.COMMENT: 4,
    Action.LABEL: 5,
    Action.UNLABEL: 5,
    Action.EDIT: 6,
}
_REOPEN_OBSERVE_EVERY = timedelta(minutes=10)
_KEEP_OPEN_OBSERVE_EVERY = timedelta(hours=1)
_ROLLUP_EDIT_EVERY = timedelta(seconds=15)
_GIVEN_UP = (Action.NOTHING, Reason.DEAD)
REFUSING_REASONS = frozenset({"not_planned", "duplicate"})
"""GitHub's state reasons by which a person says that the matter is no matter."""


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
    flapping = _is_flapping(incident, now)
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


def _is_flapping(incident: Incident, now: datetime) -> bool:
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
        label = not _is_flapping(incident, now)
    return replace(incident, intent=None, audit_at=audit_at, flapping_label=label)


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
    policy = incident.disposition.policy.closed_while_firing
    if fires_anew_since(incident, issue.closed_at):
        return _reopen_or_new(incident, issue, Reason.FIRING_AGAIN, now)
    if policy is ClosedWhileFiring.REOPEN:
        return _reopen_or_new(incident, issue, Reason.HUMAN_CLOSED_WHILE_FIRING, now)
    return Step(Action.NOTHING, Reason.HUMAN_CLOSE_RESPECTED)


def fires_anew_since(incident: Incident, closed_at: datetime | None) -> bool:
    """Whether a member began to fire after the close (not merely went on firing)."""
    return closed_at is None or any(m.changed_at > closed_at for m in incident.firing)


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
