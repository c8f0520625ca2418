"""Routes of comments."""

from flask import Blueprint, Response, request

from sandbox.github_rules import comment_draft
from sandbox.github_rules.listing import parse_time
from sandbox.github_rules.refusals import forbidden, locked
from sandbox.github_server.answering import Call, answer, answer_page, current
from sandbox.github_server.conversation import (
    add_comment,
    comments_of,
    delete_comment,
    edit_comment,
    find_comment,
)
from sandbox.github_server.model import Comment, Repository

routes = Blueprint("comments", __name__)
OF_ISSUE = "/repos/<owner>/<repo>/issues/<int:number>/comments"
OF_REPO = "/repos/<owner>/<repo>/issues/comments"


@routes.post(OF_ISSUE)
def create(owner: str, repo: str, number: int) -> Response:
    call = current()
    found = call.repository(owner, repo)
    issue = call.issue(found, number)
    actor = call.writing(found)
    if issue.locked and not actor.may_push:
        raise locked()
    comment = add_comment(call.state, actor, found, number, comment_draft(call.body()))
    shaped = call.shapes.comment(found, comment)
    response = answer(shaped, 201)
    response.headers["Location"] = shaped["url"]
    return response


@routes.get(OF_ISSUE)
def index(owner: str, repo: str, number: int) -> Response:
    call = current()
    found = call.repository(owner, repo)
    call.issue(found, number)
    return _page(call, found, comments_of(call.state, found, number))


@routes.get(OF_REPO)
def of_repository(owner: str, repo: str) -> Response:
    call = current()
    found = call.repository(owner, repo)
    call.viewer.need_issues(found)
    issues = call.state.issues.in_group(str(found.id))
    comments = [c for issue in issues for c in comments_of(call.state, found, issue.number)]
    comments.sort(key=lambda comment: comment.id, reverse=request.args.get("direction") == "desc")
    return _page(call, found, comments)


@routes.get(f"{OF_REPO}/<int:comment_id>")
def get(owner: str, repo: str, comment_id: int) -> Response:
    call = current()
    found = call.repository(owner, repo)
    return answer(call.shapes.comment(found, find_comment(call.state, found, comment_id)))


@routes.patch(f"{OF_REPO}/<int:comment_id>")
def edit(owner: str, repo: str, comment_id: int) -> Response:
    call = current()
    found, comment = _own_comment(call, owner, repo, comment_id)
    changed = edit_comment(call.state, found, comment.id, comment_draft(call.body()))
    return answer(call.shapes.comment(found, changed))


@routes.delete(f"{OF_REPO}/<int:comment_id>")
def delete(owner: str, repo: str, comment_id: int) -> Response:
    call = current()
    found, comment = _own_comment(call, owner, repo, comment_id)
    delete_comment(call.state, found, comment.id)
    return Response(status=204)


def _own_comment(call: Call, owner: str, name: str, comment_id: int) -> tuple[Repository, Comment]:
    """The comment, if the caller wrote it or may push."""
    found = call.repository(owner, name)
    comment = find_comment(call.state, found, comment_id)
    actor = call.writing(found)
    if comment.author != actor.login and not actor.may_push:
        raise forbidden("Must have admin rights to Repository.")
    call.number = comment.number
    return found, comment


def _page(call: Call, repo: Repository, comments: list[Comment]) -> Response:
    since = request.args.get("since")
    if since:
        start = parse_time(since, "since")
        comments = [comment for comment in comments if comment.updated_at >= start]
    return answer_page(comments, lambda comment: call.shapes.comment(repo, comment))
