"""Issues, comments, labels and assignees of the sandbox GitHub, as its REST API shows them."""

import re

import pytest
import requests

from sandbox.github_server import SandboxGitHub
from tests.sandbox.github_calls import REPO, Clock, an_issue, ask, clock, events_of, github

__all__ = ["clock", "github"]  # fixtures, asked for by name


def test_a_new_issue_makes_its_labels_and_tells_its_story(github: SandboxGitHub) -> None:
    issue = an_issue(github, labels=["gpu", "new"], assignees=["ALICE"], body="text")

    assert issue["number"] == 1
    assert [label["name"] for label in issue["labels"]] == ["gpu", "new"]
    assert [person["login"] for person in issue["assignees"]] == ["alice"]
    assert ask(github, "GET", f"{REPO}/labels/GPU").json()["color"] == "ededed"
    assert events_of(github, 1) == [
        ("labeled", github.login),
        ("labeled", github.login),
        ("assigned", github.login),
    ]


def test_closing_and_reopening_keep_githubs_reasons(github: SandboxGitHub, clock: Clock) -> None:
    an_issue(github)
    clock.forward(minutes=5)
    closed = ask(github, "PATCH", f"{REPO}/issues/1", {"state": "closed"}).json()
    again = ask(
        github, "PATCH", f"{REPO}/issues/1", {"state": "closed", "state_reason": "duplicate"}
    )
    opened = ask(github, "PATCH", f"{REPO}/issues/1", {"state": "open"}).json()

    assert (closed["state_reason"], closed["closed_at"]) == ("completed", "2026-03-01T12:05:00Z")
    assert closed["closed_by"]["login"] == github.login
    assert again.json()["state_reason"] == "completed"
    assert (opened["state_reason"], opened["closed_at"]) == ("reopened", None)
    assert [event for event, _ in events_of(github, 1)] == ["closed", "reopened"]


def test_an_edit_that_changes_nothing_has_no_effect(github: SandboxGitHub, clock: Clock) -> None:
    before = an_issue(github, body="text", labels=["a"])
    clock.forward(hours=1)
    same = {"title": "down", "body": "text", "labels": ["A"], "state": "open"}
    after = ask(github, "PATCH", f"{REPO}/issues/1", same).json()

    assert after == before
    assert github.log()[-1].took_effect is False


@pytest.mark.parametrize(
    "fields", [{"assignees": ["stranger"]}, {"assignees": ["alice", "nobody"]}, {"milestone": 9}]
)
def test_an_issue_with_somebody_who_cannot_be_assigned_is_refused_whole(
    github: SandboxGitHub, fields: dict[str, object]
) -> None:
    github.state.add_user("stranger")

    response = ask(github, "POST", f"{REPO}/issues", {"title": "t", **fields})

    assert response.status_code == 422
    assert response.json()["errors"][0]["code"] == "invalid"
    assert ask(github, "GET", f"{REPO}/issues?state=all").json() == []


def test_add_assignees_ignores_who_cannot_be_and_knows_who_is_not(github: SandboxGitHub) -> None:
    github.state.add_user("stranger")
    an_issue(github)
    add = f"{REPO}/issues/1/assignees"

    mixed = ask(github, "POST", add, {"assignees": ["stranger", "alice"]})
    unknown = ask(github, "POST", add, {"assignees": ["bob", "nobody"]})
    organization = ask(github, "POST", add, {"assignees": ["acme"]})

    assert [person["login"] for person in mixed.json()["assignees"]] == ["alice"]
    assert (mixed.status_code, unknown.status_code, organization.status_code) == (201, 404, 404)


@pytest.mark.parametrize(
    ("login", "status"), [("alice", 204), ("ALICE", 204), ("stranger", 404), ("nobody", 404)]
)
def test_who_can_be_assigned_is_told_beforehand(
    github: SandboxGitHub, login: str, status: int
) -> None:
    github.state.add_user("stranger")

    assert ask(github, "GET", f"{REPO}/assignees/{login}").status_code == status


def test_with_assignees_off_the_answer_is_201_and_nobody_is_assigned(github: SandboxGitHub) -> None:
    an_issue(github)
    github.state.switches.assignees_off = True

    response = ask(github, "POST", f"{REPO}/issues/1/assignees", {"assignees": ["alice"]})

    assert (response.status_code, response.json()["assignees"]) == (201, [])


