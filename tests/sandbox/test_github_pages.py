"""The pages of the sandbox GitHub that people read, and the command that serves them."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import requests

from sandbox import __main__ as command
from sandbox.github_server import SandboxGitHub
from sandbox.github_server.markdown_view import render
from tests.sandbox.github_calls import REPO, an_issue, ask, clock, github

__all__ = ["clock", "github"]  # fixtures, asked for by name


def page(server: SandboxGitHub, path: str) -> str:
    response = requests.get(f"{server.url}{path}", timeout=20)
    assert response.status_code == 200
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    return response.text


def test_the_list_shows_open_and_closed_apart(github: SandboxGitHub) -> None:
    an_issue(github, "one <b>", labels=["gpu"], assignees=["alice"])
    an_issue(github, "two")
    github.human("alice").close("acme/alerts", 2, "not_planned")

    opened, closed = (page(github, f"/acme/alerts/issues?state={s}") for s in ("open", "closed"))

    assert "one &lt;b&gt;" in opened
    assert "two" not in opened
    assert "Assigned to alice" in opened
    assert ">gpu</span>" in opened
    assert "two" in closed
    assert "Closed: not planned" in closed


def test_an_issue_shows_its_story_with_who_and_when(github: SandboxGitHub) -> None:
    an_issue(github, body="<!-- secret -->\n**hurts**", labels=["gpu"], assignees=["bob"])
    alice = github.human("alice")
    alice.comment("acme/alerts", 1, "looking")
    alice.close("acme/alerts", 1)
    alice.reopen("acme/alerts", 1)
    alice.edit("acme/alerts", 1, title="other")
    alice.lock("acme/alerts", 1, "spam")

    shown = page(github, "/acme/alerts/issues/1")

    for words in (
        "<strong>hurts</strong>",
        "opened this",
        "assigned <b>bob</b>",
        "looking",
        "closed this as <b>completed</b>",
        "reopened this",
        "changed the title <s>down</s>",
        "locked this as <b>spam</b>",
        "Mar 1, 2026, 12:00:00",
    ):
        assert words in shown, words
    assert "secret" not in shown


def test_pages_are_found_moved_or_missing(github: SandboxGitHub) -> None:
    github.state.add_repository("acme/away")
    an_issue(github)
    github.human("alice").transfer("acme/alerts", 1, "acme/away")

    assert "acme/alerts" in page(github, "/")
    assert "There are no open issues" in page(github, "/acme/alerts")
    assert "acme/alerts#1" in page(github, "/acme/alerts/issues/1")
    assert requests.get(f"{github.url}/acme/none/issues", timeout=20).status_code == 404
    assert requests.get(f"{github.url}/acme/alerts/issues/9", timeout=20).status_code == 404
    avatar = requests.get(f"{github.url}/_sandbox/avatars/alice.svg", timeout=20)
    assert avatar.headers["Content-Type"].startswith("image/svg+xml")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("|a|b|\n|-|-|\n|1|2|", "<table>"),
        ("<details><summary>More</summary>\n\n*x*\n\n</details>", "<summary>More</summary>"),
        ("<sub>small</sub>", "<sub>small</sub>"),
        ("see https://example.com/a?b=1&c=2.", 'href="https://example.com/a?b=1&amp;c=2"'),
        ("ask @alice", '<strong class="mention">@alice</strong>'),
        ("a@b.example", "a@b.example"),
        ("`@alice`", "<code>@alice</code>"),
        ("[x](https://example.com)", '<a href="https://example.com" rel="nofollow">x</a>'),
        ("a &amp; b <b>c</b>", "a &amp; b <b>c</b>"),
    ],
)
def test_markdown_looks_as_at_github(text: str, shown: str) -> None:
    assert shown in render(text)


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("<script>alert(1)</script>", "<script"),
        ("<details onclick=x>", "<details onclick"),
        ("a <img src=x onerror=y> b", "<img"),
        ("![p](http://evil.example/p.png)", "<img"),
        ("[x](javascript:alert(1))", "href"),
        ('[x](https://e.example/"onmouseover="y)', '"onmouseover="'),
        ("x <!-- hidden --> y", "hidden"),
        ("<!-- hidden\n\nstill hidden -->", "hidden"),
        ("<style>*{}</style>", "<style"),
    ],
)
def test_markdown_brings_nothing_harmful(text: str, never: str) -> None:
    assert never not in render(text)


def test_the_command_serves_keeps_its_token_to_itself_and_stops(tmp_path: Path) -> None:
    token, arguments = tmp_path / "token", ["--listen", "127.0.0.1:0", "--repo", "ops"]
    with subprocess.Popen(
        [sys.executable, "-m", "sandbox", "github", *arguments, "--token-file", str(token)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        killer = threading.Timer(60, process.kill)
        killer.start()
        try:
            line = process.stdout.readline()
            url = line.split()[-1].removesuffix("/acme/ops/issues")
            secret = token.read_text().strip()
            answer = requests.get(
                f"{url}/user", headers={"Authorization": f"Bearer {secret}"}, timeout=20
            )
            assert answer.json()["login"] == "nodemend-bot"
            assert secret not in line
            assert token.stat().st_mode & 0o077 == 0
            process.terminate()
            assert process.wait(20) == 0
        finally:
            killer.cancel()
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--listen", "nowhere"], "--listen: 'nowhere' is not HOST:PORT"),
        (["--token-file", "/nonexistent/token"], "--token-file: /nonexistent/token:"),
        (["--repo", "a/b/c"], "'a/b/c' is not a repository; write OWNER/NAME"),
    ],
)
def test_the_command_says_what_is_wrong_with_its_arguments(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["github", *arguments]) in (1, 2)
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_command_tells_about_itself(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.main([option])

    assert left.value.code == 0
    assert "nodemend-sandbox" in capsys.readouterr().out


def test_many_clients_at_once_get_numbers_without_gaps(github: SandboxGitHub) -> None:
    def write() -> None:
        for _ in range(10):
            an_issue(github)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    issues = ask(github, "GET", f"{REPO}/issues?per_page=100&direction=asc").json()
    assert [issue["number"] for issue in issues] == list(range(1, 81))
