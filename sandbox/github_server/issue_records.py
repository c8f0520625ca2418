"""The ground that all changes of issues share: who acts, where an issue is, what is written down."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from chassis.errors import PermanentError
from sandbox.github_rules.refusals import deleted, not_found
from sandbox.github_server.model import Event, Issue, Repository, Trail
from sandbox.github_server.state import GitHubState


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts. `may_triage`: labels, assignees and milestones are heeded; `app`: through an App."""

    login: str
    may_triage: bool = True
    may_push: bool = True
    app: str | None = None


class Gone(PermanentError):  # noqa: N818  (the domain's word)
    """The issue went elsewhere; `trail` says where."""

    def __init__(self, trail: Trail) -> None:
        super().__init__(f"issue {trail.number} was transferred")
        self.trail = trail


def find_issue(state: GitHubState, repo: Repository, number: int) -> Issue:
    """The issue as it is now.

    Raises:
        Refusal: 404 if it never was, 410 if it was deleted.
        Gone: it was transferred.
    """
    issue = state.issues.get(str(repo.id), str(number))
    if issue is not None:
        return issue
    trail = state.trails.get(str(repo.id), str(number))
    if trail is None:
        raise not_found()
    if trail.to_repository is None:
        raise deleted()
    raise Gone(trail)


def record(
    state: GitHubState, issue: Issue, kind: str, actor: Actor, detail: Mapping[str, Any]
) -> Event:
    """Write one line of the issue's timeline."""
    return state.events.put(
        Event(
            id=state.next_id(),
            repository=issue.repository,
            number=issue.number,
            kind=kind,
            actor=actor.login,
            created_at=state.clock(),
            detail=detail,
            app=actor.app,
        )
    )


def save(state: GitHubState, issue: Issue, now: datetime) -> Issue:
    state.note_effect()
    return state.issues.put(replace(issue, updated_at=now))
