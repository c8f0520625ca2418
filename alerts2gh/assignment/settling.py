"""From candidates to a decision: who is assigned, and what the issue says about those who cannot be.

A person's choice comes first: once somebody else has touched the assignees, nothing here assigns any more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from alerts2gh.assignment.candidates import Candidate, CandidateReason, Lookups
from alerts2gh.assignment.logins import MAX_ASSIGNEES
from alerts2gh.incident import Assignment

MAX_NOTES = 10


class MayAssign(StrEnum):
    """Whether we may still assign, and why."""

    YES = "yes"
    SETTLED = "settled"
    HUMAN_CHOSE = "human_chose"
    HUMAN_REMOVED = "human_removed"
    ALREADY_OURS = "already_ours"


@dataclass(frozen=True, slots=True)
class Settlement:
    """What to do next: read `needs`, or ask whether each of `ask` is assignable, or assign `logins`.

    With none of the three the chain names nobody, and `notes` says why.
    """

    logins: tuple[str, ...] = ()
    source: str = ""
    detail: str = ""
    notes: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    needs: Lookups = field(default_factory=Lookups)

    @property
    def final(self) -> bool:
        return not self.ask and not self.needs


def may_assign(assignment: Assignment, assignees: Sequence[str]) -> MayAssign:
    """Judge by what we did and whom the issue has now."""
    ours = {login.lower() for login in assignment.by_us}
    there = {login.lower() for login in assignees}
    if there - ours:
        return MayAssign.HUMAN_CHOSE
    if ours - there:
        return MayAssign.HUMAN_REMOVED
    if assignment.settled:
        return MayAssign.SETTLED
    return MayAssign.ALREADY_OURS if ours else MayAssign.YES


def settle(candidates: Iterable[Candidate], assignable: Mapping[str, bool]) -> Settlement:
    """Take the first candidate of whom somebody can be assigned.

    Args:
        candidates: In the order of the chain.
        assignable: What GitHub said about logins so far, by login in lower case. Only those that matter next are
            asked for, so a chain whose first source works costs one question a login.
    """
    notes: list[str] = []
    for candidate in candidates:
        if candidate.needs:
            return Settlement(notes=_kept(notes), needs=candidate.needs)
        wanted = candidate.logins[:MAX_ASSIGNEES]
        ask = tuple(login for login in wanted if login.lower() not in assignable)
        if ask:
            return Settlement(notes=_kept(notes), ask=ask)
        notes += _notes_on(candidate, assignable)
        good = tuple(login for login in wanted if assignable[login.lower()])
        if good:
            return Settlement(good, candidate.source, candidate.detail, _kept(notes))
    return Settlement(notes=_kept([*notes, "nobody could be assigned"] if notes else notes))


def compare(wanted: Iterable[str], got: Iterable[str]) -> tuple[str, ...]:
    """Say whom GitHub left out of its answer: it drops, without a word, who may not be assigned."""
    there = {login.lower() for login in got}
    return tuple(f"GitHub did not assign {login}" for login in wanted if login.lower() not in there)


def _notes_on(candidate: Candidate, assignable: Mapping[str, bool]) -> list[str]:
    notes = [f"{candidate.source}: {note}" for note in candidate.notes]
    if candidate.reason in _WORTH_SAYING:
        notes.append(f"{candidate.source}: {_WORTH_SAYING[candidate.reason]} {candidate.detail}")
    over = candidate.logins[MAX_ASSIGNEES:]
    if over:
        notes.append(f"{candidate.source}: {len(over)} more than GitHub's {MAX_ASSIGNEES} left out")
    return notes + [
        f"{candidate.source}: {login} cannot be assigned in this repository"
        for login in candidate.logins[:MAX_ASSIGNEES]
        if not assignable[login.lower()]
    ]


_WORTH_SAYING = {
    CandidateReason.FILE_MISSING: "there is no file, or no right to read it:",
    CandidateReason.NO_OWNER: "CODEOWNERS names nobody for",
    CandidateReason.NOBODY_ON_CALL: "nobody is on call;",
}


def _kept(notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(notes))[:MAX_NOTES]
