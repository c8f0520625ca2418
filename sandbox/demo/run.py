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
from sandbox.demo.cluster_feed import ClusterFeed
from sandbox.demo.feed import Feed, RecordedFeed
from sandbox.demo.monitoring import PROGRAMS
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

_CLUSTER_BREAKS = ("condition", "metric")
BREAKS = ("assign", *_CLUSTER_BREAKS)
"""Nobody can be assigned; the nodes' agents lie; the exporter sees no node."""
_STEP_SECONDS = 60
_SIGN_SECONDS = 15
_WRONG_USE = 2
_WEBHOOK_TOKEN = "demo-webhook-token"  # noqa: S105 -- opens only the demo


class DemoError(Exception):
    """A step did not show in time."""


class StoppedError(Exception):
    """Ctrl-C, before the story was over."""


class Story:
    """Says numbered steps, and waits for what they promise."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._number = 0

    def step(self, text: str) -> None:
        """Say it. Raises StoppedError: the demo was stopped meanwhile."""
        if self._stop.is_set():
            raise StoppedError
        self._number += 1
        say(f"{self._number}. {text}")

    def wait_for(self, what: str, shown: Callable[[], bool], seconds: float) -> None:
        """Return once it shows.

        Raises:
            DemoError: It does not in time.
            StoppedError: The demo was stopped meanwhile.
        """
        deadline = time.monotonic() + seconds
        while not shown():
            if time.monotonic() > deadline:
                raise DemoError(f"waited {seconds} s for {what}, and it did not come")
            if self._stop.wait(0.05):
                raise StoppedError


def run(*, once: bool, break_what: str | None) -> int:
    """Play the demo. With `once`, check the end and return 0 or 1; else wait for Ctrl-C and return 0.

    `break_what` switches something off underneath (one of BREAKS), to show that the check can fail.
    """
    missing = [name for name in PROGRAMS if programs.find(name) is None]
    if mistake := _mistake(break_what, missing):
        say(mistake)
        return _WRONG_USE
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    story = Story(stop)
    try:
        with _stage(story, break_what, missing) as (github, feed):
            failure = _play(story, github, feed)
            if once:
                failed = _judge(story, github, feed)
                return 1 if failed or failure else 0
            if failure:
                return 1
            say("Everything keeps running: open the addresses above. Ctrl-C stops all of it.")
            stop.wait()
    except StoppedError:
        say("Stopped before the story was over.")
        return 1 if once else 0
    except programs.ProgramError as error:
        say(f"The demo failed: {error}")
        return 1
    say("Stopped.")
    return 0


def _mistake(break_what: str | None, missing: list[str]) -> str | None:
    if break_what is not None and break_what not in BREAKS:
        return f"BREAK={break_what} is unknown; there is: {', '.join(BREAKS)}"
    if break_what in _CLUSTER_BREAKS and missing:
        return f"BREAK={break_what} needs {' and '.join(missing)}: {_how_to_get(missing)}"
    return None


def _how_to_get(names: list[str]) -> str:
    return "; ".join(programs.HOW_TO_GET[name] for name in names)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _stage(
    story: Story, break_what: str | None, missing: list[str]
) -> Iterator[tuple[SandboxGitHub, Feed]]:
    """Start GitHub, alerts2gh and the feed; stop them in the opposite order."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nodemend-demo-")))
        github = stack.enter_context(SandboxGitHub(repositories=(REPOSITORY,)))
        github.state.switches.assignees_off = break_what == "assign"
        story.step(f"An embedded GitHub runs at {github.url}/{REPOSITORY}/issues")
        port = programs.free_port()
        config, token_file = write_config(folder, github, port)
        service = stack.enter_context(programs.running(programs.start_alerts2gh(config, folder)))
        webhook_url = f"http://127.0.0.1:{port}/v1/webhook"
        feed: Feed = (
            RecordedFeed(webhook_url, _WEBHOOK_TOKEN)
            if missing
            else ClusterFeed(webhook_url, token_file, folder, break_what)
        )
        stack.callback(feed.stop)
        feed.launch()
        service.wait_until_ready(f"http://127.0.0.1:{port}/readyz", _STEP_SECONDS)
        story.step(f"alerts2gh is ready at http://127.0.0.1:{port}/")
        for name in missing:
            say(f"   {name} is not installed ({programs.HOW_TO_GET[name]}).")
        feed.wait(story.step)
        yield github, feed


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


def _play(story: Story, github: SandboxGitHub, feed: Feed) -> str | None:
    """Tell the story; why it ended early, or None."""
    try:
        _tell(story, github, feed)
    except DemoError as error:
        say(f"The demo failed: {error}")
        return str(error)
    return None


def _tell(story: Story, github: SandboxGitHub, feed: Feed) -> None:
    feed.break_gpu()
    story.step(f"A GPU on node {feed.node} stops allocating memory.")
    _await_signs(story, feed, broken=True)
    story.wait_for("an issue", lambda: is_filed(github), _STEP_SECONDS)
    issue = issues(github)[-1]
    address = f"{github.url}/{REPOSITORY}/issues/{issue.number}"
    say(f"   Issue #{issue.number} is open: {issue.title}\n   {address}")
    story.wait_for("an assignment", lambda: is_settled(github), _STEP_SECONDS)
    who = ", ".join(issues(github)[-1].assignees) or "nobody"
    say(f"   It is assigned to {who}.")
    feed.heal_gpu()
    story.step("The GPU works again.")
    _await_signs(story, feed, broken=False)
    story.wait_for("the issue to close", lambda: is_closed(github), _STEP_SECONDS)
    say("   The alert resolved, and the issue closed itself.")
    feed.break_gpu()
    story.step("The GPU breaks again.")
    _await_signs(story, feed, broken=True)
    story.wait_for("the issue to reopen", lambda: is_filed(github), _STEP_SECONDS)
    say(f"   The same issue is open again, with its history: {address}")


def _await_signs(story: Story, feed: Feed, *, broken: bool) -> None:
    for sign in feed.signs(broken=broken):
        story.wait_for(sign.what, sign.shown, _SIGN_SECONDS)
        say(f"   {sign.told}")


def _judge(story: Story, github: SandboxGitHub, feed: Feed) -> int:
    """Say what holds at the end; how many things do not."""
    story.step("What their own records say of it:")
    checks = (*feed.checks(), *check_end(github))
    for check in checks:
        say(_line(check))
    failed = sum(not c.holds for c in checks)
    say("All of it holds." if not failed else f"{failed} of {len(checks)} do not hold.")
    return failed


def _line(check: Check) -> str:
    return f"   [{'ok' if check.holds else 'NO'}] {check.rule} (found: {check.found})"
