"""Routes of issues: create, get, edit, list, lock, timeline, search."""

from datetime import timedelta
from typing import Any

from flask import Blueprint, Response, request

from sandbox.github_rules import (
    IssueFilter,
    Refusal,
    issue_draft,
    issue_edit,
    lock_reason,
    matches,
    page_from,
    parse_search,
    sort_key,
)
from sandbox.github_rules.listing import SORTS
from sandbox.github_rules.refusals import forbidden, invalid
from sandbox.github_rules.search import RESULT_LIMIT, SearchQuery
from sandbox.github_server.answering import Call, answer, answer_page, current, with_links
from sandbox.github_server.conversation import comments_of
from sandbox.github_server.issues import edit_issue, lock_issue, open_issue
from sandbox.github_server.model import Comment, Event, Issue, Permission, Repository

routes = Blueprint("issues", __name__)
ISSUES = "/repos/<owner>/<repo>/issues"
ISSUE = f"{ISSUES}/<int:number>"


@routes.post(ISSUES)
def create(owner: str, repo: str) -> Response:
    call = current()
    found = call.repository(owner, repo)
    actor = call.writing(found)
    issue = open_issue(call.state, actor, found, issue_draft(call.body()))
    call.number = issue.number
    response = answer(call.shapes.issue(found, issue), 201)
    response.headers["Location"] = f"{call.shapes.repo_url(found)}/issues/{issue.number}"
    return response


@routes.get(ISSUE)
def get(owner: str, repo: str, number: int) -> Response:
    call = current()
    found = call.repository(owner, repo)
    return answer(call.shapes.issue(found, call.issue(found, number)))


@routes.patch(ISSUE)
def edit(owner: str, repo: str, number: int) -> Response:
    call = current()
    found = call.repository(owner, repo)
    issue = call.issue(found, number)
    actor = call.writing(found)
    if not actor.may_triage and issue.author != actor.login:
        raise forbidden("Must have admin rights to Repository.")
    changed = edit_issue(call.state, actor, found, number, issue_edit(call.body()))
    return answer(call.shapes.issue(found, changed))


@routes.get(ISSUES)
def index(owner: str, repo: str) -> Response:
    call = current()
    found = call.repository(owner, repo)
    call.viewer.need_issues(found)
    wanted = IssueFilter.from_query(request.args)
    issues = [
        issue
        for issue in call.state.issues.in_group(str(found.id))
        if _visible(call, issue, call.state.switches.list_lag) and matches(issue, wanted)
    ]
    issues.sort(key=sort_key(wanted.sort), reverse=wanted.descending)
    return answer_page(issues, lambda issue: call.shapes.issue(found, issue))


@routes.put(f"{ISSUE}/lock")
def lock(owner: str, repo: str, number: int) -> Response:
    return _set_lock(owner, repo, number, locked=True)


@routes.delete(f"{ISSUE}/lock")
def unlock(owner: str, repo: str, number: int) -> Response:
    return _set_lock(owner, repo, number, locked=False)


@routes.get(f"{ISSUE}/events")
def events(owner: str, repo: str, number: int) -> Response:
    call = current()
    found = call.repository(owner, repo)
    call.issue(found, number)
    entries = call.state.events.in_group(f"{found.id}/{number}")
    return answer_page(entries, lambda event: call.shapes.event(found, event))


@routes.get(f"{ISSUE}/timeline")
def timeline(owner: str, repo: str, number: int) -> Response:
    call = current()
    found = call.repository(owner, repo)
    call.issue(found, number)
    entries: list[Event | Comment] = [
        *call.state.events.in_group(f"{found.id}/{number}"),
        *comments_of(call.state, found, number),
    ]
    entries.sort(key=lambda entry: entry.id)
    return answer_page(
        entries,
        lambda entry: (
            call.shapes.event(found, entry)
            if isinstance(entry, Event)
            else call.shapes.timeline_comment(found, entry)
        ),
    )


@routes.get("/search/issues")
def search() -> Response:
    call = current()
    needs_kind = call.state.switches.search_needs_kind
    query = parse_search(request.args.get("q", ""), needs_kind=needs_kind)
    hits = _hits(call, query)
    sort = request.args.get("sort", "created")
    order = sort_key(sort if sort in SORTS else "created")
    hits.sort(key=lambda hit: order(hit[1]), reverse=request.args.get("order", "desc") != "asc")
    page = page_from(request.args)
    if (page.number - 1) * page.size >= RESULT_LIMIT:
        raise Refusal(422, f"Only the first {RESULT_LIMIT} search results are available")
    items = [{**call.shapes.issue(*hit), "score": 1.0} for hit in page.cut(hits)]
    found: dict[str, Any] = {"total_count": len(hits), "incomplete_results": False}
    found |= {"items": items, "search_type": "lexical"}
    return with_links(answer(found), page, min(len(hits), RESULT_LIMIT))


def _hits(call: Call, query: SearchQuery) -> list[tuple[Repository, Issue]]:
    reachable = [
        repo
        for repo in call.state.repositories.all()
        if query.in_scope(repo.full_name) and call.viewer.permission(repo) >= Permission.READ
    ]
    known = {repo.key for repo in reachable}
    if query.repositories - known:
        raise invalid(
            "The listed users and repositories cannot be searched either because the resources "
            "do not exist or you do not have permission to view them."
        )
    return [
        (repo, issue)
        for repo in reachable
        for issue in call.state.issues.in_group(str(repo.id))
        if _visible(call, issue, call.state.switches.search_lag)
        and query.finds(issue, tuple(c.body for c in comments_of(call.state, repo, issue.number)))
    ]


def _visible(call: Call, issue: Issue, lag: timedelta) -> bool:
    return not lag or issue.created_at + lag <= call.now


def _set_lock(owner: str, repo: str, number: int, *, locked: bool) -> Response:
    call = current()
    found = call.repository(owner, repo)
    call.issue(found, number)
    actor = call.writing(found, Permission.WRITE)
    reason = lock_reason(call.body()) if locked else None
    lock_issue(call.state, actor, found, number, locked=locked, reason=reason)
    return Response(status=204)
