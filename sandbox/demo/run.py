"""Plays the demo on a terminal: starts everything, tells each step in plain words, checks the end, stops everything."""

import contextlib
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from sandbox import programs
from sandbox.demo.feed import Feed, RealFeed, RecordedFeed
from sandbox.demo.story import (
    ASSIGNEE,
    REPOSITORY,
    Check,
    check_end,
    is_closed,
    is_filed,
    is_settled,
    issues,
)
from sandbox.github_server import SandboxGitHub

BREAKS = ("assign",)
_STEP_SECONDS = 60
_WEBHOOK_TOKEN = "demo-webhook-token"  # noqa: S105 -- opens only the demo


class DemoError(Exception):
    """A step did not show in time."""


def run(*, once: bool, break_what: str | None) -> int:
    """Play the demo. With `once`, check the end and return 0 or 1; else wait for Ctrl-C and return 0.

    `break_what` switches something off underneath (`assign`), to show that the check can fail.
    """
    if break_what is not None and break_what not in BREAKS:
        say(f"BREAK={break_what} is unknown; there is: {', '.join(BREAKS)}")
        return 2
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        with _stage(break_what) as (github, feed):
            _play(github, feed, stop)
            if once:
                return _judge(github)
            say("Everything keeps running: open the addresses above. Ctrl-C stops all of it.")
            stop.wait()
    except (DemoError, programs.ProgramError) as error:
        say(f"The demo failed: {error}")
        return 1
    say("Stopped.")
    return 0


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _stage(break_what: str | None) -> Iterator[tuple[SandboxGitHub, Feed]]:
    """Start GitHub, alerts2gh and the feed; stop them in the opposite order."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nodemend-demo-")))
        github = stack.enter_context(SandboxGitHub(repositories=(REPOSITORY,)))
        github.state.switches.assignees_off = break_what == "assign"
        say(f"1. An embedded GitHub runs at {github.url}/{REPOSITORY}/issues")
        port = programs.free_port()
        config, token_file = write_config(folder, github, port)
        service = stack.enter_context(programs.running(programs.start_alerts2gh(config, folder)))
        service.wait_until_ready(f"http://127.0.0.1:{port}/readyz")
        say(f"2. alerts2gh is ready at http://127.0.0.1:{port}/")
        feed = _feed(f"http://127.0.0.1:{port}/v1/webhook", token_file, folder)
        stack.callback(feed.stop)
        feed.start()
        say(f"3. Alerts come from {feed.description}.")
        yield github, feed


def _feed(webhook_url: str, token_file: Path, folder: Path) -> Feed:
    missing = [n for n in ("prometheus", "prometheus-alertmanager") if programs.find(n) is None]
    if not missing:
        return RealFeed(webhook_url, token_file, folder)
    for name in missing:
        say(f"   {name} is not installed ({programs.HOW_TO_GET[name]}).")
    return RecordedFeed(webhook_url, _WEBHOOK_TOKEN)


def write_config(folder: Path, github: SandboxGitHub, port: int) -> tuple[Path, Path]:
    """The configuration an admin would write, with the demo's short times; also its secrets' files."""
    (folder / "github-token").write_text(github.token)
    token_file = folder / "webhook-token"
    token_file.write_text(_WEBHOOK_TOKEN)
    config = {
        "serving": {"listen": f"127.0.0.1:{port}"},
        "auth": {"bearer_token_file": str(token_file)},
        "database": {"sqlite_file": str(folder / "alerts2gh.db")},
        "credentials": {"sandbox": {"base_url": github.url, "token_file": "github-token"}},
        "allowed_repositories": [REPOSITORY],
        "limits": {"writes_per_second": 20},
        "policy": {"close_after": "1s", "reorder_window": "1s"},
        "route": {
            "repository": REPOSITORY,
            "issue_labels": ["severity/{{ labels.severity }}"],
            "assignees": [{"static": {"logins": [ASSIGNEE]}}],
        },
    }
    path = folder / "alerts2gh.yaml"
    path.write_text(yaml.safe_dump(config))
    return path, token_file


def _play(github: SandboxGitHub, feed: Feed, stop: threading.Event) -> None:
    feed.break_gpu()
    say("4. A GPU on node gpu-n1 stops allocating memory.")
    _await("an issue", lambda: is_filed(github), stop)
    issue = issues(github)[-1]
    address = f"{github.url}/{REPOSITORY}/issues/{issue.number}"
    say(f"   Issue #{issue.number} is open: {issue.title}\n   {address}")
    _await("an assignment", lambda: is_settled(github), stop)
    who = ", ".join(issues(github)[-1].assignees) or "nobody"
    say(f"   It is assigned to {who}.")
    feed.heal_gpu()
    say("5. The GPU works again.")
    _await("the issue to close", lambda: is_closed(github), stop)
    say("   The alert resolved, and the issue closed itself.")
    feed.break_gpu()
    say("6. The GPU breaks again.")
    _await("the issue to reopen", lambda: is_filed(github), stop)
    say(f"   The same issue is open again, with its history: {address}")


def _await(what: str, shown: Callable[[], bool], stop: threading.Event) -> None:
    deadline = time.monotonic() + _STEP_SECONDS
    while not shown():
        if stop.is_set():
            raise DemoError("stopped before the story was over")
        if time.monotonic() > deadline:
            raise DemoError(f"waited {_STEP_SECONDS} s for {what}, and it did not come")
        time.sleep(0.05)


def _judge(github: SandboxGitHub) -> int:
    say("7. What GitHub's own log says of it:")
    checks = check_end(github)
    for check in checks:
        say(_line(check))
    failed = sum(not c.holds for c in checks)
    say("All of it holds." if not failed else f"{failed} of {len(checks)} do not hold.")
    return 1 if failed else 0


def _line(check: Check) -> str:
    return f"   [{'ok' if check.holds else 'NO'}] {check.rule} (found: {check.found})"
