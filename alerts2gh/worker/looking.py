"""Finds our issues on GitHub by their marker: after an unknown outcome, at start, and when looking for duplicates.

It only reads. It uses the list API with our label, never search, whose index lags by minutes.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from structlog.typing import FilteringBoundLogger

from alerts2gh.incident import Assignment, Incident, Intent, IntentAction, IssueState
from alerts2gh.ports import Answer, Outcome, TrackedIssue, Tracker
from alerts2gh.rendering import find_adoptable, find_marker, find_token
from alerts2gh.worker.aftermath import MAY_PASS
from alerts2gh.worker.case import Case, Duplicate, issue_from
from alerts2gh.worker.effects import retiring_token

_CLOCK_MARGIN = timedelta(minutes=10)
"""GitHub's clock and ours may differ; `since` compares with GitHub's."""
_GONE = frozenset({Outcome.GONE, Outcome.NOT_FOUND})

_Index = dict[str, list[TrackedIssue]]
"""Issues of a repository that carry a marker, by the id in it, the one to take over first."""


class Looker:
    """Remembers our login, and per repository which of our issues existed when this process first needed to know."""

    def __init__(
        self,
        search_label: str,
        adopt_authors: Iterable[str],
        adopt_since: timedelta,
        foreign_id: Callable[[Incident], str],
        log: FilteringBoundLogger,
    ) -> None:
        self._label = search_label
        self._adopt_authors = frozenset(a.lower() for a in adopt_authors)
        self._adopt_since = adopt_since
        self._foreign_id = foreign_id
        self._log = log
        self._logins: dict[int, str] = {}
        self._indexes: dict[str, _Index] = {}
        self._lock = threading.Lock()

    def login(self, tracker: Tracker) -> Answer[str]:
        """Our own login with this tracker, asked once; a failure says nothing about any repository."""
        known = self._logins.get(id(tracker))
        if known is not None:
            return Answer(Outcome.DONE, known)
        answer = tracker.login()
        if answer.outcome is Outcome.DONE and answer.value:
            self._logins[id(tracker)] = answer.value
            return answer
        outcome = answer.outcome if answer.outcome in MAY_PASS else Outcome.UNREACHABLE
        return replace(answer, outcome=outcome, value=None)

    def forget_login(self, tracker: Tracker) -> None:
        """Ask again next time: a new token may be another account's."""
        self._logins.pop(id(tracker), None)

    # Taking over what is there already.

    def adopt(self, case: Case, tracker: Tracker, now: datetime) -> Answer[object]:
        """Before the first create: take over an issue that already is about this incident.

        It exists when our database was lost, or when another bridge filed it. Two listings a repository and process:
        all open issues, and those closed lately.
        """
        key = case.target.key
        with self._lock:
            index = self._indexes.get(key)
        if index is None:
            answer = self._read_index(case, tracker, now)
            if answer.value is None:
                return answer
            index = answer.value
            with self._lock:
                self._indexes[key] = index
        login = self.login(tracker)
        if login.value is None:
            return login
        self._take_known(case, index, login.value, now)
        return Answer(Outcome.DONE)

    def _read_index(self, case: Case, tracker: Tracker, now: datetime) -> Answer[_Index]:
        login = self.login(tracker)
        if login.value is None:
            return _without_value(login)
        # Another bridge's issues do not carry our label.
        label = "" if self._adopt_authors else self._label
        found: list[TrackedIssue] = []
        for state, since in (("open", None), ("closed", now - self._adopt_since)):
            answer = tracker.list_issues(case.target, label=label, since=since, state=state)
            if answer.outcome is not Outcome.DONE or answer.value is None:
                return _without_value(answer)
            found.extend(answer.value)
        return Answer(Outcome.DONE, self._index(found, login.value))

    def _index(self, issues: Iterable[TrackedIssue], login: str) -> _Index:
        index: _Index = {}
        for issue in sorted(issues, key=_preference):
            name = find_marker(issue.body) or find_adoptable(issue.body)
            if name and self._ours(issue, login):
                index.setdefault(name, []).append(issue)
        return index

    def _take_known(self, case: Case, index: _Index, login: str, now: datetime) -> None:
        past = {p.number for p in case.incident.past}
        ids = (case.incident.id, self._foreign_id(case.incident))
        known = [i for name in ids for i in index.pop(name, []) if i.number not in past]
        if not known:
            return
        self._adopt(case, known[0], login, now)
        if any(i.state is IssueState.OPEN for i in known[1:]):
            case.incident = replace(case.incident, audit_at=now)

    def _ours(self, issue: TrackedIssue, login: str) -> bool:
        author = issue.author.lower()
        return author == login.lower() or author in self._adopt_authors

    def _adopt(self, case: Case, issue: TrackedIssue, login: str, now: datetime) -> None:
        """Make `issue` the incident's. Its title counts as ours only when we were just creating it."""
        incident = case.incident
        created = incident.intent is not None and incident.intent.action is IntentAction.CREATE
        adopted = issue_from(issue, None, login, now)
        flapping = incident.disposition.policy.flapping.label.lower()
        case.incident = replace(
            incident,
            issue=adopted if created else replace(adopted, title=""),
            intent=None,
            attempts=0,
            assignment=Assignment(),
            flapping_label=any(label.lower() == flapping for label in issue.labels),
            suppressed_members=(),
        )
        self._log.info("issue_adopted", incident=incident.id, issue=issue.number)

    # Clearing up.

    def look(self, case: Case, tracker: Tracker, now: datetime) -> Answer[object]:
        """Clear up an unknown outcome, or audit for duplicates; the case's incident is updated.

        A second open issue is left in `case.duplicate` to be closed.
        """
        intent = case.incident.intent
        if intent is not None and intent.action is IntentAction.COMMENT:
            return self._look_for_comment(case, tracker, now)
        login = self.login(tracker)
        if login.value is None:
            return login
        since = intent.started_at - _CLOCK_MARGIN if intent else None
        state = "all" if intent else IssueState.OPEN.value
        answer = tracker.list_issues(case.target, label=self._label, since=since, state=state)
        if answer.outcome is not Outcome.DONE:
            return answer
        past = {p.number for p in case.incident.past}
        mine = [
            i
            for i in sorted(answer.value or (), key=_preference)
            if i.number not in past
            and self._ours(i, login.value)
            and find_marker(i.body) == case.incident.id
        ]
        return self._found(case, mine, tracker, login.value, now)

    def _found(
        self, case: Case, mine: Sequence[TrackedIssue], tracker: Tracker, login: str, now: datetime
    ) -> Answer[object]:
        """Keep the oldest that is open: people are there. A lagging list may lack the one we know of."""
        issue = case.incident.issue
        numbers = {i.number for i in mine if i.state is IssueState.OPEN}
        if issue is not None:
            numbers.add(issue.number)
        if not numbers and not mine:
            case.incident = _looked_in_vain(case.incident, now)
            return Answer(Outcome.DONE)
        kept = min(numbers) if numbers else mine[0].number
        if issue is None or issue.number != kept:
            self._adopt(case, next(i for i in mine if i.number == kept), login, now)
        case.incident = replace(case.incident, intent=None, audit_at=None)
        return self._next_duplicate(case, sorted(numbers - {kept}), kept, tracker, now)

    def _next_duplicate(
        self, case: Case, numbers: Iterable[int], kept: int, tracker: Tracker, now: datetime
    ) -> Answer[object]:
        """Find the first that really is open and ours to close; the next audit finds the others."""
        for number in numbers:
            seen = tracker.get_issue(case.target, number)
            if seen.outcome in _GONE or (seen.value and seen.value.state is IssueState.CLOSED):
                continue
            case.incident = replace(case.incident, audit_at=now)
            if seen.outcome is not Outcome.DONE:
                return seen
            comments = tracker.list_comments(case.target, number, None)
            if comments.outcome is not Outcome.DONE:
                return comments
            token = retiring_token(case.incident, number)
            told = any(find_token(c.body) == token for c in comments.value or ())
            self._log.warning("duplicate_found", issue=number, kept=kept)
            case.duplicate = Duplicate(number, kept, told)
            break
        return Answer(Outcome.DONE)

    def _look_for_comment(self, case: Case, tracker: Tracker, now: datetime) -> Answer[object]:
        incident = case.incident
        intent, issue = incident.intent, incident.issue
        if intent is None or issue is None:
            case.incident = replace(incident, intent=None)
            return Answer(Outcome.DONE)
        answer = tracker.list_comments(case.target, issue.number, intent.started_at - _CLOCK_MARGIN)
        if answer.outcome is not Outcome.DONE:
            return answer
        if any(find_token(c.body) == intent.token for c in answer.value or ()):
            case.incident = _comment_found(incident, intent)
        else:
            case.incident = _looked_in_vain(incident, now)
        return Answer(Outcome.DONE)


def _comment_found(incident: Incident, intent: Intent) -> Incident:
    """What it tells is told: node operations, or else transitions."""
    if intent.tells:
        stories = incident.stories[intent.tells :]
        return replace(incident, intent=None, stories=stories, stories_dropped=0)
    untold = incident.untold[intent.covers :]
    return replace(incident, intent=None, untold=untold, untold_dropped=0)


def _without_value(answer: Answer[Any]) -> Answer[Any]:
    return replace(answer, value=None)


def _preference(issue: TrackedIssue) -> tuple[bool, bool, float]:
    """Open before closed, the oldest open one first, of the closed ones the last, what was a duplicate last of all."""
    if issue.state is IssueState.OPEN:
        return False, False, issue.number
    return True, issue.state_reason == "duplicate", -issue.number


def _looked_in_vain(incident: Incident, now: datetime) -> Incident:
    if incident.intent is None:
        return replace(incident, audit_at=None)
    intent = replace(incident.intent, looked_at=now, looks=incident.intent.looks + 1)
    return replace(incident, intent=intent)
