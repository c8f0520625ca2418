"""The adapter's verbs against the embedded GitHub: what is there afterwards, in how many requests."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest
import requests

from alerts2gh.github_tracker import GitHubTracker
from alerts2gh.incident import IssueState, Target
from alerts2gh.ports import Answer, Outcome
from sandbox.github_server import Fault, FaultKind, SandboxGitHub
from tests.alerts2gh.github_peers import TARGET, TOKEN, Witness, tracking

Ask = Callable[[GitHubTracker], Answer[object]]
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def github() -> Iterator[SandboxGitHub]:
    with SandboxGitHub(repositories=("acme/alerts", "acme/other"), token=TOKEN) as running:
        yield running


@pytest.fixture
def both(tmp_path: Path, github: SandboxGitHub) -> Iterator[tuple[GitHubTracker, Witness]]:
    with tracking(tmp_path, github.url) as pair:
        yield pair


@pytest.fixture
def tracker(both: tuple[GitHubTracker, Witness]) -> GitHubTracker:
    return both[0]


def asked(github: SandboxGitHub) -> list[tuple[str, str, int]]:
    return [(entry.method, entry.path, entry.status) for entry in github.log()]


def milestone(github: SandboxGitHub, title: str) -> int:
    """Make a milestone; no request of the tracker."""
    made = requests.post(
        f"{github.url}/repos/acme/alerts/milestones",
        json={"title": title},
        headers={"Authorization": f"token {TOKEN}"},
        timeout=5,
    )
    return int(made.json()["number"])


def create(tracker: GitHubTracker, title: str = "disk full") -> Answer[object]:
    return tracker.create_issue(TARGET, title, "body", [], None)


def test_a_life_of_an_issue_is_one_request_a_step(
    github: SandboxGitHub, both: tuple[GitHubTracker, Witness]
) -> None:
    tracker, witness = both
    made = tracker.create_issue(TARGET, "disk full", "on n1", ["alerts2gh"], None)
    assigned = tracker.add_assignees(TARGET, 1, ["alice"])
    comment = tracker.add_comment(TARGET, 1, "still full")
    closed = tracker.edit_issue(TARGET, 1, state=IssueState.CLOSED, state_reason="completed")
    reopened = tracker.edit_issue(TARGET, 1, state=IssueState.OPEN, title="disk", body="on n2")

    assert asked(github) == [
        ("POST", "/repos/acme/alerts/issues", 201),
        ("POST", "/repos/acme/alerts/issues/1/assignees", 201),
        ("POST", "/repos/acme/alerts/issues/1/comments", 201),
        ("PATCH", "/repos/acme/alerts/issues/1", 200),
        ("PATCH", "/repos/acme/alerts/issues/1", 200),
    ]
    assert witness.seen == [
        ("issue_create", 201),
        ("assignees_add", 201),
        ("comment_create", 201),
        ("issue_edit", 200),
        ("issue_edit", 200),
    ]
    assert all(rate is not None and rate.limit == 5000 for *_, rate in witness.responses)
    assert made.value is not None
    assert (made.value.number, made.value.repository) == (1, "acme/alerts")
    assert (made.value.author, made.value.labels) == (github.login, ("alerts2gh",))
    assert made.text == ""
    assert assigned.value is not None
    assert assigned.value.assignees == ("alice",)
    assert comment.value is not None
    assert (comment.value.author, comment.value.body) == (github.login, "still full")
    assert closed.value is not None
    assert (closed.value.state, closed.value.closed_by) == (IssueState.CLOSED, github.login)
    assert closed.value.closed_at is not None
    assert reopened.value is not None
    assert (reopened.value.state, reopened.value.title) == (IssueState.OPEN, "disk")
    assert (reopened.value.state_reason, reopened.value.body) == ("reopened", "on n2")


def test_an_edit_changes_only_what_it_names(github: SandboxGitHub, tracker: GitHubTracker) -> None:
    tracker.create_issue(TARGET, "title", "body", ["a"], None)
    tracker.edit_issue(TARGET, 1, body="new")

    answer = tracker.get_issue(TARGET, 1)
    assert answer.value is not None
    assert (answer.value.title, answer.value.body) == ("title", "new")
    assert answer.value.labels == ("a",)
    assert dict(github.log()[1].fields).keys() == {"body_line", "body_length"}


def test_an_unchanged_issue_is_not_modified_and_free(
    github: SandboxGitHub, both: tuple[GitHubTracker, Witness]
) -> None:
    tracker, witness = both
    create(tracker)
    first = tracker.get_issue(TARGET, 1)
    assert first.value is not None
    second = tracker.get_issue(TARGET, 1, first.value.etag)
    github.human("alice").comment("acme/alerts", 1, "hm")
    third = tracker.get_issue(TARGET, 1, first.value.etag)

    assert first.value.etag
    assert (second.outcome, second.value) == (Outcome.NOT_MODIFIED, None)
    assert third.outcome is Outcome.DONE
    left = [rate.remaining for *_, rate in witness.responses if rate is not None]
    assert left[1] == left[2]


def test_a_transferred_issue_is_followed_and_says_where_it_is(
    github: SandboxGitHub, tracker: GitHubTracker
) -> None:
    create(tracker)
    github.human("alice").transfer("acme/alerts", 1, "acme/other")
    got = tracker.get_issue(TARGET, 1)
    edited = tracker.edit_issue(TARGET, 1, body="after the move")

    assert got.value is not None
    assert (got.value.repository, got.value.number) == ("acme/other", 1)
    assert edited.value is not None
    assert (edited.value.repository, edited.value.body) == ("acme/other", "after the move")


def test_a_deleted_issue_is_gone(github: SandboxGitHub, tracker: GitHubTracker) -> None:
    create(tracker)
    github.human("alice").delete("acme/alerts", 1)

    assert tracker.get_issue(TARGET, 1).outcome is Outcome.GONE
    assert tracker.edit_issue(TARGET, 1, body="x").outcome is Outcome.GONE
    assert tracker.get_issue(TARGET, 2).outcome is Outcome.NOT_FOUND


def test_disabled_issues_are_told_apart_from_a_deleted_one(
    github: SandboxGitHub, tracker: GitHubTracker
) -> None:
    create(tracker)
    github.state.change_repository("acme/alerts", has_issues=False)

    assert create(tracker).outcome is Outcome.ISSUES_DISABLED
    assert tracker.get_issue(TARGET, 1).outcome is Outcome.ISSUES_DISABLED


def test_an_archived_repository_is_no_limit(github: SandboxGitHub, tracker: GitHubTracker) -> None:
    github.state.change_repository("acme/alerts", archived=True)

    answer = create(tracker)
    assert (answer.outcome, answer.status) == (Outcome.ARCHIVED, 403)
    assert answer.text == "Repository was archived so is read-only."


def test_a_locked_issue_is_no_limit(github: SandboxGitHub, tracker: GitHubTracker) -> None:
    github.state.set_collaborator("acme/alerts", github.login, "read")
    github.human("alice").open("acme/alerts", "by hand")
    github.human("alice").lock("acme/alerts", 1)

    assert tracker.add_comment(TARGET, 1, "hm").outcome is Outcome.LOCKED


def test_a_bad_token_and_a_missing_right_are_told_apart(
    tmp_path: Path, github: SandboxGitHub
) -> None:
    github.state.add_token("weak", "robot-2", read_only=True)
    with tracking(tmp_path, github.url, token="nonsense") as (tracker, _):
        assert create(tracker).outcome is Outcome.UNAUTHORISED
    with tracking(tmp_path, github.url, token="weak") as (tracker, _):
        answer = create(tracker)

    assert answer.outcome is Outcome.FORBIDDEN
    assert answer.text == "Resource not accessible by personal access token"


def test_an_invalid_issue_is_told_why(tracker: GitHubTracker) -> None:
    answer = tracker.create_issue(TARGET, "t" * 300, "body", [], None)

    assert (answer.outcome, answer.status) == (Outcome.INVALID, 422)
    assert "title" in answer.text


@pytest.mark.parametrize(
    ("fault", "outcome", "effects"),
    [
        (Fault(FaultKind.ERROR, status=502, count=1), Outcome.UNKNOWN, 0),
        (Fault(FaultKind.ERROR, when="after", status=502, count=1), Outcome.UNKNOWN, 1),
        (Fault(FaultKind.DROP, count=1), Outcome.UNKNOWN, 0),
        (Fault(FaultKind.DROP, when="after", count=1), Outcome.UNKNOWN, 1),
        (Fault(FaultKind.TIMEOUT, when="after", seconds=5, count=1), Outcome.UNKNOWN, 1),
        (Fault(FaultKind.PRIMARY_LIMIT, seconds=90, count=1), Outcome.PRIMARY_LIMIT, 0),
        (Fault(FaultKind.PRIMARY_LIMIT, status=429, headers=False, count=1), Outcome.PRIMARY_LIMIT, 0),
        (Fault(FaultKind.SECONDARY_LIMIT, retry_after=7, count=1), Outcome.SECONDARY_LIMIT, 0),
        (Fault(FaultKind.SECONDARY_LIMIT, status=429, headers=False, count=1), Outcome.SECONDARY_LIMIT, 0),
    ],
    ids=lambda it: f"{it.kind} {it.when} {it.status}" if isinstance(it, Fault) else str(it),
)  # fmt: skip
def test_a_fault_is_one_request_and_named_for_what_it_may_have_done(
    tmp_path: Path, github: SandboxGitHub, fault: Fault, outcome: Outcome, effects: int
) -> None:
    github.state.faults.add(fault)
    with tracking(tmp_path, github.url, timeout=0.5) as (tracker, _):
        answer = create(tracker)

    assert answer.outcome is outcome
    assert len(github.log()) == 1
    assert sum(entry.took_effect for entry in github.log()) == effects
    waits = {"primary_limit": 91, "secondary_limit": 7}
    said = fault.headers and fault.kind in waits
    expected = timedelta(seconds=waits[fault.kind]) if said else None
    assert answer.wait is None if expected is None else answer.wait is not None
    if answer.wait is not None and expected is not None:
        assert abs(answer.wait - expected) <= timedelta(seconds=2)


def test_assignees_that_github_drops_are_missing_from_the_answer(
    github: SandboxGitHub, tracker: GitHubTracker
) -> None:
    create(tracker)
    github.state.add_user("stranger")
    answer = tracker.add_assignees(TARGET, 1, ["stranger", "bob"])

    assert answer.value is not None
    assert answer.value.assignees == ("bob",)
    assert tracker.assignable(TARGET, "bob").value is True
    refused = tracker.assignable(TARGET, "stranger")
    assert (refused.outcome, refused.value) == (Outcome.DONE, False)
    assert tracker.assignable(TARGET, "nobody").value is False


def test_labels_that_github_drops_are_told(
    github: SandboxGitHub, both: tuple[GitHubTracker, Witness]
) -> None:
    tracker, witness = both
    github.state.set_collaborator("acme/alerts", github.login, "read")
    answer = tracker.create_issue(TARGET, "t", "b", ["alerts2gh", "gpu"], None)

    assert answer.outcome is Outcome.DONE
    assert answer.value is not None
    assert answer.value.labels == ()
    assert answer.text == "left out: label 'alerts2gh', label 'gpu'"
    assert "github_left_out" in witness.log.getvalue()


def test_labels_are_added_and_removed(tracker: GitHubTracker) -> None:
    tracker.create_issue(TARGET, "t", "b", ["a"], None)

    assert tracker.add_labels(TARGET, 1, ["b/c d", "e"]).value == ("a", "b/c d", "e")
    assert tracker.remove_label(TARGET, 1, "b/c d").value == ("a", "e")
    assert tracker.remove_label(TARGET, 9, "a").outcome is Outcome.NOT_FOUND


def test_a_milestone_is_found_by_title_and_its_number_kept(
    github: SandboxGitHub, tracker: GitHubTracker
) -> None:
    milestone(github, "first")
    wanted = milestone(github, "winter")
    before = len(github.log())
    answers = [tracker.create_issue(TARGET, title, "b", [], "winter") for title in ("a", "b")]

    assert [answer.text for answer in answers] == ["", ""]
    entries = github.log(before)
    assert [entry.method for entry in entries] == ["GET", "POST", "POST"]
    assert [entry.fields.get("milestone") for entry in entries[1:]] == [wanted, wanted]


def test_a_milestone_that_was_deleted_since_is_looked_up_again(
    github: SandboxGitHub, tracker: GitHubTracker
) -> None:
    number = milestone(github, "winter")
    tracker.create_issue(TARGET, "a", "b", [], "winter")
    home = github.state.repository("acme/alerts")
    record = github.state.milestones.get(str(home.id), str(number))
    assert record is not None
    github.state.milestones.delete(record)
    stale = tracker.create_issue(TARGET, "b", "b", [], "winter")
    again = tracker.create_issue(TARGET, "b", "b", [], "winter")

    assert stale.outcome is Outcome.INVALID
    assert again.outcome is Outcome.DONE
    assert "milestone 'winter'" in again.text


def test_an_unknown_milestone_does_not_keep_an_issue_from_being_opened(
    github: SandboxGitHub, tracker: GitHubTracker
) -> None:
    answer = tracker.create_issue(TARGET, "t", "b", [], "winter")

    assert answer.outcome is Outcome.DONE
    assert "milestone 'winter'" in answer.text


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (Fault(FaultKind.ERROR, method="GET", status=502), Outcome.UNREACHABLE),
        (Fault(FaultKind.SECONDARY_LIMIT, method="GET"), Outcome.SECONDARY_LIMIT),
    ],
)
def test_an_issue_waits_while_its_milestone_cannot_be_looked_up(
    github: SandboxGitHub, tracker: GitHubTracker, fault: Fault, outcome: Outcome
) -> None:
    """UNREACHABLE, not UNKNOWN: the create was never sent."""
    github.state.faults.add(fault)

    assert tracker.create_issue(TARGET, "t", "b", [], "winter").outcome is outcome
    assert [entry.method for entry in github.log()] == ["GET"]


def test_a_list_holds_all_pages_newest_first(github: SandboxGitHub, tracker: GitHubTracker) -> None:
    alice = github.human("alice")
    for number in range(1, 152):
        alice.open("acme/alerts", f"issue {number}")
        if number != 100:
            alice.label("acme/alerts", number, "alerts2gh")
    alice.close("acme/alerts", 3)
    everything = tracker.list_issues(TARGET, label="alerts2gh", since=None)
    opened = tracker.list_issues(TARGET, label="alerts2gh", since=None, state="open")

    assert everything.value is not None
    assert opened.value is not None
    assert [i.number for i in everything.value] == [n for n in range(151, 0, -1) if n != 100]
    assert [i.number for i in everything.value if i not in opened.value] == [3]
    assert len(github.log()) == 4


def test_since_is_about_the_last_change(tmp_path: Path) -> None:
    clock = [NOON]
    with (
        SandboxGitHub(token=TOKEN, clock=lambda: clock[0]) as github,
        tracking(tmp_path, github.url, now=lambda: clock[0]) as (tracker, _),
    ):
        alice = github.human("alice")
        for number in (1, 2):
            alice.open("acme/alerts", "t")
            alice.label("acme/alerts", number, "x")
        alice.comment("acme/alerts", 2, "early")
        clock[0] = NOON + timedelta(hours=1)
        alice.comment("acme/alerts", 1, "late")
        since = NOON + timedelta(minutes=30)
        found = tracker.list_issues(TARGET, label="x", since=since)
        comments = tracker.list_comments(TARGET, 1, since)
        early = tracker.list_comments(TARGET, 2, since)

    assert [issue.number for issue in found.value or ()] == [1]
    assert [comment.body for comment in comments.value or ()] == ["late"]
    assert early.value == ()


def test_comments_come_oldest_first_over_all_pages(
    github: SandboxGitHub, tracker: GitHubTracker
) -> None:
    create(tracker)
    for number in range(130):
        github.human("bob").comment("acme/alerts", 1, str(number))

    answer = tracker.list_comments(TARGET, 1, None)
    assert [comment.body for comment in answer.value or ()] == [str(n) for n in range(130)]


def test_files_and_teams_are_read(github: SandboxGitHub, tracker: GitHubTracker) -> None:
    files = {".github/CODEOWNERS": "* @alice\nöl @bob\n", "docs/a b.md": "x"}
    github.state.change_repository("acme/alerts", files=files)
    github.state.add_team("acme", "sre", ["alice", "bob"])

    assert tracker.read_file(TARGET, ".github/CODEOWNERS").value == "* @alice\nöl @bob\n"
    assert tracker.read_file(TARGET, "/docs/a b.md").value == "x"
    assert tracker.read_file(TARGET, "none").outcome is Outcome.NOT_FOUND
    folder = tracker.read_file(TARGET, "docs")
    assert (folder.outcome, folder.text) == (
        Outcome.INVALID,
        "docs can't be read: it is a directory, not a file",
    )
    assert set(tracker.team_members("acme", "sre").value or ()) == {"alice", "bob"}
    assert tracker.team_members("acme", "none").outcome is Outcome.NOT_FOUND


def test_the_login_is_the_tokens(github: SandboxGitHub, tracker: GitHubTracker) -> None:
    assert tracker.login().value == github.login


def test_many_threads_share_one_tracker(github: SandboxGitHub, tracker: GitHubTracker) -> None:
    def life(number: int) -> tuple[str, str, IssueState]:
        made = tracker.create_issue(TARGET, f"t{number}", f"b{number}", [], None)
        assert made.value is not None
        closed = tracker.edit_issue(TARGET, made.value.number, state=IssueState.CLOSED)
        assert closed.value is not None
        return made.value.title, closed.value.body, closed.value.state

    with ThreadPoolExecutor(8) as pool:
        lives = list(pool.map(life, range(40)))

    assert lives == [(f"t{n}", f"b{n}", IssueState.CLOSED) for n in range(40)]
    assert len(github.log()) == 80


def test_threads_at_work_together_have_a_connection_each(tracker: GitHubTracker) -> None:
    """PyGithub keeps the request under way in its connection."""
    together = Barrier(4)

    def mine(_: int) -> int:
        together.wait(timeout=5)
        return id(tracker._client._connection())

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(mine, range(4)))) == 4


def test_connections_of_ended_threads_are_not_kept(tracker: GitHubTracker) -> None:
    for _ in range(5):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(create, tracker).result().outcome is Outcome.DONE

    assert len(tracker._client._connections) == 1


def test_a_tracker_works_on_after_it_was_closed(tracker: GitHubTracker) -> None:
    create(tracker)
    tracker.close()

    assert tracker.get_issue(Target("main", "ACME", "Alerts"), 1).outcome is Outcome.DONE
