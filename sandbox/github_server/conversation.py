"""Comments, milestones, and the moves that end an issue's life where it was: transfer and deletion.

As `issues`, whose records this module shares; whether the caller may is decided before.
"""

from dataclasses import replace

from sandbox.github_rules import CommentDraft, FieldError, LabelDraft, MilestoneDraft
from sandbox.github_rules.refusals import invalid, not_found
from sandbox.github_server.issue_records import Actor, find_issue, record
from sandbox.github_server.model import Comment, Issue, Label, Milestone, Repository, Trail
from sandbox.github_server.state import GitHubState


def add_comment(
    state: GitHubState, actor: Actor, repo: Repository, number: int, draft: CommentDraft
) -> Comment:
    with state.changing() as now:
        issue = find_issue(state, repo, number)
        comment = Comment(
            id=state.next_id(),
            repository=repo.id,
            number=number,
            author=actor.login,
            body=draft.body,
            created_at=now,
            updated_at=now,
            app=actor.app,
        )
        state.note_effect()
        state.issues.put(replace(issue, comments=issue.comments + 1, updated_at=now))
        return state.comments.put(comment)


def find_comment(state: GitHubState, repo: Repository, comment_id: int) -> Comment:
    for issue in state.issues.in_group(str(repo.id)):
        comment = state.comments.get(f"{repo.id}/{issue.number}", str(comment_id))
        if comment is not None:
            return comment
    raise not_found()


def edit_comment(
    state: GitHubState, repo: Repository, comment_id: int, draft: CommentDraft
) -> Comment:
    with state.changing() as now:
        comment = find_comment(state, repo, comment_id)
        state.note_effect()
        return state.comments.put(replace(comment, body=draft.body, updated_at=now))


def delete_comment(state: GitHubState, repo: Repository, comment_id: int) -> None:
    with state.changing() as now:
        comment = find_comment(state, repo, comment_id)
        issue = find_issue(state, repo, comment.number)
        state.note_effect()
        state.comments.delete(comment)
        state.issues.put(replace(issue, comments=issue.comments - 1, updated_at=now))


def comments_of(state: GitHubState, repo: Repository, number: int) -> list[Comment]:
    """Oldest first."""
    return state.comments.in_group(f"{repo.id}/{number}")


def make_label(state: GitHubState, repo: Repository, draft: LabelDraft) -> Label:
    with state.changing():
        if state.labels.get(str(repo.id), draft.name.lower()) is not None:
            raise invalid(FieldError("Label", "name", "already_exists"))
        label = Label(state.next_id(), repo.id, draft.name, draft.color, draft.description)
        return state.labels.put(label)


def make_milestone(
    state: GitHubState, actor: Actor, repo: Repository, draft: MilestoneDraft
) -> Milestone:
    with state.changing() as now:
        present = state.milestones.in_group(str(repo.id))
        if any(milestone.title == draft.title for milestone in present):
            raise invalid(FieldError("Milestone", "title", "already_exists"))
        milestone = Milestone(
            id=state.next_id(),
            repository=repo.id,
            number=len(present) + 1,
            title=draft.title,
            creator=actor.login,
            created_at=now,
            updated_at=now,
            state=draft.state,
            description=draft.description,
            due_on=draft.due_on,
        )
        return state.milestones.put(milestone)


def transfer_issue(
    state: GitHubState, actor: Actor, repo: Repository, number: int, target: Repository
) -> Issue:
    """Move the issue with its comments; labels that the target lacks stay behind, as at GitHub."""
    with state.changing() as now:
        issue = find_issue(state, repo, number)
        target = state.repository(target.full_name)
        target = state.repositories.put(replace(target, last_number=target.last_number + 1))
        kept = [n for n in issue.labels if state.labels.get(str(target.id), n.lower()) is not None]
        moved = replace(
            issue,
            id=state.next_id(),
            repository=target.id,
            number=target.last_number,
            labels=tuple(kept),
            milestone=None,
            updated_at=now,
        )
        state.note_effect()
        _take_along(state, repo, number, moved)
        state.issues.delete(issue)
        state.trails.put(Trail(repo.id, number, target.id, moved.number))
        state.issues.put(moved)
        record(state, moved, "transferred", actor, {"from": f"{repo.full_name}#{number}"})
        return moved


def delete_issue(state: GitHubState, repo: Repository, number: int) -> None:
    with state.changing():
        issue = find_issue(state, repo, number)
        state.note_effect()
        for comment in comments_of(state, repo, number):
            state.comments.delete(comment)
        state.issues.delete(issue)
        state.trails.put(Trail(repo.id, number))


def _take_along(state: GitHubState, repo: Repository, number: int, moved: Issue) -> None:
    for comment in comments_of(state, repo, number):
        state.comments.delete(comment)
        state.comments.put(replace(comment, repository=moved.repository, number=moved.number))
    for event in state.events.in_group(f"{repo.id}/{number}"):
        state.events.delete(event)
        state.events.put(replace(event, repository=moved.repository, number=moved.number))
