"""What is done next for an incident, as a table: each row one rule."""

from datetime import datetime

import pytest

from alerts2gh.config import ClosedWhileFiring, CommentOn, FlappingPolicy, IssuePolicy, Recovery
from alerts2gh.incident import (
    Assignment,
    ClosedBy,
    FoldReason,
    Incident,
    Intent,
    IntentAction,
    IssueState,
    PastIssue,
    Transition,
)
from alerts2gh.issue_plan import Action, Reason, Step, damp, next_step, observed, start_anew
from chassis.alertmanager import AlertStatus
from tests.alerts2gh.builders import NOW, a_disposition, a_member, an_incident, an_issue, minutes

RECOVERY = Recovery()
HASH = "as-written"
UNTOLD = (Transition("f", AlertStatus.FIRING, NOW, FoldReason.NEW_MEMBER),)
CLOSED = IssueState.CLOSED


def firing(**others: object) -> Incident:
    return an_incident(a_member(), **others)  # type: ignore[arg-type]


def resolved(since: float = 20, **others: object) -> Incident:
    member = a_member(firing=False, changed_at=NOW - minutes(since))
    return an_incident(member, resolved_since=NOW - minutes(since), **others)  # type: ignore[arg-type]


def closed(by: ClosedBy, ago: float, state_reason: str = "completed", **others: object) -> object:
    return an_issue(
        state=CLOSED,
        closed_by=by,
        closed_at=NOW - minutes(ago),
        state_reason=state_reason,
        **others,
    )


def intent(action: IntentAction, ago: float = 0, **others: object) -> Intent:
    return Intent(action, "token", NOW - minutes(ago), **others)  # type: ignore[arg-type]


_CHAIN = a_disposition(assignees=({"static": {"logins": ("alice",)}},))
_LEAVE = IssuePolicy(closed_while_firing=ClosedWhileFiring.LEAVE)
_REOPEN = IssuePolicy(closed_while_firing=ClosedWhileFiring.REOPEN)


