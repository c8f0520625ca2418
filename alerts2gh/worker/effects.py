"""The writes to GitHub, each made ready before it is made: its kind, its token, the one call, and what to record of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from alerts2gh.config import CommentOn
from alerts2gh.incident import Assignment, ClosedBy, Incident, IntentAction, Issue, IssueState
from alerts2gh.issue_plan import Action
from alerts2gh.ports import Answer, TrackedIssue, Tracker
from alerts2gh.rendering import Renderer
from alerts2gh.rendering.block import token_marker
from alerts2gh.rendering.stories import story_comment
from alerts2gh.worker.case import Case, Duplicate, issue_from

Record = Callable[[Incident, object, datetime], Incident]


@dataclass(frozen=True, slots=True)
class Effect:
    """One write. `call` makes exactly one request; `record` puts its answer's value into the incident.

    `give_up` is there for a write that nothing depends on: what to record when GitHub will never take it.
    """

    kind: IntentAction
    token: str
    call: Callable[[], Answer[object]]
    record: Record
    covers: int = 0
    tells: int = 0
    give_up: Callable[[Incident], Incident] | None = None


@dataclass(frozen=True, slots=True)
class Hands:
    """What effects are made with."""

    tracker: Tracker
    renderer: Renderer
    login: str


def create(case: Case, hands: Hands) -> Effect:
    """A new issue. Its assignees come in a call of their own: an unknown login would make the whole create fail."""
    incident = case.incident
    disposition = incident.disposition
    token = f"{incident.id[:12]}.{len(incident.past)}"
    title = hands.renderer.title(incident)
    body = hands.renderer.new_body(incident, token)
    block_hash = hands.renderer.block_hash(incident)

    def record(before: Incident, value: object, at: datetime) -> Incident:
        issue = replace(
            _issue(value, None, hands, at), title=title, block_hash=block_hash, written_at=at
        )
        return replace(before, issue=issue, untold=(), untold_dropped=0, assignment=Assignment())

    return Effect(
        IntentAction.CREATE,
        token,
        lambda: hands.tracker.create_issue(
            disposition.target, title, body, disposition.issue_labels, disposition.milestone
        ),
        record,
    )


_PATCHES: dict[Action, tuple[IntentAction, IssueState | None, str | None]] = {
    Action.REOPEN: (IntentAction.REOPEN, IssueState.OPEN, "reopened"),
    Action.CLOSE: (IntentAction.CLOSE, IssueState.CLOSED, "completed"),
    Action.EDIT: (IntentAction.EDIT, None, None),
}


def patch(
    case: Case, hands: Hands, action: Action, issue: Issue, fresh: TrackedIssue
) -> Effect | None:
    """State, title and our part of the body in one request; None when GitHub already shows all of it.

    A title that a person has changed since we wrote it stays theirs, and so does that of an issue we took over.
    """
    kind, state, state_reason = _PATCHES[action]
    incident = case.incident
    block_hash = hands.renderer.block_hash(incident)
    body = hands.renderer.body_with_block(fresh.body, incident)
    wanted_title = hands.renderer.title(incident)
    title = wanted_title if fresh.title == issue.title != wanted_title else None
    if state is None and body is None and title is None:
        return None

    def record(before: Incident, value: object, at: datetime) -> Incident:
        answered = _issue(value, issue, hands, at)
        after = replace(
            answered,
            title=title or issue.title,
            block_hash=block_hash,
            written_at=at,
            closed_by=ClosedBy.US if state is IssueState.CLOSED else answered.closed_by,
        )
        told = incident.disposition.policy.comment_on is CommentOn.NOTHING
        return replace(before, issue=after, untold=() if told else before.untold)

    return Effect(
        kind,
        f"{incident.id[:12]}.{kind.value}{incident.version}",
        lambda: hands.tracker.edit_issue(
            case.target,
            issue.number,
            title=title,
            body=body,
            state=state,
            state_reason=state_reason,
        ),
        record,
    )


def comment(case: Case, hands: Hands, issue: Issue) -> Effect:
    """Tell the transitions that nobody has been told of."""
    incident = case.incident
    covers = len(incident.untold)
    token = f"{incident.id[:12]}.c{incident.version}"
    text = hands.renderer.comment(incident, incident.untold, token)

    def record(before: Incident, _value: object, _at: datetime) -> Incident:
        return replace(before, untold=before.untold[covers:], untold_dropped=0)

    return Effect(
        IntentAction.COMMENT,
        token,
        lambda: hands.tracker.add_comment(case.target, issue.number, text),
        record,
        covers,
    )


def story(case: Case, hands: Hands, issue: Issue) -> Effect:
    """Tell what node operations did; what does not fit follows in another comment."""
    incident = case.incident
    token = f"{incident.id[:12]}.c{incident.version}"
    text, tells = story_comment(incident.stories, incident.stories_dropped, token)

    def record(before: Incident, _value: object, _at: datetime) -> Incident:
        return replace(before, stories=before.stories[tells:], stories_dropped=0)

    return Effect(
        IntentAction.COMMENT,
        token,
        lambda: hands.tracker.add_comment(case.target, issue.number, text),
        record,
        tells=tells,
    )


def label(case: Case, hands: Hands, issue: Issue, action: Action) -> Effect:
    """Put the flapping label on, or take it off again."""
    name = case.incident.disposition.policy.flapping.label
    adding = action is Action.LABEL

    def call() -> Answer[object]:
        if adding:
            return hands.tracker.add_labels(case.target, issue.number, [name])
        return hands.tracker.remove_label(case.target, issue.number, name)

    def settled(before: Incident) -> Incident:
        return replace(before, flapping_label=adding)

    return Effect(
        IntentAction.EDIT,
        f"{case.incident.id[:12]}.label",
        call,
        lambda before, _value, _at: settled(before),
        give_up=settled,
    )


def retire(case: Case, tracker: Tracker, duplicate: Duplicate) -> Effect:
    """Close a second issue of the incident: first a comment that links to the one kept, then the close.

    No body is touched. The incident's `audit_at` brings the worker back until no second one is open.
    """
    number, target = duplicate.number, case.target
    token = retiring_token(case.incident, number)
    text = (
        f"{token_marker(token)}\nDuplicate of #{duplicate.kept}, which was filed first and stays."
    )

    def call() -> Answer[object]:
        if not duplicate.told:
            return tracker.add_comment(target, number, text)
        return tracker.edit_issue(target, number, state=IssueState.CLOSED, state_reason="duplicate")

    return Effect(
        IntentAction.EDIT,
        token,
        call,
        lambda before, _value, _at: before,
        give_up=lambda before: replace(before, audit_at=None),
    )


def retiring_token(incident: Incident, number: int) -> str:
    """Name the comment that sends people from a second issue to the first."""
    return f"{incident.id[:12]}.duplicate{number}"


def _issue(value: object, before: Issue | None, hands: Hands, at: datetime) -> Issue:
    if not isinstance(value, TrackedIssue):
        raise TypeError(
            f"a write to an issue must answer with the issue, not {type(value).__name__}"
        )
    return issue_from(value, before, hands.login, at)
