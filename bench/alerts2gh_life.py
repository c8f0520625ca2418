"""GitHub calls of one incident's life, and the time to drain 2,000 incidents, beside alertmanager-to-github.

A life: an alert fires alone, a second one joins, both resolve, the issue closes. Calls are those in the sandbox GitHub's
own log. Both programs get the same webhooks from the same sender, in the same run. The other one is taken from the
environment variable A2G_BINARY (https://github.com/pfnet-research/alertmanager-to-github).
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench._alerts2gh import alert, alerts2gh, load_average, say, webhook
from bench._webhook_load import Orders, Seen, write_bodies
from sandbox import programs
from sandbox.github_server import Fault, FaultKind, SandboxGitHub
from sandbox.github_server.request_log import LogEntry

LIVES = 4
INCIDENTS = 2000
REPOSITORIES = 20
ANSWERS_IN = 0.2
DRAINS = 1
SENDERS = 100
"""Webhooks under way at once: as many as GitHub allows requests at once."""
PATIENCE = 240
NOT_MEASURED = "not measured: set A2G_BINARY"
BARE = {"comment_on": "nothing", "close_after": "1s", "reorder_window": "1s"}
USUAL = {"close_after": "1s", "reorder_window": "1s"}
"""Only the waiting is shortened; it changes no call."""
PEER = "alertmanager-to-github"

Start = Callable[[Path, SandboxGitHub], AbstractContextManager[int]]
"""Starts a program that files to this GitHub; the port it takes webhooks on."""


@dataclass(frozen=True)
class Life:
    """The calls of the median life; `first_more` is how many more the first one after a start took."""

    calls: float
    searches: float
    kinds: str
    first_more: float


@dataclass(frozen=True)
class Drain:
    """How long 2,000 incidents took; `at_once` is the most requests that GitHub saw under way at once."""

    acknowledged: float
    filed: float
    calls: int
    at_once: int
    issues: int


def run() -> str:
    """Both tables, with the ratio of each row to the other program's."""
    binary = os.environ.get("A2G_BINARY")
    before = load_average()
    lives = _lives(binary)
    drains = _drains(binary)
    notes = f"\nLoad average before {before}, after {load_average()}.\n"
    if binary is None:
        notes += f"{PEER}: {NOT_MEASURED}.\n"
    return _life_table(lives) + "\n" + _drain_table(drains) + notes


# One life


def _lives(binary: str | None) -> dict[str, Life]:
    found = {
        "alerts2gh, no assignment, no comments": _life(_ours(policy=BARE)),
        "alerts2gh, as it comes": _life(_ours(policy=USUAL)),
    }
    if binary is not None:
        found[PEER] = _life(_peer(binary))
    return found


def _life(start: Start) -> Life:
    with tempfile.TemporaryDirectory() as name, SandboxGitHub() as github:
        github.state.switches.search_needs_kind = False
        with start(Path(name), github) as port:
            lives = [_live(github, port, f"life-{number}") for number in range(LIVES)]
    further = lives[1:]
    calls = statistics.median(len(each) for each in further)
    searches = statistics.median(sum("/search/" in e.path for e in each) for each in further)
    kinds = ", ".join(f"{entry.method} {_template(entry.path)}" for entry in further[-1])
    return Life(calls, searches, kinds, len(lives[0]) - calls)


def _live(github: SandboxGitHub, port: int, group: str) -> Sequence[LogEntry]:
    """The calls of one life."""
    seen = len(github.log())
    both = [alert(0, group), alert(1, group)]
    over = [alert(0, group, firing=False), alert(1, group, firing=False)]
    for alerts, state, members in ((both[:1], "open", 1), (both, "open", 2), (over, "closed", 0)):
        _post(port, webhook(group, alerts))
        _await(lambda s=state, m=members: _shows(github, group, s, m))  # type: ignore[misc]  # defaults bind the loop's values
        _await_silence(github)
    return github.log(after=seen)


def _shows(github: SandboxGitHub, group: str, state: str, members: int) -> bool:
    """Whether the group's issue is in this state and its body names as many nodes."""
    issues = _issues(github, "acme/alerts")
    mine = [issue for issue in issues if group in f"{issue.title}{issue.body}"]
    if len(mine) != 1 or mine[0].state != state:
        return False
    return members == 0 or all(f"gpu-n{n:04d}" in (mine[0].body or "") for n in range(members))


def _issues(github: SandboxGitHub, repository: str) -> Sequence[Any]:
    group = str(github.state.repository(repository).id)
    with github.state.lock:
        return list(github.state.issues.in_group(group))


def _await_silence(github: SandboxGitHub, seconds: float = 0.7) -> None:
    """Until nothing has been asked for a while: what a step still does must not count for the next."""
    count, since = len(github.log()), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.02)
        if len(github.log()) != count:
            count, since = len(github.log()), time.monotonic()


def _template(path: str) -> str:
    kept = {"repos", "search", "issues", "comments", "labels", "assignees", "user"}
    return "/".join(
        part if part in kept else "…" for part in path.removeprefix("/api/v3").strip("/").split("/")
    )


