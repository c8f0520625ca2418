"""The part of GitHub's issue search that programs use: qualifiers, words, quoted phrases.

Since 2025 a query needs `is:issue` or `is:pull-request`, else the answer is 422 (reported widely;
the documentation of "search issues and pull requests" says the same). Unknown qualifiers are
searched for as words, as GitHub does.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from sandbox.github_rules.listing import Listed, parse_time
from sandbox.github_rules.refusals import FieldError, Refusal, invalid

QUERY_LIMIT: Final = 256
RESULT_LIMIT: Final = 1000
_TERM: Final = re.compile(r'(-?)(?:([a-z-]+):)?(?:"([^"]*)"|(\S+))')
_RANGE: Final = re.compile(r"(>=|<=|>|<)?(.+)")
_KNOWN: Final = frozenset(
    {"repo", "org", "user", "in", "is", "type", "state", "reason", "label", "author", "assignee"}
    | {"created", "updated", "closed", "no"}
)


class Searched(Listed, Protocol):
    @property
    def title(self) -> str: ...
    @property
    def body(self) -> str | None: ...
    @property
    def closed_at(self) -> datetime | None: ...
    @property
    def state_reason(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """`qualifiers` holds (name, value, negated); values are lower case."""

    repositories: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset({"title", "body", "comments"})
    words: tuple[tuple[str, bool], ...] = ()
    qualifiers: tuple[tuple[str, str, bool], ...] = field(default=())

    @property
    def only_pull_requests(self) -> bool:
        return any(
            name in ("is", "type") and value in ("pr", "pull-request") and not negated
            for name, value, negated in self.qualifiers
        )

    def in_scope(self, repository: str) -> bool:
        """Whether `OWNER/NAME` may hold results; without a scope each repository may."""
        scoped = self.repositories or self.owners
        name = repository.lower()
        return not scoped or name in self.repositories or name.split("/")[0] in self.owners

    def finds(self, issue: Searched, comments: tuple[str, ...] = ()) -> bool:
        if self.only_pull_requests:
            return False
        return all(
            _qualifies(issue, name, value) != negated for name, value, negated in self.qualifiers
        ) and self._has_words(issue, comments)

    def _has_words(self, issue: Searched, comments: tuple[str, ...]) -> bool:
        texts = {"title": issue.title, "body": issue.body or "", "comments": "\n".join(comments)}
        text = "\n".join(texts[name] for name in sorted(self.fields)).lower()
        return all((word in text) != negated for word, negated in self.words)


def parse_search(text: str, *, needs_kind: bool = True) -> SearchQuery:
    """Read the query. `needs_kind`: refuse one that does not say is:issue or is:pull-request."""
    if not text.strip():
        raise invalid("A query is needed: q is missing or empty.")
    if len(text) > QUERY_LIMIT:
        raise invalid(f"The search is longer than {QUERY_LIMIT} characters.")
    query = _collect(text)
    if needs_kind and not any(_names_a_kind(*qualifier) for qualifier in query.qualifiers):
        missing = "Query must include 'is:issue' or 'is:pull-request'"
        raise Refusal(422, missing, errors=(FieldError("Search", "q", "invalid", missing),))
    return query


def _collect(text: str) -> SearchQuery:
    sets: dict[str, set[str]] = {"repo": set(), "org": set(), "in": set()}
    words: list[tuple[str, bool]] = []
    qualifiers: list[tuple[str, str, bool]] = []
    for minus, name, quoted, bare in _TERM.findall(text):
        value = (quoted or bare).lower()
        if name and name not in _KNOWN:
            words.append((f"{name}:{value}", bool(minus)))
        elif not name:
            words.append((value, bool(minus)))
        elif name in ("repo", "org", "user", "in"):
            sets["org" if name == "user" else name].update(value.split(","))
        else:
            qualifiers.append((name, value, bool(minus)))
    return SearchQuery(
        repositories=frozenset(sets["repo"]),
        owners=frozenset(sets["org"]),
        fields=frozenset(sets["in"] & {"title", "body", "comments"}) or SearchQuery().fields,
        words=tuple(words),
        qualifiers=tuple(qualifiers),
    )


def _names_a_kind(name: str, value: str, negated: bool) -> bool:  # noqa: FBT001  (unpacked triple)
    return name in ("is", "type") and value in ("issue", "pr", "pull-request") and not negated


def _qualifies(issue: Searched, name: str, value: str) -> bool:
    test = _TESTS.get(name)
    return test is None or test(issue, value)


def _is(issue: Searched, value: str) -> bool:
    return value not in ("open", "closed") or issue.state == value


def _has_label(issue: Searched, value: str) -> bool:
    return any(name in value.split(",") for name in map(str.lower, issue.labels))


def _lacks(issue: Searched, value: str) -> bool:
    present = {
        "assignee": issue.assignees,
        "label": issue.labels,
        "milestone": issue.milestone,
    }
    return not present.get(value)


def _in_range(moment: datetime | None, value: str) -> bool:
    """`>2026-01-01`, `<=…`, `FROM..TO` with `*` for open ends, or one day."""
    if moment is None:
        return False
    if ".." in value:
        start, end = value.split("..", 1)
        return (start == "*" or moment >= parse_time(start.upper(), "q")) and (
            end == "*" or moment < _end(end)
        )
    sign, text = _RANGE.findall(value)[0]
    at = parse_time(text.upper(), "q")
    tests: dict[str, bool] = {
        ">": moment >= _end(text),
        ">=": moment >= at,
        "<": moment < at,
        "<=": moment < _end(text),
        "": at <= moment < _end(text),
    }
    return tests[sign]


def _end(text: str) -> datetime:
    """The first moment after a date, or after a second."""
    at = parse_time(text.upper(), "q")
    return at + (timedelta(seconds=1) if "t" in text.lower() else timedelta(days=1))


_TESTS: Final[dict[str, Callable[[Searched, str], bool]]] = {
    "is": _is,
    "type": _is,
    "state": _is,
    "label": _has_label,
    "author": lambda issue, value: issue.author.lower() == value,
    "assignee": lambda issue, value: value in map(str.lower, issue.assignees),
    "reason": lambda issue, value: (issue.state_reason or "").replace("_", " ") == value,
    "no": _lacks,
    "created": lambda issue, value: _in_range(issue.created_at, value),
    "updated": lambda issue, value: _in_range(issue.updated_at, value),
    "closed": lambda issue, value: _in_range(issue.closed_at, value),
}
