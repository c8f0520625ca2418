"""Filters, order and pages of GitHub's lists (documentation of "list repository issues").

Works on anything with the fields of an issue; knows no storage and no HTTP.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import urlencode

from sandbox.github_rules.refusals import FieldError, invalid

Query = Mapping[str, str]
PER_PAGE = 30
PER_PAGE_LIMIT = 100
SORTS = ("created", "updated", "comments")


class Listed(Protocol):
    """What a filter needs to know of an issue."""

    @property
    def number(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def author(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def assignees(self) -> tuple[str, ...]: ...
    @property
    def milestone(self) -> int | None: ...
    @property
    def created_at(self) -> datetime: ...
    @property
    def updated_at(self) -> datetime: ...
    @property
    def comments(self) -> int: ...


@dataclass(frozen=True, slots=True)
class IssueFilter:
    """`none` and `*` of assignee and milestone are GitHub's words for "without" and "any"."""

    state: str = "open"
    labels: frozenset[str] = frozenset()
    creator: str | None = None
    assignee: str | None = None
    milestone: str | None = None
    since: datetime | None = None
    sort: str = "created"
    descending: bool = True

    @classmethod
    def from_query(cls, query: Query) -> "IssueFilter":
        labels = [name.strip().lower() for name in query.get("labels", "").split(",")]
        since = query.get("since")
        return cls(
            state=_choice(query, "state", ("open", "closed", "all"), "open"),
            labels=frozenset(filter(None, labels)),
            creator=_lower(query.get("creator")),
            assignee=_lower(query.get("assignee")),
            milestone=_lower(query.get("milestone")),
            since=parse_time(since, "since") if since else None,
            sort=_choice(query, "sort", SORTS, "created"),
            descending=_choice(query, "direction", ("asc", "desc"), "desc") == "desc",
        )


@dataclass(frozen=True, slots=True)
class Page:
    number: int
    size: int

    def cut(self, entries: list[Any]) -> list[Any]:
        return entries[(self.number - 1) * self.size : self.number * self.size]

    def count_of(self, total: int) -> int:
        return max(1, -(-total // self.size))


def matches(issue: Listed, wanted: IssueFilter) -> bool:
    return (
        wanted.state in ("all", issue.state)
        and wanted.labels <= {name.lower() for name in issue.labels}
        and (wanted.creator is None or wanted.creator == issue.author.lower())
        and _assignee_matches(issue, wanted.assignee)
        and _milestone_matches(issue, wanted.milestone)
        and (wanted.since is None or issue.updated_at >= wanted.since)
    )


def sort_key(sort: str) -> Callable[[Listed], tuple[Any, int]]:
    """Order by `sort`; the number settles ties, so pages never overlap."""
    keys: dict[str, Callable[[Listed], Any]] = {
        "created": lambda issue: issue.created_at,
        "updated": lambda issue: issue.updated_at,
        "comments": lambda issue: issue.comments,
    }
    key = keys[sort]
    return lambda issue: (key(issue), issue.number)


def page_from(query: Query) -> Page:
    """GitHub forgives nonsense here: it falls back to the first page, and to 100 at most."""
    size = min(PER_PAGE_LIMIT, _positive(query.get("per_page"), PER_PAGE))
    return Page(_positive(query.get("page"), 1), size)


def link_header(url: str, query: Query, page: Page, total: int) -> str | None:
    """The Link header of a page of `total` entries at `url`; None when all fit on one."""
    last = page.count_of(total)
    targets = {}
    if page.number > 1:
        targets["prev"] = min(page.number - 1, last)
    if page.number < last:
        targets |= {"next": page.number + 1, "last": last}
    if page.number > 1:
        targets["first"] = 1
    links = [
        f'<{url}?{urlencode({**query, "page": number})}>; rel="{relation}"'
        for relation, number in targets.items()
    ]
    return ", ".join(links) or None


def parse_time(text: str, field: str) -> datetime:
    """ISO 8601 as GitHub takes it; a time without zone is UTC."""
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        raise invalid(FieldError("Issue", field, "invalid", value=text)) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _assignee_matches(issue: Listed, wanted: str | None) -> bool:
    if wanted is None:
        return True
    if wanted in ("none", "*"):
        return bool(issue.assignees) == (wanted == "*")
    return wanted in {login.lower() for login in issue.assignees}


def _milestone_matches(issue: Listed, wanted: str | None) -> bool:
    if wanted is None:
        return True
    if wanted in ("none", "*"):
        return (issue.milestone is not None) == (wanted == "*")
    return wanted == str(issue.milestone)


def _choice(query: Query, field: str, allowed: tuple[str, ...], default: str) -> str:
    value = query.get(field) or default
    if value not in allowed:
        raise invalid(FieldError("Issue", field, "invalid", value=value))
    return value


def _positive(text: str | None, default: int) -> int:
    return int(text) if text and text.isdigit() and int(text) > 0 else default


def _lower(text: str | None) -> str | None:
    return text.lower() if text else None
