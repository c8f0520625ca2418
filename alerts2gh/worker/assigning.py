"""Finds somebody for an issue: reads what the chain needs, asks GitHub who can be assigned, makes the write ready.

What GitHub said of CODEOWNERS files, teams and logins is remembered for ten minutes, for all incidents.
"""

import threading
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from structlog.typing import FilteringBoundLogger

from alerts2gh.assignment import (
    Lookups,
    MayAssign,
    Settlement,
    choose,
    compare,
    file_key,
    may_assign,
    settle,
)
from alerts2gh.incident import Assignment, Incident, IntentAction, Target
from alerts2gh.ports import Answer, Outcome, TrackedIssue, Tracker
from alerts2gh.worker.case import Case
from alerts2gh.worker.effects import Effect

_REMEMBER = timedelta(minutes=10)
_MOST_ROUNDS = 40
_NOT_THERE = frozenset({Outcome.NOT_FOUND, Outcome.GONE, Outcome.FORBIDDEN, Outcome.INVALID})


@dataclass(slots=True)
class _Known:
    """What GitHub has said; keys of `assignable` start with the repository."""

    files: dict[str, str | None] = field(default_factory=dict)
    teams: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    assignable: dict[tuple[str, str], bool] = field(default_factory=dict)
    until: datetime | None = None


class Assigner:
    """Shared by all threads; two may ask GitHub the same thing at once, which does no harm."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._known = _Known()

    def effect(self, case: Case, tracker: Tracker, now: datetime) -> Effect | Answer[object] | None:
        """The write that assigns; None when there is none to make; an answer when GitHub could not be asked."""
        incident, issue = case.incident, case.incident.issue
        if issue is None:
            raise ValueError(f"incident {incident.id} has no issue to assign")
        verdict = may_assign(incident.assignment, issue.assignees)
        if verdict is not MayAssign.YES:
            self._log.info("assignment_left", incident=incident.id, reason=verdict.value)
            case.incident = _settled(incident, incident.assignment.notes)
            return None
        settlement = self._settle(incident, case.target, tracker, now)
        if isinstance(settlement, Answer):
            return settlement
        notes = (*incident.assignment.notes, *settlement.notes)
        if not settlement.logins:
            case.incident = _settled(incident, notes)
            return None
        return _assignment_effect(case, tracker, issue.number, settlement, notes)

    def _settle(
        self, incident: Incident, target: Target, tracker: Tracker, now: datetime
    ) -> Settlement | Answer[object]:
        known = self._current(now)
        for _ in range(_MOST_ROUNDS):
            candidates = choose(
                incident.disposition.assignees,
                incident,
                now=now,
                codeowners=known.files,
                teams=known.teams,
            )
            settlement = settle(candidates, _assignable(known, target, incident))
            if settlement.final:
                return settlement
            failure = self._read(settlement.needs, known, target, tracker) or _ask(
                settlement.ask, known, target, tracker
            )
            if failure is not None:
                return failure
        return Settlement(notes=("the chain of assignees needs too many questions",))

    def _current(self, now: datetime) -> _Known:
        with self._lock:
            if self._known.until is None or now >= self._known.until:
                self._known = _Known(until=now + _REMEMBER)
            return self._known

    def _read(
        self, needs: Lookups, known: _Known, target: Target, tracker: Tracker
    ) -> Answer[object] | None:
        for repository, path in needs.files:
            owner, _, repo = repository.partition("/")
            text = tracker.read_file(Target(target.credential, owner, repo), path)
            if text.outcome is not Outcome.DONE and text.outcome not in _NOT_THERE:
                return text
            known.files[file_key(repository, path)] = text.value
        for team in needs.teams:
            organisation, _, slug = team.partition("/")
            members = tracker.team_members(organisation, slug)
            if members.outcome is not Outcome.DONE and members.outcome not in _NOT_THERE:
                return members
            known.teams[team.lower()] = members.value
        return None


def _ask(
    logins: tuple[str, ...], known: _Known, target: Target, tracker: Tracker
) -> Answer[object] | None:
    for login in logins:
        answer = tracker.assignable(target, login)
        if answer.outcome is not Outcome.DONE:
            return answer
        known.assignable[target.key, login.lower()] = bool(answer.value)
    return None


def _assignable(known: _Known, target: Target, incident: Incident) -> dict[str, bool]:
    said = {login: yes for (key, login), yes in known.assignable.items() if key == target.key}
    return said | {login.lower(): False for login in incident.assignment.tried}


def _assignment_effect(
    case: Case, tracker: Tracker, number: int, settlement: Settlement, notes: tuple[str, ...]
) -> Effect:
    def record(before: Incident, value: object, _at: datetime) -> Incident:
        if not isinstance(value, TrackedIssue) or before.issue is None:
            raise TypeError("assigning must answer with the issue")
        missing = compare(settlement.logins, value.assignees)
        taken = tuple(a for a in settlement.logins if a.lower() in _lower(value.assignees))
        tried = (*before.assignment.tried, *(a for a in settlement.logins if a not in taken))
        assignment = Assignment(
            settled=bool(taken),
            tried=tried,
            by_us=taken,
            source=settlement.source if taken else "",
            notes=tuple(dict.fromkeys((*notes, *missing))),
        )
        issue = replace(before.issue, assignees=value.assignees)
        return replace(before, assignment=assignment, issue=issue)

    return Effect(
        IntentAction.ASSIGN,
        f"{case.incident.id[:12]}.assign",
        lambda: tracker.add_assignees(case.target, number, settlement.logins),
        record,
    )


def _lower(logins: tuple[str, ...]) -> frozenset[str]:
    return frozenset(login.lower() for login in logins)


def _settled(incident: Incident, notes: tuple[str, ...]) -> Incident:
    kept = tuple(dict.fromkeys(notes))
    return replace(incident, assignment=replace(incident.assignment, settled=True, notes=kept))
