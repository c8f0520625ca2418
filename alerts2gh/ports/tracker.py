"""What the worker needs of GitHub: the verbs, and what comes back.

A tracker never raises for what GitHub answers: every answer, also a missing one, comes back as an `Answer` with an
outcome, because what to do next depends on whether the write may have taken effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from alerts2gh.incident import IssueState, Target

T_co = TypeVar("T_co", covariant=True)


class Outcome(StrEnum):
    """What one request to GitHub came to."""

    DONE = "done"
    NOT_MODIFIED = "not_modified"
    UNKNOWN = "unknown"
    """No answer, or a 5xx: the write may have taken effect."""
    UNREACHABLE = "unreachable"
    """The request never left: no connection, no name, TLS refused."""
    PRIMARY_LIMIT = "primary_limit"
    SECONDARY_LIMIT = "secondary_limit"
    UNAUTHORISED = "unauthorised"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    GONE = "gone"
    MOVED = "moved"
    ISSUES_DISABLED = "issues_disabled"
    ARCHIVED = "archived"
    LOCKED = "locked"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class RateLimit:
    """GitHub's x-ratelimit-* headers of one answer."""

    resource: str
    limit: int
    remaining: int
    reset_at: datetime


@dataclass(frozen=True, slots=True)
class TrackedIssue:
    """An issue as GitHub describes it. `repository` is where it is now, after a transfer another than asked."""

    number: int
    url: str
    repository: str
    title: str
    body: str
    state: IssueState
    state_reason: str | None
    author: str
    closed_by: str | None
    closed_at: datetime | None
    created_at: datetime
    updated_at: datetime
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    locked: bool = False
    etag: str = ""


@dataclass(frozen=True, slots=True)
class TrackedComment:
    """A comment on an issue."""

    id: int
    url: str
    author: str
    body: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Answer(Generic[T_co]):
    """What came back. `text` is GitHub's own word, cut and free of secrets; `wait` is how long it asked us to."""

    outcome: Outcome
    value: T_co | None = None
    text: str = ""
    status: int | None = None
    wait: timedelta | None = None
    rate: RateLimit | None = None


class Tracker(Protocol):
    """GitHub, as one credential sees it. Each call is one request unless it says otherwise; none is retried."""

    def login(self) -> Answer[str]: ...

    def create_issue(
        self, target: Target, title: str, body: str, labels: Sequence[str], milestone: str | None
    ) -> Answer[TrackedIssue]: ...

    def get_issue(self, target: Target, number: int, etag: str = "") -> Answer[TrackedIssue]: ...

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
    ) -> Answer[TrackedIssue]: ...

    def list_issues(
        self, target: Target, *, label: str, since: datetime | None, state: str = "all"
    ) -> Answer[tuple[TrackedIssue, ...]]:
        """All issues with `label`, newest first; one request for each hundred. Never the search API: it lags."""
        ...

    def add_comment(self, target: Target, number: int, body: str) -> Answer[TrackedComment]: ...

    def list_comments(
        self, target: Target, number: int, since: datetime | None
    ) -> Answer[tuple[TrackedComment, ...]]: ...

    def add_assignees(
        self, target: Target, number: int, logins: Sequence[str]
    ) -> Answer[TrackedIssue]: ...

    def assignable(self, target: Target, login: str) -> Answer[bool]: ...

    def add_labels(
        self, target: Target, number: int, labels: Sequence[str]
    ) -> Answer[tuple[str, ...]]: ...

    def remove_label(self, target: Target, number: int, label: str) -> Answer[tuple[str, ...]]: ...

    def read_file(self, target: Target, path: str) -> Answer[str]: ...

    def team_members(self, organisation: str, slug: str) -> Answer[tuple[str, ...]]: ...