def test_labels_are_added_set_and_removed(github: SandboxGitHub) -> None:
    an_issue(github, labels=["a"])
    at = f"{REPO}/issues/1/labels"

    added = ask(github, "POST", at, {"labels": ["b"]}).json()
    put = ask(github, "PUT", at, ["b", "c/d"]).json()
    left = ask(github, "DELETE", f"{at}/c%2Fd").json()
    missing = ask(github, "DELETE", f"{at}/zzz").status_code

    assert [[label["name"] for label in labels] for labels in (added, put, left)] == [
        ["a", "b"],
        ["b", "c/d"],
        ["b"],
    ]
    assert missing == 404


def test_the_100_labels_are_counted_with_those_present(github: SandboxGitHub) -> None:
    an_issue(github, labels=[f"l{n}" for n in range(100)])

    response = ask(github, "POST", f"{REPO}/issues/1/labels", ["one more"])

    assert response.status_code == 422


def test_comments_are_made_edited_listed_since_and_deleted(
    github: SandboxGitHub, clock: Clock
) -> None:
    an_issue(github)
    at = f"{REPO}/issues/1/comments"
    first = ask(github, "POST", at, {"body": "one"}).json()
    clock.forward(minutes=1)
    ask(github, "POST", at, {"body": "two"})
    ask(github, "PATCH", f"{REPO}/issues/comments/{first['id']}", {"body": "one!"})
    clock.forward(minutes=1)

    assert [comment["body"] for comment in ask(github, "GET", at).json()] == ["one!", "two"]
    assert ask(github, "GET", f"{at}?since=2026-03-01T12:02:00Z").json() == []
    assert ask(github, "DELETE", f"{REPO}/issues/comments/{first['id']}").status_code == 204
    assert ask(github, "GET", f"{REPO}/issues/1").json()["comments"] == 1
    assert ask(github, "GET", f"{REPO}/issues/comments/{first['id']}").status_code == 404


def test_who_may_push_comments_on_a_locked_issue_and_others_do_not(github: SandboxGitHub) -> None:
    github.state.add_token("guest-token", "guest")
    an_issue(github)
    locked = ask(github, "PUT", f"{REPO}/issues/1/lock", {"lock_reason": "resolved"})
    at = f"{REPO}/issues/1/comments"

    guest = ask(github, "POST", at, {"body": "hi"}, token="guest-token")

    assert locked.status_code == 204
    assert guest.status_code == 403
    assert guest.json()["message"] == "Unable to create comment because issue is locked."
    assert ask(github, "POST", at, {"body": "hi"}).status_code == 201


def test_a_transferred_issue_redirects_and_is_hidden_from_who_cannot_follow(
    github: SandboxGitHub,
) -> None:
    github.state.add_repository("acme/open", collaborators={github.login: "write"})
    github.state.add_repository("acme/secret", private=True)
    an_issue(github)
    an_issue(github)
    github.human("alice").comment("acme/alerts", 1, "hello")
    github.human("alice").transfer("acme/alerts", 1, "acme/open")
    github.human("alice").transfer("acme/alerts", 2, "acme/secret")

    response = ask(github, "GET", f"{REPO}/issues/1/comments")
    target = response.headers["Location"].removeprefix(github.url)

    assert response.status_code == 301
    assert [comment["body"] for comment in ask(github, "GET", target).json()] == ["hello"]
    assert ask(github, "PATCH", f"{REPO}/issues/1", {"state": "closed"}).status_code == 301
    assert ask(github, "GET", f"{REPO}/issues/2").status_code == 404


def test_deleted_disabled_and_archived_say_so(github: SandboxGitHub) -> None:
    an_issue(github)
    an_issue(github)
    github.human("alice").delete("acme/alerts", 1)
    deleted = ask(github, "GET", f"{REPO}/issues/1")
    github.state.change_repository("acme/alerts", archived=True)
    archived = ask(github, "POST", f"{REPO}/issues", {"title": "t"})
    read = ask(github, "GET", f"{REPO}/issues/2")
    github.state.change_repository("acme/alerts", archived=False, has_issues=False)
    disabled = ask(github, "POST", f"{REPO}/issues", {"title": "t"})

    assert deleted.status_code == 410
    assert archived.status_code == 403
    assert archived.json()["message"] == "Repository was archived so is read-only."
    assert read.status_code == 200
    assert disabled.status_code == 410


