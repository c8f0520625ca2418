"""What the adapter makes of a network and of servers that do not behave as GitHub."""

import itertools
import logging
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alerts2gh.github_tracker import GitHubTracker
from alerts2gh.github_tracker.client import MAX_PAGES
from alerts2gh.github_tracker.connection import MAX_BODY, _SentBody
from alerts2gh.incident import Target
from alerts2gh.ports import Answer, Outcome
from tests.alerts2gh.github_peers import (
    TARGET,
    TOKEN,
    Script,
    ScriptedServer,
    drops,
    echoes,
    says,
    sends,
    tracking,
)
from tests.chassis.certificates import an_authority

ISSUE = {
    "number": 7,
    "html_url": "https://github.example/acme/alerts/issues/7",
    "title": "disk",
    "state": "open",
    "created_at": "2026-11-30T12:00:00Z",
    "updated_at": "2026-11-30T12:00:00Z",
}
Ask = Callable[[GitHubTracker], Answer[object]]


def create(tracker: GitHubTracker) -> Answer[object]:
    return tracker.create_issue(TARGET, "disk", "full", [], None)


def read(tracker: GitHubTracker) -> Answer[object]:
    return tracker.get_issue(TARGET, 7)


def list_all(tracker: GitHubTracker) -> Answer[object]:
    return tracker.list_issues(TARGET, label="alerts2gh", since=None)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("ask", [create, read])
def test_a_refused_connection_never_left(tmp_path: Path, ask: Ask) -> None:
    with tracking(tmp_path, f"http://127.0.0.1:{closed_port()}") as (tracker, witness):
        answer = ask(tracker)

    assert (answer.outcome, answer.status) == (Outcome.UNREACHABLE, None)
    assert answer.text == "no connection: Connection refused"
    assert [status for _, status in witness.seen] == [None]


def test_an_unknown_host_never_left(tmp_path: Path) -> None:
    with tracking(tmp_path, "http://nowhere.invalid") as (tracker, _):
        assert create(tracker).outcome is Outcome.UNREACHABLE


def test_a_certificate_of_a_stranger_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    authority = an_authority(tmp_path / "ca")
    with ScriptedServer(
        [says(201, ISSUE)], tls=server_context(authority.issue("github"))
    ) as server:
        with tracking(tmp_path, server.url) as (tracker, _):
            refused = create(tracker)
        with tracking(tmp_path, server.url, ca_file=authority.file) as (tracker, _):
            trusted = create(tracker)

    assert refused.outcome is Outcome.UNREACHABLE
    assert refused.text.startswith("TLS refused: ")
    assert trusted.outcome is Outcome.DONE
    assert len(server.requests) == 1


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return context


def test_a_server_that_does_not_speak_tls_never_got_the_request(tmp_path: Path) -> None:
    with ScriptedServer([drops]) as server:
        url = f"https://127.0.0.1:{server.port}"
        with tracking(tmp_path, url, timeout=0.2) as (tracker, _):
            answer = create(tracker)

    assert answer.outcome is Outcome.UNREACHABLE


def test_a_ca_file_that_has_vanished_is_told(tmp_path: Path) -> None:
    authority = an_authority(tmp_path / "ca")
    with tracking(tmp_path, "https://127.0.0.1:1", ca_file=authority.file) as (tracker, _):
        authority.file.unlink()
        answer = create(tracker)

    assert answer.outcome is Outcome.UNREACHABLE
    assert "CA" in answer.text


def test_a_proxy_that_is_down_never_let_the_request_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    with tracking(tmp_path, "http://github.example") as (tracker, _):
        assert create(tracker).outcome is Outcome.UNREACHABLE


def test_a_body_that_was_only_looked_through_counts_as_sent() -> None:
    body = _SentBody(b"{}")
    assert not body.asked_for
    assert list(body) == [b"{}"]
    assert body.asked_for


