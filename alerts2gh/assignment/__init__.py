"""Decides who is assigned to an incident's issue.

Pure: it says what must be read or asked first, and is given the answers. The worker's round is

    candidates = choose(sources, incident, now=now, codeowners=files, teams=teams)
    settlement = settle(candidates, assignable)

again and again, with what `settlement.needs` and `settlement.ask` named fetched in between, until it is final.
"""

from alerts2gh.assignment.candidates import (
    Candidate,
    CandidateReason,
    Lookups,
    choose,
    file_key,
    needed_lookups,
)
from alerts2gh.assignment.logins import MAX_ASSIGNEES, clean_login
from alerts2gh.assignment.settling import MayAssign, Settlement, compare, may_assign, settle

__all__ = [
    "MAX_ASSIGNEES",
    "Candidate",
    "CandidateReason",
    "Lookups",
    "MayAssign",
    "Settlement",
    "choose",
    "clean_login",
    "compare",
    "file_key",
    "may_assign",
    "needed_lookups",
    "settle",
]
