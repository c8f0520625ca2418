"""Records as the JSON that GitHub's REST API answers with; schemas in GitHub's OpenAPI description.

Pure: the addresses come in with the constructor.
"""

import base64
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from sandbox.github_server.model import (
    App,
    Comment,
    Event,
    Issue,
    Label,
    Milestone,
    Permission,
    Repository,
    User,
)

JSON = dict[str, Any]


class Lookup(Protocol):
    """What the shapes need to look up."""

    def user(self, login: str) -> User: ...
    def labels_of(self, issue: Issue) -> list[Label]: ...
    def milestone_of(self, issue: Issue) -> tuple[Milestone, int, int] | None: ...
    def app(self, slug: str | None) -> App | None: ...


def stamp(moment: datetime | None) -> str | None:
    """GitHub's times: UTC, whole seconds."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def node_id(kind: str, number: int) -> str:
    return base64.b64encode(f"{kind}:{number}".encode()).decode()


class Shapes:
    """`root` is the address of the API, `site` that of the pages; both without a slash at the end."""

    def __init__(self, root: str, site: str, lookup: Lookup) -> None:
        self.root = root
        self.site = site
        self._lookup = lookup

    def repo_url(self, repo: Repository) -> str:
        return f"{self.root}/repos/{repo.full_name}"

    def issue_page(self, repo: Repository, number: int) -> str:
        return f"{self.site}/{repo.full_name}/issues/{number}"

    def user(self, login: str) -> JSON:
        user = self._lookup.user(login)
        url = f"{self.root}/users/{user.login}"
        return {
            "login": user.login,
            "id": user.id,
            "node_id": node_id("User", user.id),
            "avatar_url": f"{self.site}/_sandbox/avatars/{user.login}.svg",
            "gravatar_id": "",
            "url": url,
            "html_url": f"{self.site}/{user.login}",
            "followers_url": f"{url}/followers",
            "following_url": f"{url}/following{{/other_user}}",
            "gists_url": f"{url}/gists{{/gist_id}}",
            "starred_url": f"{url}/starred{{/owner}}{{/repo}}",
            "subscriptions_url": f"{url}/subscriptions",
            "organizations_url": f"{url}/orgs",
            "repos_url": f"{url}/repos",
            "events_url": f"{url}/events{{/privacy}}",
            "received_events_url": f"{url}/received_events",
            "type": user.kind,
            "user_view_type": "public",
            "site_admin": False,
        }

    def label(self, repo: Repository, label: Label) -> JSON:
        return {
            "id": label.id,
            "node_id": node_id("Label", label.id),
            "url": f"{self.repo_url(repo)}/labels/{label.name}",
            "name": label.name,
            "color": label.color,
            "default": False,
            "description": label.description,
        }

    def milestone(self, repo: Repository, milestone: Milestone, opened: int, closed: int) -> JSON:
        url = f"{self.repo_url(repo)}/milestones/{milestone.number}"
        return {
            "url": url,
            "html_url": f"{self.site}/{repo.full_name}/milestone/{milestone.number}",
            "labels_url": f"{url}/labels",
            "id": milestone.id,
            "node_id": node_id("Milestone", milestone.id),
            "number": milestone.number,
            "state": milestone.state,
            "title": milestone.title,
            "description": milestone.description,
            "creator": self.user(milestone.creator),
            "open_issues": opened,
            "closed_issues": closed,
            "created_at": stamp(milestone.created_at),
            "updated_at": stamp(milestone.updated_at),
            "closed_at": None,
            "due_on": milestone.due_on,
        }

    def issue(self, repo: Repository, issue: Issue) -> JSON:
        url = f"{self.repo_url(repo)}/issues/{issue.number}"
        assignees = [self.user(login) for login in issue.assignees]
        milestone = self._lookup.milestone_of(issue)
        return {
            "id": issue.id,
            "node_id": node_id("Issue", issue.id),
            "url": url,
            "repository_url": self.repo_url(repo),
            "labels_url": f"{url}/labels{{/name}}",
            "comments_url": f"{url}/comments",
            "events_url": f"{url}/events",
            "timeline_url": f"{url}/timeline",
            "html_url": self.issue_page(repo, issue.number),
            "number": issue.number,
            "state": issue.state,
            "state_reason": issue.state_reason,
            "title": issue.title,
            "body": issue.body,
            "user": self.user(issue.author),
            "labels": [self.label(repo, label) for label in self._lookup.labels_of(issue)],
            "assignee": assignees[0] if assignees else None,
            "assignees": assignees,
            "milestone": self.milestone(repo, *milestone) if milestone else None,
            "locked": issue.locked,
            "active_lock_reason": issue.lock_reason,
            "comments": issue.comments,
            "closed_at": stamp(issue.closed_at),
            "closed_by": self.user(issue.closed_by) if issue.closed_by else None,
            "created_at": stamp(issue.created_at),
            "updated_at": stamp(issue.updated_at),
            "author_association": association(repo, issue.author),
            "reactions": reactions(f"{url}/reactions"),
            "sub_issues_summary": {"total": 0, "completed": 0, "percent_completed": 0},
            "performed_via_github_app": self.maybe_app(issue.app),
        }

    def comment(self, repo: Repository, comment: Comment) -> JSON:
        url = f"{self.repo_url(repo)}/issues/comments/{comment.id}"
        page = self.issue_page(repo, comment.number)
        return {
            "id": comment.id,
            "node_id": node_id("IssueComment", comment.id),
            "url": url,
            "html_url": f"{page}#issuecomment-{comment.id}",
            "issue_url": f"{self.repo_url(repo)}/issues/{comment.number}",
            "user": self.user(comment.author),
            "body": comment.body,
            "created_at": stamp(comment.created_at),
            "updated_at": stamp(comment.updated_at),
            "author_association": association(repo, comment.author),
            "reactions": reactions(f"{url}/reactions"),
            "performed_via_github_app": self.maybe_app(comment.app),
        }

    def event(self, repo: Repository, event: Event) -> JSON:
        return {
            "id": event.id,
            "node_id": node_id("Event", event.id),
            "url": f"{self.repo_url(repo)}/issues/events/{event.id}",
            "actor": self.user(event.actor),
            "event": event.kind,
            "commit_id": None,
            "commit_url": None,
            "created_at": stamp(event.created_at),
            "performed_via_github_app": self.maybe_app(event.app),
            **self._detail(event),
        }

    def timeline_comment(self, repo: Repository, comment: Comment) -> JSON:
        actor = self.user(comment.author)
        return {**self.comment(repo, comment), "event": "commented", "actor": actor}

    def maybe_app(self, slug: str | None) -> JSON | None:
        app = self._lookup.app(slug)
        return self.app(app) if app else None

    def app(self, app: App) -> JSON:
        return {
            "id": app.id,
            "slug": app.slug,
            "node_id": node_id("App", app.id),
            "client_id": f"Iv1.{app.id:016x}",
            "owner": self.user(app.owner),
            "name": app.slug,
            "description": None,
            "external_url": self.site,
            "html_url": f"{self.site}/apps/{app.slug}",
            "created_at": stamp(app.created_at),
            "updated_at": stamp(app.created_at),
            "permissions": {"issues": "write", "metadata": "read"},
            "events": [],
        }

    def _detail(self, event: Event) -> JSON:
        detail = event.detail
        if event.kind in ("labeled", "unlabeled"):
            return {"label": dict(detail)}
        if event.kind in ("assigned", "unassigned"):
            person = self.user(detail["assignee"])
            return {"assignee": person, "assigner": self.user(event.actor)}
        if event.kind in ("milestoned", "demilestoned"):
            return {"milestone": dict(detail)}
        if event.kind == "renamed":
            return {"rename": dict(detail)}
        return dict(detail)


def association(repo: Repository, login: str) -> str:
    if login.lower() == repo.owner.lower():
        return "OWNER"
    known = repo.collaborators.get(login.lower(), Permission.NONE)
    return "COLLABORATOR" if known else "NONE"


def reactions(url: str) -> JSON:
    kinds = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")
    return {"url": url, "total_count": 0, **dict.fromkeys(kinds, 0)}


def content_file(url: str, page: str, path: str, text: str) -> JSON:
    """A file of a repository, as `GET contents` tells it."""
    data = text.encode()
    sha = hashlib.sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()
    return {
        "type": "file",
        "encoding": "base64",
        "size": len(data),
        "name": path.rsplit("/", 1)[-1],
        "path": path,
        "content": base64.encodebytes(data).decode(),
        "sha": sha,
        "url": url,
        "git_url": None,
        "html_url": page,
        "download_url": None,
        "_links": {"self": url, "git": None, "html": page},
    }


def rate(headers: Mapping[str, str]) -> JSON:
    return {
        key: int(headers[f"x-ratelimit-{key}"]) for key in ("limit", "remaining", "reset", "used")
    }
