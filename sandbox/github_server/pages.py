"""The pages that a person reads: repositories, a list of issues, one issue with its timeline.

They show and change nothing, ask for no sign-in and load nothing from elsewhere.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask import Blueprint, Response, abort, make_response, redirect, render_template, request
from markupsafe import Markup
from werkzeug.wrappers import Response as AnyResponse

from sandbox.github_rules import Page
from sandbox.github_server.conversation import comments_of
from sandbox.github_server.issue_records import Gone, find_issue
from sandbox.github_server.lookup import StateLookup
from sandbox.github_server.markdown_view import render
from sandbox.github_server.model import Comment, Event, Issue, Repository
from sandbox.github_server.state import GitHubState

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'"
PAGE_SIZE = 50
ICONS = {
    "closed": "●",
    "reopened": "○",
    "assigned": "+",
    "unassigned": "-",
    "labeled": "+",
    "unlabeled": "-",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of a timeline: a comment when `comment` is set, else an event."""

    at: datetime
    actor: str
    comment: Comment | None = None
    event: Event | None = None


def create_routes(state: GitHubState) -> Blueprint:
    routes = Blueprint("pages", __name__)
    lookup = StateLookup(state)

    @routes.get("/")
    def repositories() -> Response:
        entries = [(repo, _counts(state, repo)) for repo in state.repositories.all()]
        return _page("repositories.html", entries=entries)

    @routes.get("/<owner>/<repo>")
    def repository(owner: str, repo: str) -> AnyResponse:
        return redirect(f"/{_repository(state, owner, repo).full_name}/issues")

    @routes.get("/<owner>/<repo>/issues")
    def issues(owner: str, repo: str) -> Response:
        return _list(state, lookup, _repository(state, owner, repo))

    @routes.get("/<owner>/<repo>/issues/<int:number>")
    def issue(owner: str, repo: str, number: int) -> AnyResponse:
        found = _repository(state, owner, repo)
        try:
            return _issue(state, lookup, found, find_issue(state, found, number))
        except Gone as gone:
            target = state.repository_by_id(gone.trail.to_repository or 0) or found
            return redirect(f"/{target.full_name}/issues/{gone.trail.to_number}")

    @routes.app_template_filter("ink")
    def ink(color: str) -> str:
        """Black or white, whichever is read better on `color` (rrggbb)."""
        red, green, blue = (int(color[i : i + 2], 16) for i in (0, 2, 4))
        return "#1f2328" if red * 299 + green * 587 + blue * 114 > 140_000 else "#ffffff"  # noqa: PLR2004  (perceived brightness)

    return routes


def _list(state: GitHubState, lookup: StateLookup, repo: Repository) -> Response:
    wanted = "closed" if request.args.get("state") == "closed" else "open"
    issues = [issue for issue in state.issues.in_group(str(repo.id)) if issue.state == wanted]
    issues.sort(key=lambda issue: -issue.number)
    page = Page(max(1, request.args.get("page", 1, int)), PAGE_SIZE)
    return _page(
        "issues.html",
        repo=repo,
        counts=_counts(state, repo),
        wanted=wanted,
        rows=[(issue, lookup.labels_of(issue)) for issue in page.cut(issues)],
        page=page,
        last=page.count_of(len(issues)),
    )


def _issue(state: GitHubState, lookup: StateLookup, repo: Repository, issue: Issue) -> Response:
    milestone = lookup.milestone_of(issue)
    return _page(
        "issue.html",
        repo=repo,
        issue=issue,
        labels=lookup.labels_of(issue),
        milestone=milestone[0] if milestone else None,
        timeline=_timeline(state, repo, issue),
        icons=ICONS,
        markdown=lambda text: Markup(render(text)),  # noqa: S704  (render makes it safe)
    )


def _timeline(state: GitHubState, repo: Repository, issue: Issue) -> list[Line]:
    """Comments and events, oldest first; ids count up, whatever the clock does."""
    entries: list[Comment | Event] = [
        *comments_of(state, repo, issue.number),
        *state.events.in_group(f"{repo.id}/{issue.number}"),
    ]
    return [
        Line(entry.created_at, entry.author, comment=entry)
        if isinstance(entry, Comment)
        else Line(entry.created_at, entry.actor, event=entry)
        for entry in sorted(entries, key=lambda entry: entry.id)
    ]


def _repository(state: GitHubState, owner: str, name: str) -> Repository:
    repo = state.repositories.get("", f"{owner}/{name}".lower())
    if repo is None:
        abort(404)
    return repo


def _counts(state: GitHubState, repo: Repository) -> tuple[int, int]:
    states = [issue.state for issue in state.issues.in_group(str(repo.id))]
    return states.count("open"), states.count("closed")


def _page(template: str, **context: Any) -> Response:
    response = make_response(render_template(template, **context))
    response.headers["Content-Security-Policy"] = POLICY
    return response
