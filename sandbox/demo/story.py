"""The steps of the demo and how each shows in GitHub; pure but for asking."""

from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.github_server import SandboxGitHub
from sandbox.github_server.model import Issue
from sandbox.github_server.request_log import LogEntry

REPOSITORY = "acme/cluster"
ASSIGNEE = "alice"
_OPENED, _CLOSED = "open", "closed"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be true at the end, and what was found."""

    rule: str
    holds: bool
    found: str


def issues(github: SandboxGitHub) -> tuple[Issue, ...]:
    """All issues of the demo's repository, oldest first."""
    repository = github.state.repository(REPOSITORY).id
    found = (i for i in github.state.issues.all() if i.repository == repository)
    return tuple(sorted(found, key=lambda i: i.number))


def is_filed(github: SandboxGitHub) -> bool:
    found = issues(github)
    return bool(found) and found[-1].state == _OPENED


def is_settled(github: SandboxGitHub) -> bool:
    """The assignment has been tried: it comes after the create."""
    return any("assignees" in e.path and e.method == "POST" for e in github.log())


def is_closed(github: SandboxGitHub) -> bool:
    found = issues(github)
    return bool(found) and found[-1].state == _CLOSED


def check_end(github: SandboxGitHub) -> tuple[Check, ...]:
    """Compare the end with what the story promises, from GitHub's own state and request log."""
    found = issues(github)
    effects = [e for e in github.log() if e.took_effect]
    creates = [e for e in effects if _is_create(e)]
    issue = found[0] if found else None
    logins = ", ".join(issue.assignees) if issue else ""
    return (
        Check(
            "GitHub has created exactly one issue",
            len(creates) == len(found) == 1,
            f"{len(creates)}",
        ),
        Check(
            f"it is assigned to {ASSIGNEE}",
            issue is not None and tuple(issue.assignees) == (ASSIGNEE,),
            logins or "nobody",
        ),
        _changed(effects, _CLOSED, "it closed once, when the alert resolved"),
        _changed(effects, _OPENED, "it reopened once, when the alert fired again"),
        Check(
            "it is open at the end, as the alert still fires",
            issue is not None and issue.state == _OPENED,
            issue.state if issue else "no issue",
        ),
    )


def _is_create(entry: LogEntry) -> bool:
    return entry.method == "POST" and entry.path.endswith("/issues")


def _changed(effects: Iterable[LogEntry], state: str, rule: str) -> Check:
    times = sum(e.method == "PATCH" and e.fields.get("state") == state for e in effects)
    return Check(rule, times == 1, f"{times} times")