def test_lists_are_sorted_filtered_and_paged_by_links(github: SandboxGitHub, clock: Clock) -> None:
    for number in range(5):
        an_issue(github, f"n{number}", labels=["even" if number % 2 == 0 else "odd"])
        clock.forward(seconds=1)
    first = ask(github, "GET", f"{REPO}/issues?labels=even&direction=asc&per_page=2")
    following = re.search(r'<([^>]+)>; rel="next"', first.headers["Link"])
    assert following is not None
    second = ask(github, "GET", following[1].removeprefix(github.url))

    assert [issue["title"] for issue in first.json()] == ["n0", "n2"]
    assert [issue["title"] for issue in second.json()] == ["n4"]
    assert 'rel="next"' not in second.headers["Link"]


def test_lists_and_searches_lag_behind_and_the_issue_itself_does_not(
    github: SandboxGitHub, clock: Clock
) -> None:
    switches = {"list_lag": 30, "search_lag": 60}
    assert ask(github, "POST", "/_sandbox/switches", switches).status_code == 200
    an_issue(github, body="marker-9")
    lists, searches = f"{REPO}/issues", "/search/issues?q=is:issue+marker-9"

    def seen() -> tuple[int, int]:
        found = ask(github, "GET", searches).json()["total_count"]
        return len(ask(github, "GET", lists).json()), found

    assert ask(github, "GET", f"{REPO}/issues/1").status_code == 200
    assert seen() == (0, 0)
    clock.forward(seconds=30)
    assert seen() == (1, 0)
    clock.forward(seconds=30)
    assert seen() == (1, 1)


def test_a_search_in_a_repository_out_of_sight_is_refused(github: SandboxGitHub) -> None:
    assert ask(github, "GET", "/search/issues?q=is:issue+repo:a/b").status_code == 422


def test_an_unchanged_answer_is_304_and_free(github: SandboxGitHub) -> None:
    an_issue(github)
    first = ask(github, "GET", f"{REPO}/issues/1")
    headers = {"If-None-Match": first.headers["ETag"]}
    second = ask(github, "GET", f"{REPO}/issues/1", **headers)
    ask(github, "PATCH", f"{REPO}/issues/1", {"title": "other"})
    third = ask(github, "GET", f"{REPO}/issues/1", **headers)

    assert (second.status_code, second.content, third.status_code) == (304, b"", 200)
    used = [int(response.headers["x-ratelimit-used"]) for response in (first, second)]
    assert used[0] == used[1]


@pytest.mark.parametrize("data", [b"{", b"[1]", b'"text"'])
def test_a_body_that_is_no_json_object_is_400(github: SandboxGitHub, data: bytes) -> None:
    response = requests.post(
        f"{github.url}{REPO}/issues",
        data=data,
        headers={"Authorization": f"Bearer {github.token}"},
        timeout=20,
    )

    assert response.status_code == 400


def test_an_unknown_route_is_a_json_404_in_the_log(github: SandboxGitHub) -> None:
    response = ask(github, "GET", "/repos/acme/alerts/pulls")

    assert (response.status_code, response.json()["message"]) == (404, "Not Found")
    assert github.log()[-1].path == "/repos/acme/alerts/pulls"


def test_everything_survives_a_restart_on_a_file(tmp_path: object, clock: Clock) -> None:
    file = f"{tmp_path}/github.db"
    with SandboxGitHub(clock=clock, database=file) as before:
        an_issue(before, body="雪", labels=["a"], assignees=["alice"])
        ask(before, "POST", f"{REPO}/issues/1/comments", {"body": "hello"})
        ask(before, "PATCH", f"{REPO}/issues/1", {"state": "closed"})
        paths = (f"{REPO}/issues/1", f"{REPO}/issues/1/timeline", f"{REPO}/labels")
        old = [re.sub(r":\d{4,5}/", "/", ask(before, "GET", path).text) for path in paths]
    with SandboxGitHub(clock=clock, database=file) as after:
        new = [re.sub(r":\d{4,5}/", "/", ask(after, "GET", path).text) for path in paths]
        assert an_issue(after)["number"] == 2

    assert new == old
