"""The faults that tests switch on, and what they leave behind."""

import time

import pytest
import requests

from chassis.errors import PermanentError
from sandbox.github_server import Fault, FaultKind, SandboxGitHub
from tests.sandbox.github_calls import NOW, REPO, Clock, an_issue, ask, clock, github

__all__ = ["clock", "github"]  # fixtures, asked for by name
ISSUES = f"{REPO}/issues"


def titles(server: SandboxGitHub) -> list[str]:
    return [issue["title"] for issue in ask(server, "GET", ISSUES).json()]


@pytest.mark.parametrize(
    ("when", "written"), [("before", []), ("after", ["t"])], ids=["not written", "written"]
)
@pytest.mark.parametrize("kind", [FaultKind.ERROR, FaultKind.DROP, FaultKind.TIMEOUT])
def test_a_spoiled_answer_says_nothing_of_whether_the_write_took_effect(
    github: SandboxGitHub, kind: FaultKind, when: str, written: list[str]
) -> None:
    fault = {"kind": kind, "when": when, "method": "POST", "path": "/issues$", "count": 1}
    ask(github, "POST", "/_sandbox/faults", {**fault, "seconds": 0.1})

    if kind is FaultKind.ERROR:
        assert ask(github, "POST", ISSUES, {"title": "t"}).status_code == 502
    else:
        with pytest.raises(requests.ConnectionError):
            ask(github, "POST", ISSUES, {"title": "t"})

    [entry] = github.log()
    assert (entry.fault, entry.took_effect) == (kind, bool(written))
    assert entry.status == (502 if kind is FaultKind.ERROR else 0)
    assert titles(github) == written


def test_a_client_that_gave_up_finds_its_request_in_the_log(github: SandboxGitHub) -> None:
    github.state.faults.add(Fault(FaultKind.TIMEOUT, when="after", count=1, seconds=60))
    started = time.monotonic()

    with pytest.raises(requests.Timeout):
        ask(github, "POST", ISSUES, {"title": "t"}, timeout=0.5)

    assert [entry.took_effect for entry in github.log()] == [True]
    github.stop()
    assert time.monotonic() - started < 20
    github.start = lambda: None  # type: ignore[method-assign]
    github.stop = lambda: None  # type: ignore[method-assign]  # the fixture stops it again


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("headers", [True, False])
def test_a_primary_limit_has_its_headers_or_not(
    github: SandboxGitHub, status: int, headers: bool
) -> None:
    github.state.faults.add(
        Fault(FaultKind.PRIMARY_LIMIT, status=status, headers=headers, seconds=90, count=1)
    )

    response = ask(github, "GET", ISSUES)

    assert response.status_code == status
    assert response.json()["message"].startswith("API rate limit exceeded")
    assert response.headers.get("x-ratelimit-remaining") == ("0" if headers else None)
    reset = str(int(NOW.timestamp()) + 90)
    assert response.headers.get("x-ratelimit-reset") == (reset if headers else None)
    assert ask(github, "GET", ISSUES).status_code == 200


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("retry_after", [30, None])
def test_a_secondary_limit_may_say_when_to_come_back(
    github: SandboxGitHub, status: int, retry_after: int | None
) -> None:
    github.state.faults.add(
        Fault(FaultKind.SECONDARY_LIMIT, status=status, retry_after=retry_after)
    )

    response = ask(github, "POST", ISSUES, {"title": "t"})

    assert response.status_code == status
    assert response.json()["message"].startswith("You have exceeded a secondary rate limit")
    assert response.headers.get("retry-after") == (retry_after and str(retry_after))


def test_a_fault_hits_its_requests_as_often_as_it_says(github: SandboxGitHub, clock: Clock) -> None:
    number = github.state.faults.add(Fault(FaultKind.ERROR, method="GET", path="/user$", count=2))
    answers = [ask(github, "GET", "/user").status_code for _ in range(3)]
    github.state.faults.remove(number)
    github.state.faults.add(Fault(FaultKind.ERROR, status=500, until=NOW.replace(hour=13)))
    during = ask(github, "GET", "/user").status_code
    clock.forward(hours=1)

    assert (answers, during) == ([502, 502, 200], 500)
    assert ask(github, "GET", "/user").status_code == 200
    assert ask(github, "DELETE", "/_sandbox/faults").status_code == 204


def test_chance_is_the_same_with_the_same_seed(github: SandboxGitHub) -> None:
    def run() -> list[int]:
        github.state.faults.clear()
        github.state.faults.add(Fault(FaultKind.ERROR, probability=0.5, seed=7))
        return [ask(github, "GET", "/user").status_code for _ in range(16)]

    first = run()

    assert run() == first
    assert set(first) == {200, 502}


def test_latency_answers_rightly_and_later(github: SandboxGitHub) -> None:
    github.state.faults.add(Fault(FaultKind.LATENCY, seconds=0.3, count=1))
    started = time.monotonic()

    assert ask(github, "GET", "/user").status_code == 200
    assert time.monotonic() - started >= 0.3


