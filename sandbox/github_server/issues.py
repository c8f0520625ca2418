"""What happens to issues: opening, editing, closing, reopening, locking. Each records its events.

Whether the caller may is decided before, but for one rule of GitHub's own: without push access
labels, assignees and milestone are dropped silently. Refusals are raised before anything has
changed.
"""

from dataclasses import replace

from sandbox.github_rules import IssueDraft, IssueEdit, next_state
from sandbox.github_server.issue_records import Actor, find_issue, record, save
from sandbox.github_server.model import Issue, Repository
from sandbox.github_server.sidebar import (
    known_logins,
    put_milestone,
    reassign,
    refuse_unassignable,
    refuse_unknown_milestone,
    relabel,
)
from sandbox.github_server.state import GitHubState


def open_issue(state: GitHubState, actor: Actor, repo: Repository, draft: IssueDraft) -> Issue:
    with state.changing() as now:
        heeded = draft if actor.may_triage else IssueDraft(draft.title, draft.body)
        refuse_unassignable(state, repo, heeded.assignees)
        refuse_unknown_milestone(state, repo, heeded.milestone)
        repo = state.repositories.put(
            replace(state.repository(repo.full_name), last_number=_next_number(state, repo))
        )
        issue = Issue(
            id=state.next_id(),
            repository=repo.id,
            number=repo.last_number,
            title=heeded.title,
            body=heeded.body,
            author=actor.login,
            created_at=now,
            updated_at=now,
            app=actor.app,
        )
        issue = save(state, issue, now)
        issue = relabel(state, actor, issue, heeded.labels)
        issue = reassign(state, actor, issue, known_logins(state, heeded.assignees))
        return put_milestone(state, actor, issue, heeded.milestone)


def edit_issue(
    state: GitHubState, actor: Actor, repo: Repository, number: int, edit: IssueEdit
) -> Issue:
    """Apply what `edit` gives; what equals the present changes nothing, not even updated_at."""
    with state.changing():
        issue = find_issue(state, repo, number)
        after = next_state(issue.state, edit)
        if actor.may_triage:
            refuse_unassignable(state, repo, edit.assignees)
            refuse_unknown_milestone(state, repo, edit.milestone)
        issue = _retitle(state, actor, issue, edit)
        if actor.may_triage:
            issue = _apply_sidebar(state, actor, issue, edit)
        return issue if after is None else _turn(state, actor, issue, *after)


def lock_issue(
    state: GitHubState,
    actor: Actor,
    repo: Repository,
    number: int,
    *,
    locked: bool,
    reason: str | None = None,
) -> Issue:
    with state.changing():
        issue = find_issue(state, repo, number)
        if issue.locked == locked:
            return issue
        record(state, issue, "locked" if locked else "unlocked", actor, {"lock_reason": reason})
        return save(state, replace(issue, locked=locked, lock_reason=reason), state.clock())


def _next_number(state: GitHubState, repo: Repository) -> int:
    return state.repository(repo.full_name).last_number + 1


def _retitle(state: GitHubState, actor: Actor, issue: Issue, edit: IssueEdit) -> Issue:
    changed = issue
    if "title" in edit.given and edit.title != issue.title:
        record(state, issue, "renamed", actor, {"from": issue.title, "to": edit.title})
        changed = replace(changed, title=edit.title)
    if "body" in edit.given and edit.body != issue.body:
        changed = replace(changed, body=edit.body)
    return issue if changed == issue else save(state, changed, state.clock())


def _apply_sidebar(state: GitHubState, actor: Actor, issue: Issue, edit: IssueEdit) -> Issue:
    if "labels" in edit.given:
        issue = relabel(state, actor, issue, edit.labels)
    if "assignees" in edit.given and not state.switches.assignees_off:
        issue = reassign(state, actor, issue, known_logins(state, edit.assignees))
    if "milestone" in edit.given:
        issue = put_milestone(state, actor, issue, edit.milestone)
    return issue


def _turn(
    state: GitHubState, actor: Actor, issue: Issue, to_state: str, reason: str | None
) -> Issue:
    closing = to_state == "closed"
    now = state.clock()
    kind = "closed" if closing else "reopened"
    record(state, issue, kind, actor, {"state_reason": reason if closing else None})
    turned = replace(
        issue,
        state=to_state,
        state_reason=reason,
        closed_at=now if closing else None,
        closed_by=actor.login if closing else None,
    )
    return save(state, turned, now)
