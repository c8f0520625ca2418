"""What stands beside an issue: labels, assignees, milestone. Each change records events.

Whether the caller may is decided before; refusals are raised before anything has changed.
"""

from collections.abc import Iterable
from dataclasses import replace

from sandbox.github_rules import FieldError
from sandbox.github_rules.refusals import invalid, not_found
from sandbox.github_rules.validation import ASSIGNEES_LIMIT, LABELS_LIMIT
from sandbox.github_server.issue_records import Actor, find_issue, record, save
from sandbox.github_server.model import Issue, Label, Permission, Repository
from sandbox.github_server.state import GitHubState


def add_labels(
    state: GitHubState, actor: Actor, repo: Repository, number: int, names: Iterable[str]
) -> Issue:
    with state.changing():
        issue = find_issue(state, repo, number)
        present = {name.lower() for name in issue.labels}
        new = tuple(name for name in names if name.lower() not in present)
        if len(issue.labels) + len(new) > LABELS_LIMIT:
            message = f"labels cannot be more than {LABELS_LIMIT}"
            raise invalid(FieldError("Issue", "labels", "custom", message))
        return relabel(state, actor, issue, (*issue.labels, *new))


def set_labels(
    state: GitHubState, actor: Actor, repo: Repository, number: int, names: Iterable[str]
) -> Issue:
    with state.changing():
        return relabel(state, actor, find_issue(state, repo, number), tuple(names))


def remove_label(
    state: GitHubState, actor: Actor, repo: Repository, number: int, name: str
) -> Issue:
    with state.changing():
        issue = find_issue(state, repo, number)
        kept = tuple(label for label in issue.labels if label.lower() != name.lower())
        if len(kept) == len(issue.labels):
            raise not_found()
        return relabel(state, actor, issue, kept)


def add_assignees(
    state: GitHubState, actor: Actor, repo: Repository, number: int, logins: Iterable[str]
) -> Issue:
    """Assign those who can be; known logins without access are ignored, unknown ones are 404.

    Source: kubernetes/test-infra#15811. With the switch `assignees_off` nobody is assigned.
    """
    with state.changing():
        issue = find_issue(state, repo, number)
        wanted = tuple(logins)
        for login in wanted:
            user = state.users.get("", login.lower())
            if user is None or user.kind == "Organization":
                raise not_found()
        if state.switches.assignees_off or not actor.may_triage:
            return issue
        fit = [login for login in wanted if can_be_assigned(state, repo, login)]
        present = {login.lower() for login in issue.assignees}
        new = [login for login in known_logins(state, fit) if login.lower() not in present]
        return reassign(state, actor, issue, (*issue.assignees, *new)[:ASSIGNEES_LIMIT])


def remove_assignees(
    state: GitHubState, actor: Actor, repo: Repository, number: int, logins: Iterable[str]
) -> Issue:
    with state.changing():
        issue = find_issue(state, repo, number)
        if not actor.may_triage:
            return issue
        leaving = {login.lower() for login in logins}
        kept = tuple(login for login in issue.assignees if login.lower() not in leaving)
        return reassign(state, actor, issue, kept)


def can_be_assigned(state: GitHubState, repo: Repository, login: str) -> bool:
    """People with access to the repository; never bots, organizations or strangers."""
    user = state.users.get("", login.lower())
    if user is None or user.kind != "User":
        return False
    return user.key == repo.owner.lower() or repo.collaborators.get(user.key, 0) >= Permission.READ


def relabel(state: GitHubState, actor: Actor, issue: Issue, names: tuple[str, ...]) -> Issue:
    """Set exactly `names`; labels the repository lacks are made, as GitHub does."""
    labels = [_label(state, issue.repository, name) for name in names]
    before = {name.lower() for name in issue.labels}
    after = {label.key for label in labels}
    if before == after:
        return issue
    for label in labels:
        if label.key not in before:
            record(state, issue, "labeled", actor, {"name": label.name, "color": label.color})
    for name in issue.labels:
        if name.lower() not in after:
            gone = _label(state, issue.repository, name)
            record(state, issue, "unlabeled", actor, {"name": gone.name, "color": gone.color})
    return save(state, replace(issue, labels=tuple(x.name for x in labels)), state.clock())


def reassign(state: GitHubState, actor: Actor, issue: Issue, logins: tuple[str, ...]) -> Issue:
    """Set exactly `logins`, which are known and assignable."""
    if set(logins) == set(issue.assignees):
        return issue
    for login in logins:
        if login not in issue.assignees:
            record(state, issue, "assigned", actor, {"assignee": login})
    for login in issue.assignees:
        if login not in logins:
            record(state, issue, "unassigned", actor, {"assignee": login})
    return save(state, replace(issue, assignees=logins), state.clock())


def put_milestone(state: GitHubState, actor: Actor, issue: Issue, number: int | None) -> Issue:
    if number == issue.milestone:
        return issue
    for kind, which in (("demilestoned", issue.milestone), ("milestoned", number)):
        milestone = state.milestones.get(str(issue.repository), str(which))
        if milestone is not None:
            record(state, issue, kind, actor, {"title": milestone.title})
    return save(state, replace(issue, milestone=number), state.clock())


def known_logins(state: GitHubState, names: Iterable[str]) -> tuple[str, ...]:
    """The names as their owners write them."""
    users = (state.users.get("", name.lower()) for name in names)
    return tuple(user.login for user in users if user is not None)


def refuse_unassignable(state: GitHubState, repo: Repository, logins: Iterable[str]) -> None:
    wrong = [login for login in logins if not can_be_assigned(state, repo, login)]
    if wrong:
        raise invalid(*(FieldError("Issue", "assignees", "invalid", value=name) for name in wrong))


def refuse_unknown_milestone(state: GitHubState, repo: Repository, number: int | None) -> None:
    if number is not None and state.milestones.get(str(repo.id), str(number)) is None:
        raise invalid(FieldError("Issue", "milestone", "invalid", value=str(number)))


def _label(state: GitHubState, repository: int, name: str) -> Label:
    known = state.labels.get(str(repository), name.lower())
    return known or state.labels.put(Label(state.next_id(), repository, name))