def _life_table(lives: Mapping[str, Life]) -> str:
    peer = lives.get(PEER)
    head = (
        "| one life: fire, join, resolve, close | GitHub calls | of them searches | ratio | first life more |\n"
        "|---|---:|---:|---:|---:|\n"
    )
    rows = [
        f"| {name} | {life.calls:g} | {life.searches:g} | {_ratio(life.calls, peer.calls if peer else None)}"
        f" | {life.first_more:+g} |"
        for name, life in lives.items()
    ]
    kinds = [f"- {name}: {life.kinds}" for name, life in lives.items()]
    return head + "\n".join(rows) + "\n\n" + "\n".join(kinds) + "\n"


# A drain


def _drains(binary: str | None) -> dict[str, Drain]:
    starts = {"alerts2gh": _ours(policy=USUAL, route={"repository": "acme/{{ labels.team }}"})}
    if binary is not None:
        starts[PEER] = _peer(binary)
    found = {}
    for name, start in starts.items():
        say(f"{name}: {INCIDENTS} incidents, GitHub answers in {ANSWERS_IN * 1000:.0f} ms")
        drains = sorted((_drain(start, name) for _ in range(DRAINS)), key=lambda each: each.filed)
        found[name] = drains[len(drains) // 2]
    return found


def _drain(start: Start, name: str) -> Drain:
    repositories = [f"acme/team-{number}" for number in range(REPOSITORIES)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        github = stack.enter_context(SandboxGitHub(repositories=repositories))
        github.state.switches.search_needs_kind = False
        port = stack.enter_context(start(folder, github))
        github.state.faults.add(Fault(FaultKind.LATENCY, seconds=ANSWERS_IN))
        bodies = [_body(number) for number in range(INCIDENTS)]
        begun = time.monotonic()
        seen = _send(folder, port, bodies)
        acknowledged = time.monotonic() - begun
        if seen.failed:
            say(f"{name}: {seen.failed} webhooks failed, the first with {seen.first_failure}")
        _await(lambda: _filed(github) >= INCIDENTS)
        filed = time.monotonic() - begun
        entries = github.log()
        return Drain(acknowledged, filed, len(entries), _at_once(entries), _filed(github))


def _body(number: int) -> bytes:
    group, team = f"incident-{number}", f"team-{number % REPOSITORIES}"
    one = alert(0, group)
    one["labels"] |= {"team": team, "atg_owner": "acme", "atg_repo": team}
    whole = json.loads(webhook(group, [one]))
    whole["commonLabels"] |= {"team": team, "atg_owner": "acme", "atg_repo": team}
    return json.dumps(whole).encode()


def _send(folder: Path, port: int, bodies: Sequence[bytes]) -> Seen:
    names = write_bodies(folder, "alerts", bodies)
    orders = Orders(port, {"alerts": names}, ["alerts"] * len(names), SENDERS)
    sender = subprocess.run(
        [sys.executable, "-m", "bench._webhook_load"],
        input=json.dumps(asdict(orders)),
        capture_output=True,
        text=True,
        check=True,
    )
    return Seen(**json.loads(sender.stdout))


def _filed(github: SandboxGitHub) -> int:
    return sum(len(_issues(github, f"acme/team-{number}")) for number in range(REPOSITORIES))


def _at_once(entries: Sequence[LogEntry]) -> int:
    """The most requests that came within the time one takes."""
    times = sorted(entry.at.timestamp() for entry in entries)
    first, most = 0, 0
    for last, at in enumerate(times):
        while at - times[first] > ANSWERS_IN:
            first += 1
        most = max(most, last - first + 1)
    return most


def _drain_table(drains: Mapping[str, Drain]) -> str:
    peer = drains.get(PEER)
    head = (
        f"| {INCIDENTS:,} incidents in {REPOSITORIES} repositories, GitHub answers in {ANSWERS_IN * 1000:.0f} ms |"
        " all acknowledged, s | all filed, s | ratio | GitHub calls | requests at once | issues |\n"
        "|---|---:|---:|---:|---:|---:|---:|\n"
    )
    return head + "".join(
        f"| {name} | {each.acknowledged:.1f} | {each.filed:.1f} | {_ratio(each.filed, peer.filed if peer else None)}"
        f" | {each.calls:,} | {each.at_once} | {each.issues:,} |\n"
        for name, each in drains.items()
    )


# The two programs


def _ours(**sections: Any) -> Start:
    @contextmanager
    def started(folder: Path, github: SandboxGitHub) -> Iterator[int]:
        route = {"repository": "acme/alerts"}
        with alerts2gh(folder, github.url, pinned=False, **{"route": route, **sections}) as service:
            yield service.port

    return started


def _peer(binary: str) -> Start:
    @contextmanager
    def started(folder: Path, github: SandboxGitHub) -> Iterator[int]:
        port = programs.free_port()
        options = ["--listen", f"127.0.0.1:{port}", "--github-url", github.url]
        command = [binary, "start", *options, "--github-token", github.token]
        environment = {**os.environ, "GIN_MODE": "release"}
        with programs.running(programs.start(PEER, command, folder, environment)) as program:
            program.wait_until_ready(f"http://127.0.0.1:{port}/metrics")
            yield port

    return started


def _post(port: int, body: bytes) -> None:
    query = urllib.parse.urlencode({"owner": "acme", "repo": "alerts"})
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/webhook?{query}", body)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


def _await(shown: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not shown():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {PATIENCE} s in vain")
        time.sleep(0.02)


def _ratio(ours: float, theirs: float | None) -> str:
    return NOT_MEASURED if theirs is None else f"{ours / theirs:.2f}"
