"""A GitHub that is only told, for dry runs: what is read comes from the real one, what is written is noted and stays here.

Later reads see the noted writes, so that a dry run comes to the same end as the real thing. Where GitHub cannot be
reached, what we know of an issue from the store has to do. It must never pass a write on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from alerts2gh.incident import Issue, IssueState, Target
from alerts2gh.ports import Answer, Outcome, TrackedComment, TrackedIssue, Tracker
from alerts2gh.worker.aftermath import MAY_PASS

T = TypeVar("T")

_LOGIN = "alerts2gh"
"""Ourselves, where GitHub cannot be asked who that is."""
_FIRST_NEW = 10**9
"""Numbers of issues that exist in a dry run only; GitHub's are far smaller."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A write that would have been made. `number` is None for the issue that it creates itself.

    `what` is the verb of ports.Tracker; `fields` what it was given, without what it was not.
    """

    what: str
    target: Target
    number: int | None
    fields: dict[str, Any]


def is_new(number: int) -> bool:
    """Whether an issue exists in the dry run only."""
    return number >= _FIRST_NEW


@dataclass
class RecordingTracker:
    """Fulfils ports.Tracker. `known` finds what the store knows of an issue; `now` is the dry run's clock.

    `unreached` is GitHub's last word when it could not be asked; it is not asked again then.
    """

    real: Tracker
    known: Callable[[Target, int], Issue | None]
    now: Callable[[], datetime]
    noted: list[Noted] = field(default_factory=list)
    unreached: str | None = None
    _issues: dict[tuple[str, int], TrackedIssue] = field(default_factory=dict)
    _comments: dict[tuple[str, int], list[TrackedComment]] = field(default_factory=dict)

    def _asked(self, ask: Callable[[], Answer[T]]) -> Answer[T] | None:
        """GitHub's answer; None when it cannot be asked."""
        if self.unreached is not None:
            return None
        answer = ask()
        if answer.outcome not in MAY_PASS:
            return answer
        self.unreached = answer.text or answer.outcome.value
        return None

    # Reads.

    def login(self) -> Answer[str]:
        return self._asked(self.real.login) or Answer(Outcome.DONE, _LOGIN)

    def get_issue(self, target: Target, number: int, etag: str = "") -> Answer[TrackedIssue]:
        mine = self._issues.get(_key(target, number))
        if mine is not None:
            return Answer(Outcome.DONE, mine)
        answer = self._asked(lambda: self.real.get_issue(target, number, etag))
        if answer is not None:
            return answer
        known = self.known(target, number)
        if known is None:
            return Answer(Outcome.NOT_FOUND, text="not reached, and not known")
        return Answer(Outcome.DONE, _from_memory(known, self.now()))

    def list_issues(
        self, target: Target, *, label: str, since: datetime | None, state: str = "all"
    ) -> Answer[tuple[TrackedIssue, ...]]:
        answer = self._asked(
            lambda: self.real.list_issues(target, label=label, since=since, state=state)
        )
        if answer is not None and answer.value is None:
            return answer
        here = target.full_name.lower()
        mine = {n: issue for (repository, n), issue in self._issues.items() if repository == here}
        theirs = answer.value or () if answer is not None else ()
        together = [i for i in theirs if i.number not in mine]
        together += [
            issue
            for issue in mine.values()
            if state in {"all", issue.state.value} and (not label or label in issue.labels)
        ]
        return Answer(Outcome.DONE, tuple(sorted(together, key=lambda i: -i.number)))

    def list_comments(
        self, target: Target, number: int, since: datetime | None
    ) -> Answer[tuple[TrackedComment, ...]]:
        theirs: tuple[TrackedComment, ...] = ()
        if not is_new(number):
            answer = self._asked(lambda: self.real.list_comments(target, number, since))
            if answer is not None and answer.value is None:
                return answer
            theirs = answer.value or () if answer is not None else ()
        return Answer(Outcome.DONE, (*theirs, *self._comments.get(_key(target, number), ())))

    def assignable(self, target: Target, login: str) -> Answer[bool]:
        asked = self._asked(lambda: self.real.assignable(target, login))
        return asked or Answer(Outcome.DONE, value=True)

    def read_file(self, target: Target, path: str) -> Answer[str]:
        asked = self._asked(lambda: self.real.read_file(target, path))
        return asked or Answer(Outcome.NOT_FOUND)

    def team_members(self, organisation: str, slug: str) -> Answer[tuple[str, ...]]:
        asked = self._asked(lambda: self.real.team_members(organisation, slug))
        return asked or Answer(Outcome.NOT_FOUND)

    # Writes: noted, and seen by the reads above.

    def create_issue(
        self, target: Target, title: str, body: str, labels: Sequence[str], milestone: str | None
    ) -> Answer[TrackedIssue]:
        number = _FIRST_NEW + len(self.noted)
        now = self.now()
        issue = TrackedIssue(
            number=number,
            url="",
            repository=target.full_name,
            title=title,
            body=body,
            state=IssueState.OPEN,
            state_reason=None,
            author=self.login().value or _LOGIN,
            closed_by=None,
            closed_at=None,
            created_at=now,
            updated_at=now,
            labels=tuple(labels),
        )
        given = {"title": title, "labels": tuple(labels), "milestone": milestone}
        self._note("create_issue", target, None, **given)
        return self._keep(target, issue)

    def edit_issue(  # noqa: PLR0913 -- the fields of an issue
        self,
        target: Target,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: IssueState | None = None,
        state_reason: str | None = None,
        labels: Sequence[str] | None = None,
    ) -> Answer[TrackedIssue]:
        given: dict[str, Any] = {
            "title": title,
            "body": body,
            "state": state,
            "state_reason": state_reason,
            "labels": None if labels is None else tuple(labels),
        }
        changes = {name: value for name, value in given.items() if value is not None}
        if state is not None:
            closed = state is IssueState.CLOSED
            changes["closed_at"] = self.now() if closed else None
            changes["closed_by"] = (self.login().value or _LOGIN) if closed else None
        before = self.get_issue(target, number)
        if before.value is None:
            return before
        self._note("edit_issue", target, number, **given)
        return self._keep(target, replace(before.value, **changes, updated_at=self.now()))

    def add_comment(self, target: Target, number: int, body: str) -> Answer[TrackedComment]:
        self._note("add_comment", target, number, body=body)
        comment = TrackedComment(
            id=_FIRST_NEW + len(self.noted),
            url="",
            author=self.login().value or _LOGIN,
            body=body,
            created_at=self.now(),
        )
        self._comments.setdefault(_key(target, number), []).append(comment)
        return Answer(Outcome.DONE, comment)

    def add_assignees(
        self, target: Target, number: int, logins: Sequence[str]
    ) -> Answer[TrackedIssue]:
        before = self.get_issue(target, number)
        if before.value is None:
            return before
        self._note("add_assignees", target, number, assignees=tuple(logins))
        assignees = tuple(dict.fromkeys((*before.value.assignees, *logins)))
        return self._keep(target, replace(before.value, assignees=assignees))

    def add_labels(
        self, target: Target, number: int, labels: Sequence[str]
    ) -> Answer[tuple[str, ...]]:
        self._note("add_labels", target, number, labels=tuple(labels))
        return self._relabelled(target, number, lambda old: (*old, *labels))

    def remove_label(self, target: Target, number: int, label: str) -> Answer[tuple[str, ...]]:
        self._note("remove_label", target, number, labels=(label,))
        lower = label.lower()
        return self._relabelled(
            target, number, lambda old: tuple(each for each in old if each.lower() != lower)
        )

    def _relabelled(
        self, target: Target, number: int, change: Callable[[tuple[str, ...]], tuple[str, ...]]
    ) -> Answer[tuple[str, ...]]:
        before = self.get_issue(target, number)
        if before.value is None:
            return Answer(before.outcome, text=before.text, status=before.status)
        labels = tuple(dict.fromkeys(change(before.value.labels)))
        self._keep(target, replace(before.value, labels=labels))
        return Answer(Outcome.DONE, labels)

    def _note(self, what: str, target: Target, number: int | None, **given: Any) -> None:
        fields = {name: value for name, value in given.items() if value is not None}
        self.noted.append(Noted(what, target, number, fields))

    def _keep(self, target: Target, issue: TrackedIssue) -> Answer[TrackedIssue]:
        self._issues[_key(target, issue.number)] = issue
        return Answer(Outcome.DONE, issue)


def _key(target: Target, number: int) -> tuple[str, int]:
    return target.full_name.lower(), number


def _from_memory(issue: Issue, now: datetime) -> TrackedIssue:
    """What an issue would say if nobody had touched it since we saw it. Its text we do not keep."""
    return TrackedIssue(
        number=issue.number,
        url=issue.url,
        repository=issue.repository,
        title=issue.title,
        body="",
        state=issue.state,
        state_reason=issue.state_reason,
        author=_LOGIN,
        closed_by=issue.closed_by,
        closed_at=issue.closed_at,
        created_at=issue.created_at,
        updated_at=issue.seen_at or now,
        labels=issue.labels,
        assignees=issue.assignees,
    )
