"""The issue that the demo's story is about, as the embedded GitHub keeps it, and what must be true of it at the end."""

from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.github_server import SandboxGitHub
from sandbox.github_server.model import Issue
from sandbox.github_server.request_log import LogEntry

REPOSITORY = "acme/cluster"
ASSIGNEE = "alice"
_OPENED, _CLOSED = "open", "closed"
_TOLD = ("Isolated", "Draining", "Executing", "Verifying", "Succeeded")
"""Steps that a person wants to read of."""


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


def address(github: SandboxGitHub, issue: Issue) -> str:
    """The issue's page."""
    return f"{github.url}/{REPOSITORY}/issues/{issue.number}"


def is_filed(github: SandboxGitHub) -> bool:
    return bool(issues(github))


def is_settled(github: SandboxGitHub) -> bool:
    """The assignment has been tried: it comes after the create."""
    return any("assignees" in e.path and e.method == "POST" for e in github.log())


def is_closed(github: SandboxGitHub) -> bool:
    found = issues(github)
    return bool(found) and found[-1].state == _CLOSED


def steps_told(github: SandboxGitHub) -> list[str]:
    """The lines of the first issue's comments that tell a step of an operation, oldest first."""
    found = issues(github)
    if not found:
        return []
    key = f"{found[0].repository}/{found[0].number}"
    comments = sorted(github.state.comments.in_group(key), key=lambda each: each.id)
    steps: list[str] = []
    for comment in comments:
        for line in comment.body.splitlines():
            if line.startswith("- "):
                steps.append(line.removeprefix("- "))
            elif line.startswith("  ") and steps:
                steps[-1] += f" {line.strip()}"
    return steps


def tells(github: SandboxGitHub, phase: str) -> bool:
    """Whether the issue tells that an operation came to this phase."""
    return any(f"**{phase}**" in step for step in steps_told(github))


def says_resolved(github: SandboxGitHub) -> bool:
    """Whether the first issue says that its alert is over."""
    found = issues(github)
    return bool(found) and "**The alert is resolved**" in (found[0].body or "")


def check_end(github: SandboxGitHub) -> tuple[Check, ...]:
    """Compare the end with what the story promises, from GitHub's own state and request log."""
    found = issues(github)
    effects = [e for e in github.log() if e.took_effect]
    creates = [e for e in effects if _is_create(e)]
    issue = found[0] if found else None
    logins = ", ".join(issue.assignees) if issue else ""
    told = [phase for phase in _TOLD if tells(github, phase)]
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
        Check(
            "its comments tell of isolation, drain, repair, proof and success",
            told == list(_TOLD),
            ", ".join(told) or "nothing",
        ),
        _changed(effects, _CLOSED, "it was closed once", 1),
        _changed(effects, _OPENED, "it was never reopened", 0),
        Check(
            "it is closed at the end, as the alert is over and the node is back",
            issue is not None and issue.state == _CLOSED,
            issue.state if issue else "no issue",
        ),
    )


def _is_create(entry: LogEntry) -> bool:
    return entry.method == "POST" and entry.path.endswith("/issues")


def _changed(effects: Iterable[LogEntry], state: str, rule: str, wanted: int) -> Check:
    times = sum(e.method == "PATCH" and e.fields.get("state") == state for e in effects)
    return Check(rule, times == wanted, f"{times} times")