WRONG = {"number": "seven"}
GARBLED: list[tuple[str, Script]] = [
    ("the connection closes without an answer", drops),
    ("the answer is not HTTP", sends(b"SSH-2.0-OpenSSH_9.2\r\n")),
    ("the answer ends in its headers", sends(b"HTTP/1.1 201 Created\r\nContent-Le")),
    (
        "the body is shorter than it said",
        sends(b"HTTP/1.1 201 Created\r\nContent-Length: 900\r\n\r\n{"),
    ),
    ("the body is no gzip though it says so", says(201, "{}", Content_Encoding="gzip")),
    ("a chunk is broken", sends(b"HTTP/1.1 201 C\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n")),
    ("a proxy's page with status 200", says(200, "<html>log in</html>")),
    ("an empty body", says(201)),
    ("JSON of another shape", says(201, [1, 2])),
    ("an issue with a wrong field", says(201, ISSUE | WRONG)),
    ("an issue without a date", says(201, ISSUE | {"created_at": "yesterday"})),
    ("an issue in a third state", says(201, ISSUE | {"state": "ajar"})),
    ("more than any answer of GitHub", says(201, b" " * (MAX_BODY + 1))),
    ("a rate header that PyGithub can't read", says(201, ISSUE, X_RateLimit_Reset="soon")),
    ("a bomb of brackets", says(201, "[" * 100_000)),
]


@pytest.mark.parametrize("script", [pytest.param(s, id=name) for name, s in GARBLED])
def test_after_a_garbled_answer_a_create_is_unknown_and_a_read_is_not(
    tmp_path: Path, script: Script
) -> None:
    with ScriptedServer([script]) as server, tracking(tmp_path, server.url) as (tracker, _):
        assert create(tracker).outcome is Outcome.UNKNOWN
        assert read(tracker).outcome is Outcome.UNREACHABLE
        assert list_all(tracker).outcome is Outcome.UNREACHABLE
        assert len(server.requests) == 3


def test_a_silent_server_is_left_after_the_time_out(tmp_path: Path) -> None:
    with (
        ScriptedServer([drops]) as server,
        tracking(tmp_path, server.url, timeout=0.2) as (tracker, _),
    ):
        server._scripts = [server.hold]
        answer = create(tracker)

    assert (answer.outcome, answer.text) == (Outcome.UNKNOWN, "no answer within the time-out")


def test_a_server_that_trickles_is_left_after_the_time_out_too(tmp_path: Path) -> None:
    """Each read comes in time, the whole does not; the clock is moved on by each look at it."""
    start = datetime(2026, 11, 30, 12, tzinfo=UTC)
    ticks = itertools.count()
    body = b" " * 1_000_000
    with (
        ScriptedServer([says(201, body)]) as server,
        tracking(tmp_path, server.url, now=lambda: start + timedelta(seconds=next(ticks))) as (
            tracker,
            _,
        ),
    ):
        answer = create(tracker)

    assert answer.outcome is Outcome.UNKNOWN
    assert answer.text == "the answer did not end within the time-out"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_inside_github_is_followed_with_method_body_and_token(
    tmp_path: Path, status: int
) -> None:
    with ScriptedServer([]) as server, tracking(tmp_path, f"{server.url}/api/v3") as (tracker, _):
        elsewhere = f"{server.url}/api/v3/repositories/5/issues"
        server._scripts = [says(status, {"message": "Moved"}, Location=elsewhere), says(201, ISSUE)]
        answer = create(tracker)
        first, second = server.requests

    assert answer.outcome is Outcome.DONE
    assert first.startswith(b"POST /api/v3/repos/acme/alerts/issues HTTP/1.1")
    assert second.startswith(b"POST /api/v3/repositories/5/issues HTTP/1.1")
    assert first.partition(b"\r\n")[2] == second.partition(b"\r\n")[2]
    assert f"Authorization: token {TOKEN}".encode() in second


def test_a_redirected_list_keeps_its_filters(tmp_path: Path) -> None:
    with ScriptedServer([]) as server, tracking(tmp_path, server.url) as (tracker, _):
        server._scripts = [says(301, Location="/repositories/5/issues"), says(200, [])]
        answer = list_all(tracker)

    assert answer.value == ()
    assert b"labels=alerts2gh" in server.requests[1]


@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.1:{port}/x", "//127.0.0.1:{port}/x", "https://evil.example/x", "", "/outside"],
)
def test_the_token_goes_to_no_other_place(tmp_path: Path, location: str) -> None:
    with (
        ScriptedServer([says(200, ISSUE)]) as other,
        ScriptedServer([says(301, Location=location.format(port=other.port))]) as server,
        tracking(tmp_path, f"{server.url}/api") as (tracker, _),
    ):
        answer = create(tracker)

        assert answer.outcome is Outcome.MOVED
        assert "not followed" in answer.text
        assert (len(server.requests), other.requests) == (1, [])


def test_redirects_in_a_circle_end(tmp_path: Path) -> None:
    with ScriptedServer([]) as server, tracking(tmp_path, server.url) as (tracker, _):
        server._scripts = [says(301, Location=f"{server.url}/repositories/5/issues")]
        answer = create(tracker)

        assert answer.outcome is Outcome.MOVED
        assert len(server.requests) == 4


