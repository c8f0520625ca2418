"""Routes of what stands beside an issue: labels, assignees, milestones."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flask import Blueprint, Response, request

from sandbox.github_rules import (
    assignee_names,
    label_draft,
    label_names,
    milestone_draft,
)
from sandbox.github_rules.refusals import not_found
from sandbox.github_server.answering import Call, answer, answer_page, current
from sandbox.github_server.conversation import make_label, make_milestone
from sandbox.github_server.model import Issue, Label, Milestone, Permission, Repository
from sandbox.github_server.sidebar import (
    add_assignees,
    add_labels,
    can_be_assigned,
    remove_assignees,
    remove_label,
    set_labels,
)

routes = Blueprint("sidebar", __name__)
REPO = "/repos/<owner>/<repo>"
ISSUE = f"{REPO}/issues/<int:number>"


@routes.post(f"{REPO}/labels")
def create_label(owner: str, repo: str) -> Response:
    call = current()
    found = call.repository(owner, repo)
    call.viewer.need_write(found, Permission.WRITE)
    label = make_label(call.state, found, label_draft(call.body()))
    return answer(call.shapes.label(found, label), 201)


@routes.get(f"{REPO}/labels")
def repository_labels(owner: str, repo: str) -> Response:
    call = current()
    found = call.repository(owner, repo)
    labels = sorted(call.state.labels.in_group(str(found.id)), key=lambda label: label.key)
    return answer_page(labels, lambda label: call.shapes.label(found, label))


@routes.get(f"{REPO}/labels/<path:name>")
def get_label(owner: str, repo: str, name: str) -> Response:
    call = current()
    found = call.repository(owner, repo)
    return answer(call.shapes.label(found, _label(call, found, name)))


@routes.patch(f"{REPO}/labels/<path:name>")
def edit_label(owner: str, repo: str, name: str) -> Response:
    """Colour and description; a new name is refused here, the sandbox keeps labels by name."""
    call = current()
    found = call.repository(owner, repo)
    call.viewer.need_write(found, Permission.WRITE)
    label = _label(call, found, name)
    given = {"color": label.color, "description": label.description, **call.body()}
    draft = label_draft({**given, "name": label.name})
    changed = replace(label, color=draft.color, description=draft.description)
    with call.state.changing():
        call.state.labels.put(changed)
    return answer(call.shapes.label(found, changed))


@routes.get(f"{ISSUE}/labels")
def issue_labels(owner: str, repo: str, number: int) -> Response:
    call = current()
    found = call.repository(owner, repo)
    return _labels(call, found, call.issue(found, number))


@routes.post(f"{ISSUE}/labels")
def add_issue_labels(owner: str, repo: str, number: int) -> Response:
    return _change_labels(owner, repo, number, add_labels)


@routes.put(f"{ISSUE}/labels")
def set_issue_labels(owner: str, repo: str, number: int) -> Response:
    return _change_labels(owner, repo, number, set_labels)


@routes.delete(f"{ISSUE}/labels")
def clear_issue_labels(owner: str, repo: str, number: int) -> Response:
    call = current()
    found = call.repository(owner, repo)
    call.issue(found, number)
    set_labels(call.state, call.writing(found, Permission.TRIAGE), found, number, ())
    return Response(status=204)


@routes.delete(f"{ISSUE}/labels/<path:name>")
def remove_issue_label(owner: str, repo: str, number: int, name: str) -> Response:
    call = current()
    found = call.repository(owner, repo)
    call.issue(found, number)
    actor = call.writing(found, Permission.TRIAGE)
    return _labels(call, found, remove_label(call.state, actor, found, number, name))


@routes.get(f"{REPO}/assignees")
def assignable(owner: str, repo: str) -> Response:
    call = current()
    found = call.repository(owner, repo)
    users = [u for u in call.state.users.all() if can_be_assigned(call.state, found, u.login)]
    return answer_page(users, lambda user: call.shapes.user(user.login))


@routes.get(f"{REPO}/assignees/<login>")
def check_assignee(owner: str, repo: str, login: str) -> Response:
    call = current()
    if not can_be_assigned(call.state, call.repository(owner, repo), login):
        raise not_found()
    return Response(status=204)


@routes.post(f"{ISSUE}/assignees")
def assign(owner: str, repo: str, number: int) -> Response:
    call = current()
    found = call.repository(owner, repo)
    call.issue(found, number)
    logins = assignee_names(call.body().get("assignees"))
    issue = add_assignees(call.state, call.writing(found), found, number, logins)
    return answer(call.shapes.issue(found, issue), 201)


@routes.delete(f"{ISSUE}/assignees")
def unassign(owner: str, repo: str, number: int) -> Response:
    call = current()
    found = call.repository(owner, repo)
    call.issue(found, number)
    logins = assignee_names(call.body().get("assignees"))
    issue = remove_assignees(call.state, call.writing(found), found, number, logins)
    return answer(call.shapes.issue(found, issue))


@routes.post(f"{REPO}/milestones")
def create_milestone(owner: str, repo: str) -> Response:
    call = current()
    found = call.repository(owner, repo)
    actor = call.writing(found, Permission.TRIAGE)
    milestone = make_milestone(call.state, actor, found, milestone_draft(call.body()))
    return answer(call.shapes.milestone(found, milestone, 0, 0), 201)


@routes.get(f"{REPO}/milestones")
def milestones(owner: str, repo: str) -> Response:
    call = current()
    found = call.repository(owner, repo)
    state = request.args.get("state", "open")
    entries = [
        milestone
        for milestone in call.state.milestones.in_group(str(found.id))
        if state in ("all", milestone.state)
    ]
    return answer_page(entries, lambda milestone: _milestone(call, found, milestone))


@routes.get(f"{REPO}/milestones/<int:which>")
def get_milestone(owner: str, repo: str, which: int) -> Response:
    call = current()
    found = call.repository(owner, repo)
    milestone = call.state.milestones.get(str(found.id), str(which))
    if milestone is None:
        raise not_found()
    return answer(_milestone(call, found, milestone))


def _milestone(call: Call, repo: Repository, milestone: Milestone) -> dict[str, Any]:
    return call.shapes.milestone(repo, milestone, *call.lookup.counts(milestone))


def _change_labels(owner: str, repo: str, number: int, change: Callable[..., Issue]) -> Response:
    """The body is a list of names, or an object with `labels`: GitHub takes both."""
    call = current()
    found = call.repository(owner, repo)
    call.issue(found, number)
    actor = call.writing(found, Permission.TRIAGE)
    body = call.json()
    names = label_names(body.get("labels") if isinstance(body, dict) else body)
    return _labels(call, found, change(call.state, actor, found, number, names))


def _labels(call: Call, repo: Repository, issue: Issue) -> Response:
    labels = call.lookup.labels_of(issue)
    return answer_page(labels, lambda label: call.shapes.label(repo, label))


def _label(call: Call, repo: Repository, name: str) -> Label:
    label = call.state.labels.get(str(repo.id), name.lower())
    if label is None:
        raise not_found()
    return label
