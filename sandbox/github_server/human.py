"""A person at work on the sandbox GitHub: what tests and the demo do by hand.

People are not asked for permissions here, but they obey GitHub's other rules, and their actions
count for its content limits.
"""

from collections.abc import Callable, Sequence

from sandbox.github_rules import comment_draft, issue_draft, issue_edit
from sandbox.github_server import conversation, issues, sidebar
from sandbox.github_server.issue_records import Actor
from sandbox.github_server.model import Comment, Issue
from sandbox.github_server.state import GitHubState


class Human:
    """`login` acts; an account that is not known yet is made."""

    def __init__(self, state: GitHubState, login: str) -> None:
        self._state = state
        self._actor = Actor(state.add_user(login).login)

    def open(self, repository: str, title: str, body: str | None = None) -> Issue:
        self._state.ledger.note_content(self._actor.login, self._state.clock())
        draft = issue_draft({"title": title, "body": body})
        repo = self._state.repository(repository)
        return issues.open_issue(self._state, self._actor, repo, draft)

    def close(self, repository: str, number: int, reason: str = "completed") -> Issue:
        return self.edit(repository, number, state="closed", state_reason=reason)

    def reopen(self, repository: str, number: int) -> Issue:
        return self.edit(repository, number, state="open")

    def edit(self, repository: str, number: int, **fields: object) -> Issue:
        """`fields` as in GitHub's "update an issue": title, body, state, labels and so on."""
        repo = self._state.repository(repository)
        return issues.edit_issue(self._state, self._actor, repo, number, issue_edit(fields))

    def comment(self, repository: str, number: int, text: str) -> Comment:
        self._state.ledger.note_content(self._actor.login, self._state.clock())
        repo = self._state.repository(repository)
        draft = comment_draft({"body": text})
        return conversation.add_comment(self._state, self._actor, repo, number, draft)

    def assign(self, repository: str, number: int, *logins: str) -> Issue:
        repo = self._state.repository(repository)
        return sidebar.add_assignees(self._state, self._actor, repo, number, logins)

    def unassign(self, repository: str, number: int, *logins: str) -> Issue:
        repo = self._state.repository(repository)
        return sidebar.remove_assignees(self._state, self._actor, repo, number, logins)

    def label(self, repository: str, number: int, *names: str) -> Issue:
        repo = self._state.repository(repository)
        return sidebar.add_labels(self._state, self._actor, repo, number, names)

    def unlabel(self, repository: str, number: int, name: str) -> Issue:
        repo = self._state.repository(repository)
        return sidebar.remove_label(self._state, self._actor, repo, number, name)

    def lock(self, repository: str, number: int, reason: str | None = None) -> Issue:
        return self._set_lock(repository, number, locked=True, reason=reason)

    def unlock(self, repository: str, number: int) -> Issue:
        return self._set_lock(repository, number, locked=False)

    def transfer(self, repository: str, number: int, to: str) -> Issue:
        repo, target = self._state.repository(repository), self._state.repository(to)
        return conversation.transfer_issue(self._state, self._actor, repo, number, target)

    def delete(self, repository: str, number: int) -> None:
        conversation.delete_issue(self._state, self._state.repository(repository), number)

    def act(self, action: str, repository: str, number: int, values: Sequence[str]) -> object:
        """The same by name, for the control route; `values` are the texts the action takes.

        Raises:
            KeyError: no such action.
        """
        first = values[0] if values else None
        done: dict[str, Callable[[], object]] = {
            "close": lambda: self.close(repository, number, first or "completed"),
            "reopen": lambda: self.reopen(repository, number),
            "comment": lambda: self.comment(repository, number, first or ""),
            "assign": lambda: self.assign(repository, number, *values),
            "unassign": lambda: self.unassign(repository, number, *values),
            "label": lambda: self.label(repository, number, *values),
            "unlabel": lambda: self.unlabel(repository, number, first or ""),
            "lock": lambda: self.lock(repository, number, first),
            "unlock": lambda: self.unlock(repository, number),
            "transfer": lambda: self.transfer(repository, number, first or ""),
            "delete": lambda: self.delete(repository, number),
        }
        return done[action]()

    def _set_lock(
        self, repository: str, number: int, *, locked: bool, reason: str | None = None
    ) -> Issue:
        repo = self._state.repository(repository)
        return issues.lock_issue(
            self._state, self._actor, repo, number, locked=locked, reason=reason
        )