def test_a_202_is_neither_waited_for_nor_asked_again(tmp_path: Path) -> None:
    with (
        ScriptedServer([says(202, ISSUE)]) as server,
        tracking(tmp_path, server.url) as (tracker, _),
    ):
        assert read(tracker).outcome is Outcome.DONE
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [403, 429, 500, 502, 503])
@pytest.mark.parametrize("ask", [create, read])
def test_no_failure_is_tried_again_by_itself(tmp_path: Path, status: int, ask: Ask) -> None:
    slow = says(status, {"message": "no"}, Retry_After="1")
    with ScriptedServer([slow]) as server, tracking(tmp_path, server.url) as (tracker, witness):
        answer = ask(tracker)

        assert len(server.requests) == 1
        assert answer.wait == timedelta(seconds=1)
        assert [seen for _, seen in witness.seen] == [status]


def test_a_rotated_token_counts_with_the_next_request(tmp_path: Path) -> None:
    with (
        ScriptedServer([says(200, ISSUE)]) as server,
        tracking(tmp_path, server.url) as (tracker, _),
    ):
        read(tracker)
        (tmp_path / "token").write_text("another-token\n")
        read(tracker)

    assert [TOKEN.encode() in request for request in server.requests] == [True, False]
    assert b"Authorization: token another-token\r\n" in server.requests[1]


@pytest.mark.parametrize("content", ["two words", "two\nlines", "t\u00f6ken"])
def test_a_file_with_more_than_a_token_is_not_sent(tmp_path: Path, content: str) -> None:
    with (
        ScriptedServer([drops]) as server,
        tracking(tmp_path, server.url, token=content) as (tracker, _),
    ):
        answer = create(tracker)

        assert answer.outcome is Outcome.UNAUTHORISED
        assert "token alone" in answer.text
        assert content not in answer.text
        assert server.requests == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.create_issue(Target("main", "acme", ".."), "t", "b", [], None),
        lambda t: t.get_issue(Target("main", ".", "alerts"), 7),
        lambda t: t.list_issues(Target("main", "acme", ""), label="x", since=None),
        lambda t: t.remove_label(TARGET, 7, ".."),
        lambda t: t.remove_label(TARGET, 7, "\ud800"),
        lambda t: t.read_file(TARGET, "docs/../../issues"),
        lambda t: t.assignable(TARGET, ""),
        lambda t: t.team_members("acme", ".."),
    ],
)
def test_a_name_that_would_lead_to_another_endpoint_is_not_sent(tmp_path: Path, ask: Ask) -> None:
    with ScriptedServer([says(200, [])]) as server, tracking(tmp_path, server.url) as (tracker, _):
        answer = ask(tracker)

        assert answer.outcome is Outcome.INVALID
        assert answer.text.startswith("not sent: ")
        assert server.requests == []


def test_names_are_quoted(tmp_path: Path) -> None:
    with ScriptedServer([says(200, [])]) as server, tracking(tmp_path, server.url) as (tracker, _):
        tracker.remove_label(TARGET, 7, "a/b c?d=é")

    line = server.requests[0].split(b"\r\n")[0]
    assert line == b"DELETE /repos/acme/alerts/issues/7/labels/a%2Fb%20c%3Fd%3D%C3%A9 HTTP/1.1"


@pytest.mark.parametrize(
    ("message", "outcome"),
    [("Label does not exist", Outcome.DONE), ("Not Found", Outcome.NOT_FOUND)],
)
def test_a_label_that_is_not_there_is_as_good_as_removed(
    tmp_path: Path, message: str, outcome: Outcome
) -> None:
    """A worker must not take a missing label for a missing issue."""
    script = says(404, {"message": message})
    with ScriptedServer([script]) as server, tracking(tmp_path, server.url) as (tracker, _):
        answer = tracker.remove_label(TARGET, 7, "gpu")

    assert (answer.outcome, answer.value, answer.text) == (outcome, None, message)