@pytest.mark.parametrize(
    ("incident", "step"),
    [
        pytest.param(
            firing(), Step(Action.CREATE, Reason.FIRST_FIRING), id="a firing alert is filed"
        ),
        pytest.param(
            resolved(),
            Step(Action.NOTHING, Reason.NEVER_FIRED),
            id="only resolved alerts are never filed",
        ),
        pytest.param(
            firing(dead_reason="invalid"),
            Step(Action.NOTHING, Reason.DEAD),
            id="a dead letter rests",
        ),
        pytest.param(
            firing(retry_at=NOW + minutes(1)),
            Step(Action.SLEEP, Reason.BACKING_OFF, NOW + minutes(1)),
            id="after a failure it waits",
        ),
        pytest.param(
            firing(intent=intent(IntentAction.CREATE)),
            Step(Action.SLEEP, Reason.OUTCOME_UNKNOWN, NOW + RECOVERY.look_after[0]),
            id="an unanswered create is not repeated at once",
        ),
        pytest.param(
            firing(intent=intent(IntentAction.CREATE, ago=1)),
            Step(Action.LOOK, Reason.OUTCOME_UNKNOWN),
            id="an unanswered create is looked for",
        ),
        pytest.param(
            firing(intent=intent(IntentAction.CREATE, ago=0.5, looks=1)),
            Step(Action.SLEEP, Reason.OUTCOME_UNKNOWN, NOW + minutes(0.5)),
            id="one empty list is not enough, lists lag",
        ),
        pytest.param(
            firing(intent=intent(IntentAction.CREATE, ago=2, looks=2)),
            Step(Action.FORGET_INTENT, Reason.LISTED_AND_NOT_FOUND),
            id="after the last empty list it may be created again",
        ),
        pytest.param(
            firing(intent=intent(IntentAction.CLOSE), issue=an_issue()),
            Step(Action.FORGET_INTENT, Reason.SAFE_TO_REPEAT),
            id="an unanswered edit is simply done again",
        ),
        pytest.param(
            firing(issue=an_issue(), assignment=Assignment(), disposition=_CHAIN),
            Step(Action.ASSIGN, Reason.UNASSIGNED),
            id="a new issue is assigned first of all",
        ),
        pytest.param(
            firing(issue=an_issue(), untold=UNTOLD),
            Step(Action.COMMENT, Reason.TRANSITIONS_UNTOLD),
            id="a change is told in a comment",
        ),
        pytest.param(
            firing(
                issue=an_issue(), untold=UNTOLD, policy=IssuePolicy(comment_on=CommentOn.NOTHING)
            ),
            Step(Action.NOTHING, Reason.UP_TO_DATE),
            id="no comments when the policy wants none",
        ),
        pytest.param(
            firing(issue=an_issue(block_hash="other")),
            Step(Action.EDIT, Reason.BODY_OUTDATED),
            id="an outdated body is edited",
        ),
        pytest.param(
            firing(issue=an_issue()),
            Step(Action.NOTHING, Reason.UP_TO_DATE),
            id="unchanged text is not written",
        ),
        pytest.param(
            resolved(since=5, issue=an_issue(block_hash="other")),
            Step(Action.SLEEP, Reason.QUIET_PERIOD, NOW + minutes(10)),
            id="a resolved incident stays open for the quiet period",
        ),
        pytest.param(
            resolved(issue=an_issue()),
            Step(Action.CLOSE, Reason.QUIET_PERIOD_OVER),
            id="after the quiet period it closes",
        ),
        pytest.param(
            resolved(issue=an_issue(), truncated=3),
            Step(Action.NOTHING, Reason.TRUNCATED),
            id="a truncated delivery never closes",
        ),
        pytest.param(
            resolved(issue=an_issue(labels=("Keep-Open",), seen_at=NOW)),
            Step(Action.SLEEP, Reason.KEEP_OPEN, NOW + minutes(60)),
            id="the keep-open label keeps it open",
        ),
        pytest.param(
            resolved(issue=an_issue(labels=("Keep-Open",), seen_at=NOW - minutes(60))),
            Step(Action.OBSERVE, Reason.KEEP_OPEN),
            id="whether the keep-open label is still there is looked at once an hour",
        ),
        pytest.param(
            an_incident(
                a_member(firing=False, annotations={"nodemend.dev/keep-open": "true"}),
                issue=an_issue(),
                resolved_since=NOW - minutes(60),
            ),
            Step(Action.NOTHING, Reason.KEEP_OPEN),
            id="the keep-open annotation keeps it open",
        ),
        pytest.param(
            resolved(issue=an_issue(), held_until=NOW + minutes(9)),
            Step(Action.SLEEP, Reason.OPERATION_RUNNING, NOW + minutes(9)),
            id="a running operation holds back the close",
        ),
        pytest.param(
            resolved(issue=an_issue(), policy=IssuePolicy(auto_close=False)),
            Step(Action.NOTHING, Reason.AUTO_CLOSE_OFF),
            id="auto_close off never closes",
        ),
        pytest.param(
            firing(issue=closed(ClosedBy.US, ago=60)),
            Step(Action.REOPEN, Reason.FIRING_AGAIN),
            id="firing again inside the window reopens",
        ),
        pytest.param(
            firing(issue=closed(ClosedBy.US, ago=60 * 24 * 8)),
            Step(Action.START_ANEW, Reason.FIRING_AFTER_WINDOW),
            id="firing again after the window opens a new issue",
        ),
        pytest.param(
            resolved(issue=closed(ClosedBy.US, ago=60)),
            Step(Action.NOTHING, Reason.CLOSED_AND_RESOLVED),
            id="closed and resolved is the end",
        ),
        pytest.param(
            firing(issue=closed(ClosedBy.HUMAN, ago=10)),
            Step(Action.NOTHING, Reason.HUMAN_CLOSE_RESPECTED),
            id="a person closed it while firing: left until a new episode",
        ),
        pytest.param(
            firing(issue=closed(ClosedBy.HUMAN, ago=10), policy=_REOPEN),
            Step(Action.REOPEN, Reason.HUMAN_CLOSED_WHILE_FIRING),
            id="a person closed it while firing: reopened by policy",
        ),
        pytest.param(
            firing(issue=closed(ClosedBy.HUMAN, ago=60)),
            Step(Action.REOPEN, Reason.FIRING_AGAIN),
            id="a person closed it as completed: a new episode reopens",
        ),
        pytest.param(
            firing(issue=closed(ClosedBy.HUMAN, ago=60), policy=_LEAVE),
            Step(Action.NOTHING, Reason.HUMAN_CLOSE_RESPECTED),
            id="leave: a new episode is left, too, while the others still fire",
        ),
        pytest.param(
            firing(
                issue=closed(ClosedBy.HUMAN, ago=60),
                policy=_LEAVE,
                flips=(NOW - minutes(40), NOW - minutes(30)),
            ),
            Step(Action.REOPEN, Reason.FIRING_AGAIN),
            id="leave: once all was quiet, firing again reopens",
        ),
        pytest.param(
            firing(
                issue=closed(ClosedBy.HUMAN, 60, "not_planned"),
                suppressed_members=(a_member().fingerprint,),
            ),
            Step(Action.SLEEP, Reason.NOT_PLANNED_QUIET, NOW + minutes(60 * 24 * 7 - 60)),
            id="not planned is quiet for the members it had",
        ),
        pytest.param(
            an_incident(
                a_member(),
                a_member("gpu-n2"),
                issue=closed(ClosedBy.HUMAN, 60, "not_planned"),
                suppressed_members=(a_member().fingerprint,),
            ),
            Step(Action.START_ANEW, Reason.NOT_PLANNED_NEW_MEMBER),
            id="not planned: a new member opens a new issue",
        ),
        pytest.param(
            firing(
                issue=closed(ClosedBy.HUMAN, 60 * 24 * 8, "not_planned"),
                suppressed_members=(a_member().fingerprint,),
            ),
            Step(Action.START_ANEW, Reason.NOT_PLANNED_OVER),
            id="not planned is over after suppress_for",
        ),
        pytest.param(
            firing(past=(PastIssue(3, "u", "completed", NOW, NOW),)),
            Step(Action.CREATE, Reason.FIRING_AFTER_WINDOW),
            id="the next issue of an incident says that it is one",
        ),
        pytest.param(
            resolved(issue=an_issue(), flapping_until=NOW + minutes(5), flapping_label=True),
            Step(Action.SLEEP, Reason.FLAPPING, NOW + minutes(5)),
            id="a flapping incident is not closed",
        ),
        pytest.param(
            firing(issue=an_issue(), flapping_until=NOW + minutes(5), untold=UNTOLD),
            Step(Action.LABEL, Reason.FLAPPING),
            id="a flapping incident is labelled, not commented",
        ),
        pytest.param(
            firing(issue=an_issue(), flapping_until=NOW - minutes(1), flapping_label=True),
            Step(Action.UNLABEL, Reason.FLAPPING_OVER),
            id="the flapping label comes off again",
        ),
        pytest.param(
            firing(issue=an_issue(), audit_at=NOW - minutes(1)),
            Step(Action.LOOK, Reason.DUPLICATE_AUDIT),
            id="after a repeated create duplicates are looked for",
        ),
        pytest.param(
            resolved(audit_at=NOW - minutes(1)),
            Step(Action.LOOK, Reason.DUPLICATE_AUDIT),
            id="an issue that a lagging list hid is looked for even when nothing fires any more",
        ),
        pytest.param(
            firing(issue=an_issue(), audit_at=NOW + minutes(4)),
            Step(Action.SLEEP, Reason.UP_TO_DATE, NOW + minutes(4)),
            id="a coming audit wakes an incident that is up to date",
        ),
    ],
)
def test_the_next_step(incident: Incident, step: Step) -> None:
    assert next_step(incident, RECOVERY, HASH, NOW) == step


