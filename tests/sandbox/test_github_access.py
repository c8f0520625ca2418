"""Who may do what on the sandbox GitHub: tokens, scopes, Apps, rights."""

import base64

import pytest

from sandbox.github_server import SandboxGitHub
from tests.sandbox.github_calls import REPO, Clock, an_issue, ask, clock, github

__all__ = ["clock", "github"]  # fixtures, asked for by name
ISSUES = f"{REPO}/issues"
ISSUE = {"title": "t", "labels": ["a"], "assignees": ["alice"]}


@pytest.mark.parametrize("header", ["Bearer wrong", "token wrong", "Basic ###", "Bearer a.b.c"])
def test_a_bad_token_is_401(github: SandboxGitHub, header: str) -> None:
    response = ask(github, "GET", ISSUES, token="", Authorization=header)

    assert response.status_code == 401


def test_a_revoked_token_is_401(github: SandboxGitHub) -> None:
    github.state.revoke_token(github.token)
    response = ask(github, "GET", ISSUES)

    assert (response.status_code, response.json()["message"]) == (401, "Bad credentials")


@pytest.mark.parametrize("scheme", ["Bearer", "token", "Basic"])
def test_each_scheme_of_a_token_is_taken(github: SandboxGitHub, scheme: str) -> None:
    value = github.token
    if scheme == "Basic":
        value = base64.b64encode(f"x:{value}".encode()).decode()

    response = ask(github, "GET", "/user", token="", Authorization=f"{scheme} {value}")

    assert response.json()["login"] == github.login


def test_nobody_reads_what_is_public_and_writes_nothing(github: SandboxGitHub) -> None:
    read = ask(github, "GET", ISSUES, token="")

    assert (read.status_code, read.headers["x-ratelimit-limit"]) == (200, "60")
    assert ask(github, "POST", ISSUES, ISSUE, token="").status_code == 401


def test_a_read_only_token_cannot_write(github: SandboxGitHub) -> None:
    github.state.add_token("reader", github.login, read_only=True)
    response = ask(github, "POST", ISSUES, ISSUE, token="reader")

    assert response.status_code == 403
    assert response.json()["message"] == "Resource not accessible by personal access token"
    assert ask(github, "GET", ISSUES, token="reader").status_code == 200


def test_a_token_for_other_repositories_reads_the_public_only(github: SandboxGitHub) -> None:
    github.state.add_token("narrow", github.login, repositories=["acme/other"])

    assert ask(github, "GET", ISSUES, token="narrow").status_code == 200
    assert ask(github, "POST", ISSUES, ISSUE, token="narrow").status_code == 403
    github.state.change_repository("acme/alerts", private=True)
    assert ask(github, "GET", ISSUES, token="narrow").status_code == 404
    assert ask(github, "POST", ISSUES, ISSUE, token="narrow").status_code == 404
    assert ask(github, "GET", ISSUES).status_code == 200


def test_without_push_access_labels_and_assignees_are_dropped_silently(
    github: SandboxGitHub,
) -> None:
    github.state.add_token("guest-token", "guest")
    made = ask(github, "POST", ISSUES, ISSUE, token="guest-token")
    add = ask(
        github, "POST", f"{ISSUES}/1/assignees", {"assignees": ["alice"]}, token="guest-token"
    )
    edited = ask(
        github, "PATCH", f"{ISSUES}/1", {"labels": ["a"], "title": "u"}, token="guest-token"
    )
    label = ask(github, "POST", f"{ISSUES}/1/labels", ["a"], token="guest-token")

    assert (made.status_code, made.json()["labels"], made.json()["assignees"]) == (201, [], [])
    assert (add.status_code, add.json()["assignees"]) == (201, [])
    assert (edited.json()["title"], edited.json()["labels"]) == ("u", [])
    assert label.status_code == 403


def test_a_guest_edits_only_what_is_theirs(github: SandboxGitHub) -> None:
    github.state.add_token("guest-token", "guest")
    an_issue(github)
    comment = ask(github, "POST", f"{ISSUES}/1/comments", {"body": "x"}).json()
    at = f"{ISSUES}/comments/{comment['id']}"

    assert (
        ask(github, "PATCH", f"{ISSUES}/1", {"title": "u"}, token="guest-token").status_code == 403
    )
    assert ask(github, "PATCH", at, {"body": "u"}, token="guest-token").status_code == 403


def test_files_and_teams_are_read(github: SandboxGitHub) -> None:
    github.state.change_repository("acme/alerts", files={".github/CODEOWNERS": "* @alice\n"})
    github.state.add_team("acme", "infra", ["alice", "bob"])

    file = ask(github, "GET", f"{REPO}/contents/.github/CODEOWNERS").json()
    members = ask(github, "GET", "/orgs/acme/teams/infra/members").json()

    assert base64.b64decode(file["content"]) == b"* @alice\n"
    assert [member["login"] for member in members] == ["alice", "bob"]
    assert ask(github, "GET", f"{REPO}/contents/CODEOWNERS").status_code == 404
    assert ask(github, "GET", "/orgs/acme/teams/none/members").status_code == 404


def test_an_installation_token_ends_after_an_hour(github: SandboxGitHub, clock: Clock) -> None:
    app = github.state.add_app("mender", "acme", "no key needed here")
    made = github.state.add_installation(app, "acme")
    token = github.state.issue_installation_token(made, None, read_only=False).value

    issue = ask(github, "POST", ISSUES, ISSUE, token=token).json()
    me = ask(github, "GET", "/user", token=token)
    clock.forward(hours=1)

    assert issue["user"]["login"] == "mender[bot]"
    assert issue["performed_via_github_app"]["slug"] == "mender"
    assert me.status_code == 403
    assert ask(github, "GET", ISSUES, token=token).status_code == 401


def test_an_installation_writes_only_where_it_is_installed(github: SandboxGitHub) -> None:
    app = github.state.add_app("mender", "acme", "no key needed here")
    made = github.state.add_installation(app, "acme", repositories=["acme/other"])
    token = github.state.issue_installation_token(made, None, read_only=False).value

    response = ask(github, "POST", ISSUES, ISSUE, token=token)

    assert response.json()["message"] == "Resource not accessible by integration"