def test_pages_follow_the_link_whatever_its_query(tmp_path: Path) -> None:
    with ScriptedServer([]) as server, tracking(tmp_path, f"{server.url}/api/v3") as (tracker, _):
        link = (
            f'<{server.url}/api/v3/repositories/5/issues?after=Y3Vy%3D%3D&per_page=100>; rel="next"'
        )
        pull = ISSUE | {"number": 9, "pull_request": {}}
        server._scripts = [says(200, [ISSUE, pull], Link=link), says(200, [ISSUE | {"number": 8}])]
        answer = tracker.list_issues(TARGET, label="x", since=None)

    assert [issue.number for issue in answer.value or ()] == [7, 8]
    assert b"after=Y3Vy%3D%3D" in server.requests[1].split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        (says(502), Outcome.UNREACHABLE),
        (says(404), Outcome.NOT_FOUND),
        (drops, Outcome.UNREACHABLE),
    ],
)
def test_a_list_that_breaks_off_is_no_list(tmp_path: Path, last: Script, outcome: Outcome) -> None:
    with ScriptedServer([]) as server, tracking(tmp_path, server.url) as (tracker, _):
        link = f'<{server.url}/repositories/5/issues?page=2>; rel="next"'
        server._scripts = [says(200, [ISSUE], Link=link), last]
        answer = list_all(tracker)

    assert (answer.outcome, answer.value) == (outcome, None)


def test_a_next_page_elsewhere_is_not_fetched(tmp_path: Path) -> None:
    script = says(200, [ISSUE], Link='<https://evil.example/x>; rel="next"')
    with ScriptedServer([script]) as server, tracking(tmp_path, server.url) as (tracker, _):
        answer = list_all(tracker)

        assert (answer.outcome, answer.value) == (Outcome.UNREACHABLE, None)
        assert len(server.requests) == 1


def test_a_page_that_is_its_own_successor_ends_the_list(tmp_path: Path) -> None:
    with ScriptedServer([]) as server, tracking(tmp_path, server.url) as (tracker, _):
        link = f'<{server.url}/repositories/5/issues?page=2>; rel="next"'
        server._scripts = [says(200, [ISSUE], Link=link)]
        answer = list_all(tracker)

        assert answer.outcome is Outcome.DONE
        assert len(server.requests) == 2


def test_a_list_without_end_is_cut_and_says_so(tmp_path: Path) -> None:
    with ScriptedServer([]) as server, tracking(tmp_path, server.url) as (tracker, _):
        url = f"{server.url}/repositories/5/issues"
        server._scripts = [
            says(200, [ISSUE], Link=f'<{url}?page={page}>; rel="next"')
            for page in range(MAX_PAGES + 5)
        ]
        answer = list_all(tracker)

        assert (answer.outcome, answer.text) == (Outcome.DONE, f"cut after {MAX_PAGES} pages")
        assert len(server.requests) == MAX_PAGES


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"encoding": "none", "content": ""}, "GitHub did not send the content"),
        ({"encoding": "base64", "content": "%%%a"}, "content is not base64"),
        ({"encoding": "base64"}, "content is missing"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(
    tmp_path: Path, document: dict[str, str], text: str
) -> None:
    script = says(200, document)
    with ScriptedServer([script]) as server, tracking(tmp_path, server.url) as (tracker, _):
        answer = tracker.read_file(TARGET, "CODEOWNERS")

    assert (answer.outcome, answer.value) == (Outcome.INVALID, None)
    assert text in answer.text


LEAKS: list[tuple[str, Script]] = [
    *[
        (f"a {status} that shows the request", echoes(status))
        for status in (200, 401, 403, 404, 422, 502)
    ],
    ("a refusal that names the token", says(403, {"message": f"{TOKEN} may not"})),
    ("a drop", drops),
    ("a page with the token", says(200, f"<html>{TOKEN}</html>")),
    ("a redirect with the token", says(301, Location=f"https://{TOKEN}@evil.example/{TOKEN}")),
    ("no HTTP but the token", sends(f"{TOKEN}\r\n".encode())),
    ("a header line with the token", sends(f"HTTP/1.1 200 {TOKEN}\r\n{TOKEN}\r\n\r\n".encode())),
]


@pytest.mark.parametrize("script", [pytest.param(s, id=name) for name, s in LEAKS])
@pytest.mark.parametrize("ask", [create, read, list_all])
def test_the_token_is_in_no_text_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, script: Script, ask: Ask
) -> None:
    with ScriptedServer([script]) as server, tracking(tmp_path, server.url) as (tracker, witness):
        answer = ask(tracker)

    # Libraries are heard from warnings on: chassis.telemetry sees to that.
    library = [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    ]
    told = [repr(answer), witness.log.getvalue(), repr(witness.responses), *library]
    assert any(TOKEN.encode() in request for request in server.requests)
    assert [text for text in told if TOKEN in text] == []