def test_not_planned_notes_the_members_it_had_when_it_was_closed() -> None:
    """One that joined after the close, though before we saw it, is new."""
    old, new = a_member("gpu-n1"), a_member("gpu-n2", changed_at=NOW)
    joined = Transition(new.fingerprint, AlertStatus.FIRING, NOW, FoldReason.NEW_MEMBER)
    incident = an_incident(old, new, issue=an_issue(), untold=(joined,))
    issue = closed(ClosedBy.HUMAN, 10, "not_planned")

    seen = observed(incident, issue)  # type: ignore[arg-type]

    assert seen.suppressed_members == (old.fingerprint,)
    assert next_step(seen, RECOVERY, HASH, NOW).reason is Reason.NOT_PLANNED_NEW_MEMBER


def test_a_new_start_keeps_the_old_issue_among_the_past_ones() -> None:
    incident = start_anew(an_incident(a_member(), issue=an_issue()), "completed")

    assert [(p.number, p.ended) for p in incident.past] == [(7, "completed")]
    assert (incident.issue, incident.assignment) == (None, Assignment())


@pytest.mark.parametrize(
    ("ago", "flapping_until"),
    [
        pytest.param([50, 40, 30, 20, 10, 1], NOW + minutes(59), id="six changes in an hour flap"),
        pytest.param([40, 30, 20, 10, 1], None, id="five do not"),
        pytest.param([70, 40, 30, 20, 10, 1], None, id="those before the window do not count"),
    ],
)
def test_flapping_is_counted_in_a_window(ago: list[float], flapping_until: datetime | None) -> None:
    flips = tuple(NOW - minutes(m) for m in ago)
    incident = an_incident(a_member(), flips=flips, policy=IssuePolicy(flapping=FlappingPolicy()))

    assert damp(incident, NOW).flapping_until == flapping_until
