"""GitHub's rules as pure functions: limits, filters, search, pages of lists."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.github_rules import (
    Allowance,
    IssueFilter,
    Page,
    Refusal,
    Window,
    comment_draft,
    creates_content,
    issue_draft,
    issue_edit,
    label_draft,
    link_header,
    matches,
    next_state,
    page_from,
    parse_search,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class AnIssue:
    number: int = 1
    title: str = "GPU lost on node-7"
    body: str | None = "marker-1"
    state: str = "open"
    state_reason: str | None = None
    author: str = "Robot"
    labels: tuple[str, ...] = ("GPU", "high")
    assignees: tuple[str, ...] = ("Alice",)
    milestone: int | None = None
    created_at: datetime = NOW
    updated_at: datetime = NOW
    closed_at: datetime | None = None
    comments: int = 0


def refusal(body: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(Refusal) as caught:
        issue_draft(body)
    assert caught.value.status == 422
    return caught.value.as_json()


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        pytest.param({"title": "x" * 257}, "title", "256", id="a title has 256 characters at most"),
        pytest.param({"body": "x" * 65_537}, "body", "65536", id="a body has 65,536 at most"),
        pytest.param({"labels": ["x" * 51]}, "name", "50", id="a label's name has 50 at most"),
        pytest.param(
            {"labels": [f"l{n}" for n in range(101)]}, "labels", "100", id="100 labels at most"
        ),
        pytest.param(
            {"assignees": [f"a{n}" for n in range(11)]},
            "assignees",
            "10",
            id="10 assignees at most",
        ),
        pytest.param({"body": "a\x00b"}, "body", "null byte", id="no NUL in a body"),
        pytest.param({"title": "a\x00b"}, "title", "null byte", id="no NUL in a title"),
    ],
)
def test_what_is_too_much_is_a_422_that_names_field_and_limit(
    fields: dict[str, Any], field: str, words: str
) -> None:
    [error] = refusal({"title": "t", **fields})["errors"]

    assert error["field"] == field
    assert error["code"] == "custom"
    assert words in error["message"]


def test_just_as_much_as_allowed_passes() -> None:
    labels = [f"{n:050}" for n in range(100)]
    draft = issue_draft({"title": "雪" * 256, "body": "🦊" * 65_536, "labels": labels})

    assert draft.labels == tuple(labels)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="no title"),
        pytest.param({"title": None}, id="title null"),
        pytest.param({"title": "  "}, id="blank title"),
        pytest.param({"title": "t", "body": 3}, id="body a number"),
        pytest.param({"title": "t", "labels": "a"}, id="labels a text"),
        pytest.param({"title": "t", "labels": [3]}, id="label a number"),
        pytest.param({"title": "t", "labels": [" "]}, id="label blank"),
        pytest.param({"title": "t", "assignees": [3]}, id="assignee a number"),
        pytest.param({"title": "t", "milestone": "soon"}, id="milestone a word"),
    ],
)
def test_a_malformed_issue_is_refused(body: dict[str, Any]) -> None:
    assert refusal(body)["status"] == "422"


def test_labels_and_assignees_count_once_whatever_their_case() -> None:
    draft = issue_draft(
        {"title": "t", "labels": ["A", {"name": "a"}, "b"], "assignees": ["Al", "al", "Bo"]}
    )

    assert draft.labels == ("A", "b")
    assert draft.assignees == ("Al", "Bo")


@pytest.mark.parametrize("body", [{}, {"body": " "}, {"body": None}, {"body": "x" * 65_537}])
def test_an_empty_or_oversize_comment_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        comment_draft(body)


@pytest.mark.parametrize("color", ["red", "#ff0000", "ff00", 3])
def test_a_label_needs_six_hex_digits(color: Any) -> None:
    with pytest.raises(Refusal):
        label_draft({"name": "a", "color": color})


@pytest.mark.parametrize(
    ("state", "edit", "after"),
    [
        pytest.param("open", {"state": "closed"}, ("closed", "completed"), id="closed: completed"),
        pytest.param(
            "open",
            {"state": "closed", "state_reason": "not_planned"},
            ("closed", "not_planned"),
            id="closed with a reason keeps it",
        ),
        pytest.param("closed", {"state": "open"}, ("open", "reopened"), id="open again: reopened"),
        pytest.param("open", {"state_reason": "not_planned"}, None, id="a reason alone is ignored"),
        pytest.param(
            "closed",
            {"state": "closed", "state_reason": "not_planned"},
            None,
            id="a reason without a change of state is ignored",
        ),
        pytest.param("open", {"title": "t"}, None, id="other edits leave the state"),
    ],
)
def test_the_state_follows_githubs_reasons(
    state: str, edit: dict[str, Any], after: tuple[str, str] | None
) -> None:
    assert next_state(state, issue_edit(edit)) == after


def test_nothing_closes_as_reopened() -> None:
    with pytest.raises(Refusal):
        next_state("open", issue_edit({"state": "closed", "state_reason": "reopened"}))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, True),
        ({"state": "closed"}, False),
        ({"state": "all"}, True),
        ({"labels": "gpu,HIGH"}, True),
        ({"labels": "gpu,low"}, False),
        ({"creator": "robot"}, True),
        ({"creator": "alice"}, False),
        ({"assignee": "alice"}, True),
        ({"assignee": "none"}, False),
        ({"assignee": "*"}, True),
        ({"milestone": "none"}, True),
        ({"milestone": "*"}, False),
        ({"since": "2026-03-01T12:00:00Z"}, True),
        ({"since": "2026-03-01T12:00:01Z"}, False),
    ],
)
def test_a_list_holds_what_its_filters_say(query: dict[str, str], found: bool) -> None:
    assert matches(AnIssue(), IssueFilter.from_query(query)) is found


@pytest.mark.parametrize("query", [{"state": "new"}, {"sort": "age"}, {"since": "yesterday"}])
def test_a_filter_that_is_none_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(Refusal):
        IssueFilter.from_query(query)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('is:issue "marker-1"', True),
        ("is:issue MARKER-1 node-7", True),
        ("is:issue marker-2", False),
        ("is:issue -marker-1", False),
        ("is:issue marker-1 in:title", False),
        ("is:issue remark", True),
        ("is:issue remark in:body", False),
        ("is:issue is:open label:gpu author:robot assignee:alice", True),
        ("is:issue state:closed", False),
        ("is:issue -label:gpu", False),
        ("is:issue no:assignee", False),
        ("is:issue no:milestone", True),
        ("is:issue created:>2026-02-28", True),
        ("is:issue created:>2026-03-01", False),
        ("is:issue created:2026-03-01", True),
        ("is:issue created:2026-01-01..2026-03-01", True),
        ("is:issue updated:<2026-03-01T12:00:00Z", False),
        ("is:issue closed:>2026-01-01", False),
        ("is:pull-request", False),
        ("is:issue unknown:word", False),
    ],
)
def test_a_search_finds_what_it_says(text: str, found: bool) -> None:
    assert parse_search(text).finds(AnIssue(), ("a remark",)) is found


@pytest.mark.parametrize("text", ["", "marker-1", "is:open", "-is:issue", "is:issue " + "x" * 256])
def test_a_search_without_kind_or_of_undue_length_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_search(text)
    assert caught.value.status == 422


def test_a_search_is_within_its_repositories_and_owners() -> None:
    assert parse_search("is:issue repo:Acme/Ops").in_scope("acme/OPS")
    assert not parse_search("is:issue repo:acme/ops").in_scope("acme/dev")
    assert parse_search("is:issue org:acme").in_scope("acme/dev")
    assert parse_search("is:issue").in_scope("any/where")


@given(st.integers(0, 500), st.integers(1, 100))
def test_pages_follow_the_next_links_and_hold_everything_once(total: int, size: int) -> None:
    entries, seen, number = list(range(total)), list[int](), 1
    while True:
        page = Page(number, size)
        seen += page.cut(entries)
        links = link_header("http://x", {"per_page": str(size)}, page, total) or ""
        if 'rel="next"' not in links:
            break
        number += 1

    assert seen == entries


def test_a_page_is_30_by_default_and_100_at_most() -> None:
    assert page_from({}) == Page(1, 30)
    assert page_from({"per_page": "500", "page": "3"}) == Page(3, 100)
    assert page_from({"per_page": "-1", "page": "x"}) == Page(1, 30)


def test_a_budget_counts_down_and_is_full_again_after_its_reset() -> None:
    window = Window(2, MINUTE, NOW + MINUTE).spend().spend().spend()

    assert window.remaining == 0
    assert window.headers("core")["x-ratelimit-remaining"] == "0"
    assert window.at(NOW + MINUTE).remaining == 2
    assert window.at(NOW + MINUTE / 2) == window


@given(st.lists(st.integers(0, 180), max_size=60), st.integers(1, 10))
def test_no_span_ever_holds_more_than_is_allowed(seconds: list[int], most: int) -> None:
    allowance, spent = Allowance(most, MINUTE), list[tuple[datetime, int]]()
    for second in sorted(seconds):
        now = NOW + timedelta(seconds=second)
        wait = allowance.wait(spent, 1, now)
        if wait is None:
            spent.append((now, 1))
        else:
            assert timedelta(0) < wait <= MINUTE
            assert allowance.wait(spent, 1, now + wait) is None

    for at, _ in spent:
        assert sum(1 for other, _ in spent if at <= other < at + MINUTE) <= most


@pytest.mark.parametrize(
    ("method", "path", "counts"),
    [
        ("POST", "/repos/a/b/issues", True),
        ("POST", "/repos/a/b/issues/3/comments", True),
        ("POST", "/repos/a/b/issues/3/assignees", True),
        ("POST", "/repos/a/b/labels", False),
        ("PATCH", "/repos/a/b/issues/3", False),
        ("GET", "/repos/a/b/issues", False),
    ],
)
def test_content_is_what_people_are_told_of(method: str, path: str, counts: bool) -> None:
    assert creates_content(method, path) is counts


def test_a_search_that_names_no_kind_is_taken_where_older_tokens_are_imitated() -> None:
    assert parse_search("hello", needs_kind=False).finds(AnIssue(title="hello"))
