"""The sandbox GitHub as PyGithub sees it: what works there works against the real one's client."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from github import (
    Auth,
    BadCredentialsException,
    Github,
    GithubException,
    GithubIntegration,
    RateLimitExceededException,
    UnknownObjectException,
)
from github.Repository import Repository

from sandbox.github_server import Fault, FaultKind, SandboxGitHub
from tests.sandbox.app_keys import a_key_pair, app_keys

__all__ = ["app_keys"]  # fixtures, asked for by name


@pytest.fixture
def server() -> Iterator[SandboxGitHub]:
    with SandboxGitHub() as github:
        yield github


def client_of(url: str, auth: Auth.Auth) -> Github:
    return Github(
        base_url=url, auth=auth, retry=None, seconds_between_requests=0, seconds_between_writes=0
    )


@pytest.fixture(params=["", "/api/v3"], ids=["as api.github.com", "as GitHub Enterprise"])
def client(request: pytest.FixtureRequest, server: SandboxGitHub) -> Iterator[Github]:
    with client_of(server.url + request.param, Auth.Token(server.token)) as made:
        yield made


@pytest.fixture
def repo(client: Github, server: SandboxGitHub) -> Repository:
    return client.get_repo(server.repository)


def test_an_issue_lives_its_whole_life(repo: Repository) -> None:
    milestone = repo.create_milestone("now")
    issue = repo.create_issue(
        "down", body="text", labels=["gpu"], assignees=["alice"], milestone=milestone
    )
    issue.create_comment("first").edit("First")
    issue.add_to_assignees("bob")
    issue.remove_from_assignees("alice")
    issue.add_to_labels("high")
    issue.remove_from_labels("gpu")
    issue.edit(title="up", state="closed", state_reason="not_planned")
    issue.lock("resolved")

    found = repo.get_issue(1)
    assert (found.title, found.state, found.state_reason) == ("up", "closed", "not_planned")
    assert [person.login for person in found.assignees] == ["bob"]
    assert [label.name for label in found.labels] == ["high"]
    assert found.milestone is not None
    assert found.milestone.title == "now"
    assert [comment.body for comment in found.get_comments()] == ["First"]
    assert [event.event for event in found.get_events()][-3:] == ["renamed", "closed", "locked"]
    assert "commented" in [event.event for event in found.get_timeline()]


def test_lists_are_paged_through_to_their_end(client: Github, repo: Repository) -> None:
    client.per_page = 4
    for number in range(10):
        repo.create_issue(f"n{number}", labels=["even"] if number % 2 == 0 else [])

    assert [issue.number for issue in repo.get_issues(direction="asc")] == list(range(1, 11))
    even = repo.get_issues(labels=["even"], creator="nodemend-bot", state="open")
    assert {issue.title for issue in even} == {"n0", "n2", "n4", "n6", "n8"}
    found = client.search_issues(f"repo:{repo.full_name} is:issue n7")
    assert [issue.title for issue in found] == ["n7"]


def test_what_assigning_needs_is_told(client: Github, repo: Repository) -> None:
    assert repo.has_in_assignees("alice")
    assert not repo.has_in_assignees("nobody")
    assert {person.login for person in repo.get_assignees()} >= {"alice", "bob"}
    assert client.get_user().login == "nodemend-bot"
    assert client.get_rate_limit().rate.limit == 5000


def test_files_and_teams_are_read(server: SandboxGitHub, client: Github, repo: Repository) -> None:
    server.state.change_repository(repo.full_name, files={"CODEOWNERS": "* @acme/infra\n"})
    server.state.add_team("acme", "infra", ["alice"])

    file = repo.get_contents("CODEOWNERS")
    team = client.get_organization("acme").get_team_by_slug("infra")

    assert not isinstance(file, list)
    assert file.decoded_content == b"* @acme/infra\n"
    assert [member.login for member in team.get_members()] == ["alice"]


def test_an_edit_of_a_transferred_issue_lands_where_it_went(
    server: SandboxGitHub, repo: Repository
) -> None:
    server.state.add_repository("acme/away", collaborators={server.login: "write"})
    issue = repo.create_issue("down")
    server.human("alice").transfer(repo.full_name, 1, "acme/away")

    issue.edit(title="up")

    assert issue.repository_url.endswith("/repos/acme/away")
    assert issue.title == "up"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param(
            Fault(FaultKind.PRIMARY_LIMIT, status=403),
            RateLimitExceededException,
            id="a primary limit with 403 is one for PyGithub",
        ),
        pytest.param(
            Fault(FaultKind.SECONDARY_LIMIT, status=403),
            RateLimitExceededException,
            id="a secondary limit with 403 too",
        ),
        pytest.param(
            Fault(FaultKind.SECONDARY_LIMIT, status=429),
            GithubException,
            id="any limit with 429 is a general error",
        ),
        pytest.param(Fault(FaultKind.ERROR), GithubException, id="502 is a general error"),
    ],
)
def test_limits_and_errors_map_as_pygithub_maps_githubs(
    server: SandboxGitHub, repo: Repository, fault: Fault, error: type[GithubException]
) -> None:
    server.state.faults.add(fault)

    with pytest.raises(GithubException) as caught:
        repo.create_issue("down")

    assert type(caught.value) is error
    assert caught.value.status == (fault.status or 502)


def test_a_wrong_token_and_a_repository_out_of_sight_map_too(server: SandboxGitHub) -> None:
    wrong, right = (client_of(server.url, Auth.Token(t)) for t in ("wrong", server.token))
    with wrong, pytest.raises(BadCredentialsException):
        wrong.get_repo(server.repository)
    with right, pytest.raises(UnknownObjectException):
        right.get_repo("acme/none")


def test_an_app_gets_tokens_for_its_installation(
    server: SandboxGitHub, app_keys: tuple[str, str]
) -> None:
    app = server.state.add_app("mender", "acme", app_keys[1])
    made = server.state.add_installation(app, "acme", repositories=[server.repository])
    auth = Auth.AppAuth(app.id, app_keys[0])

    with GithubIntegration(auth=auth, base_url=server.url, retry=None) as integration:
        assert integration.get_app().slug == "mender"
        assert integration.get_repo_installation("acme", "alerts").id == made.id
        assert [one.id for one in integration.get_installations()] == [made.id]
    with client_of(server.url, auth.get_installation_auth(made.id)) as client:
        issue = client.get_repo(server.repository).create_issue("down", labels=["a"])

    assert issue.user.login == "mender[bot]"
    assert [label.name for label in issue.labels] == ["a"]


def test_an_app_with_another_key_or_an_old_jwt_is_401(
    server: SandboxGitHub, app_keys: tuple[str, str]
) -> None:
    app = server.state.add_app("mender", "acme", app_keys[1])
    auth = Auth.AppAuth(app.id, app_keys[0])
    with GithubIntegration(auth=auth, base_url=server.url, retry=None) as integration:
        clock = server.state.clock
        server.state.clock = lambda: clock() + timedelta(hours=1)
        with pytest.raises(GithubException) as old:
            integration.get_app()
        server.state.switches.check_jwt_times = False
        assert integration.get_app().slug == "mender"
        other = server.state.add_app("other", "acme", a_key_pair()[1])
    auth = Auth.AppAuth(other.id, app_keys[0])
    integration = GithubIntegration(auth=auth, base_url=server.url, retry=None)
    with integration, pytest.raises(GithubException) as wrong:
        integration.get_app()

    assert (old.value.status, wrong.value.status) == (401, 401)