def test_a_used_up_budget_is_refused_until_its_reset_where_limits_are_enforced(
    github: SandboxGitHub, clock: Clock
) -> None:
    github.state.switches.enforce_primary = True
    github.state.switches.core_limit = 2

    answers = [ask(github, "GET", ISSUES) for _ in range(3)]
    free = ask(github, "GET", "/rate_limit")
    clock.forward(hours=1)

    assert [answer.status_code for answer in answers] == [200, 200, 403]
    assert answers[2].headers["x-ratelimit-remaining"] == "0"
    assert free.json()["rate"] == {
        "limit": 2,
        "remaining": 0,
        "used": 2,
        "reset": int(NOW.timestamp()) + 3600,
    }
    assert ask(github, "GET", ISSUES).status_code == 200


def test_the_81st_content_of_a_minute_is_refused_and_pages_count_too(
    github: SandboxGitHub, clock: Clock
) -> None:
    github.state.switches.enforce_secondary = True
    robot = github.human(github.login)
    for number in range(79):
        robot.open("acme/alerts", f"n{number}")
    clock.forward(seconds=20)
    last, refused = (ask(github, "POST", ISSUES, {"title": "t"}) for _ in range(2))

    assert (last.status_code, refused.status_code) == (201, 403)
    assert refused.headers["retry-after"] == "40"
    clock.forward(seconds=40)
    assert ask(github, "POST", ISSUES, {"title": "t"}).status_code == 201


def test_thirty_searches_a_minute_where_limits_are_enforced(github: SandboxGitHub) -> None:
    github.state.switches.enforce_primary = True

    answers = [ask(github, "GET", "/search/issues?q=is:issue").status_code for _ in range(31)]

    assert answers == [200] * 30 + [403]


def test_the_log_is_read_by_http_in_lines_and_holds_no_token(github: SandboxGitHub) -> None:
    an_issue(github, body="<!-- marker -->\nmore", labels=["a"])
    lines = ask(github, "GET", "/_sandbox/log").text

    assert github.token not in lines
    [entry] = github.log()
    assert (entry.login, entry.method, entry.path) == (github.login, "POST", ISSUES)
    assert (entry.status, entry.took_effect, entry.number) == (201, True, 1)
    assert entry.fields == {
        "title": "down",
        "labels": ["a"],
        "body_line": "<!-- marker -->",
        "body_length": 20,
    }
    assert len(entry.body_sha256 or "") == 64
    assert lines.count("\n") == 1
    assert ask(github, "GET", "/_sandbox/log?after=1").text == ""


@pytest.mark.parametrize(
    ("order", "body"),
    [
        ("faults", {"kind": "meteor"}),
        ("faults", {"kind": "error", "path": "("}),
        ("switches", {"lag": 3}),
        ("repos", {"repository": "nameless"}),
        ("repos", {"repository": "a/b", "collaborators": {"x": "king"}}),
        ("human", {"login": "alice", "action": "fly", "repository": "acme/alerts"}),
        ("human", {"login": "alice", "action": "close", "repository": "no/where", "number": 1}),
        ("human", {"login": "alice", "action": "close", "repository": "acme/alerts", "number": 9}),
    ],
)
def test_a_wrong_order_is_told_what_is_wrong(
    github: SandboxGitHub, order: str, body: dict[str, object]
) -> None:
    response = ask(github, "POST", f"/_sandbox/{order}", body)

    assert response.status_code == 400
    assert response.json()["error"]


def test_a_fault_whose_pattern_is_none_is_refused(github: SandboxGitHub) -> None:
    with pytest.raises(PermanentError, match="no pattern"):
        github.state.faults.add(Fault(FaultKind.ERROR, path="("))


def test_orders_set_up_a_repository_a_token_and_let_people_act(github: SandboxGitHub) -> None:
    orders: list[tuple[str, dict[str, object]]] = [
        ("users", {"login": "carol"}),
        ("repos", {"repository": "acme/new", "collaborators": {"carol": "write"}}),
        ("tokens", {"token": "carols", "login": "carol"}),
        ("human", {"login": "carol", "action": "open", "repository": "acme/new", "values": ["t"]}),
        (
            "human",
            {
                "login": "carol",
                "action": "edit",
                "repository": "acme/new",
                "number": 1,
                "fields": {"title": "u"},
            },
        ),
        *(
            (
                "human",
                {
                    "login": "carol",
                    "action": action,
                    "repository": "acme/new",
                    "number": 1,
                    "values": values,
                },
            )
            for action, values in (
                ("assign", ["carol"]),
                ("unassign", ["carol"]),
                ("label", ["a"]),
                ("unlabel", ["a"]),
                ("comment", ["hello"]),
                ("lock", ["spam"]),
                ("unlock", []),
                ("close", ["not_planned"]),
                ("reopen", []),
            )
        ),
    ]
    for order, body in orders:
        assert ask(github, "POST", f"/_sandbox/{order}", body).status_code == 200, body

    timeline = ask(github, "GET", "/repos/acme/new/issues/1/timeline", token="carols").json()
    assert [entry["event"] for entry in timeline] == [
        "renamed",
        "assigned",
        "unassigned",
        "labeled",
        "unlabeled",
        "commented",
        "locked",
        "unlocked",
        "closed",
        "reopened",
    ]
    assert {entry["actor"]["login"] for entry in timeline} == {"carol"}
