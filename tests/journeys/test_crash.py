"""The real server killed with -9, at random and around each call to GitHub; senders retry as Alertmanager does.

What the senders were told is taken must stand on the sandbox GitHub, once.
"""

import os
import random
import secrets
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sandbox.alert_senders import (
    DUPLICATE,
    Lives,
    Sender,
    group_of,
    mistakes,
    random_lives,
    repaired,
    settled,
    step_webhook,
)
from sandbox.github_server import Fault, FaultKind, SandboxGitHub
from tests.journeys.service import HOME, Service, a_service, issues, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

GROUPS = 80
NODES = 2
KILLS = 12
START = datetime.now(UTC) - timedelta(hours=6)
ONE = Lives((), {"g0": True}, NODES)
RECOVERY = {"look_after": ["1s", "4s"], "audit_after": "6s"}
POLICY = {"close_after": "0s", "reorder_window": "0s", "flapping": {"changes": 50}}
ROUTE = {"repository": HOME, "assignees": [{"static": {"logins": ["alice"]}}]}
SLOW = (
    Fault(FaultKind.LATENCY, "after", "POST|PATCH", seconds=0.1, probability=0.5),
    Fault(FaultKind.LATENCY, "before", "POST|PATCH", seconds=0.1),
)
WITHOUT_INTENTS = """
import sys
from alerts2gh.worker import Clerk
Clerk._note_intent = lambda *_: None
from alerts2gh.__main__ import main
sys.exit(main())
"""


@pytest.fixture
def github() -> Iterator[SandboxGitHub]:
    with SandboxGitHub(repositories=(HOME, "acme/fallback")) as running:
        yield running


@pytest.fixture
def service(tmp_path: Path, github: SandboxGitHub) -> Iterator[Service]:
    with a_service(tmp_path, github, recovery=RECOVERY, policy=POLICY, route=ROUTE) as one:
        yield one


def news(name: str, episode: int, *, firing: bool, nodes: int = NODES) -> dict[str, Any]:
    return step_webhook(name, episode, firing=firing, nodes=nodes, start=START)


def of_group(github: SandboxGitHub, name: str) -> list[Any]:
    """The issues of a group, but for duplicates that were closed as such."""
    return [
        issue
        for issue in issues(github)
        if group_of(issue) == name and issue.state_reason != DUPLICATE
    ]


def wrong(github: SandboxGitHub, lives: Lives) -> list[str]:
    return mistakes(issues(github), lives)


def test_killed_at_random_it_loses_nothing_and_leaves_no_duplicate(
    service: Service, github: SandboxGitHub
) -> None:
    seed = int(os.environ.get("CRASH_SEED") or secrets.randbelow(10**6))
    dice = random.Random(seed)
    lives = random_lives(dice, GROUPS, nodes=NODES, most_steps=4, start=START)
    for fault in SLOW:  # so that kills hit requests under way
        github.state.faults.add(fault)
    service.start()
    senders: list[Sender] = []
    senders += [Sender([service.post], lives.webhooks, pause, senders) for pause in (0.05, 0.08)]
    for sender in senders:
        sender.start()
    kills = 0
    try:
        for kills in range(1, KILLS + 1):  # noqa: B007  it is told below
            time.sleep(dice.uniform(0.05, 2.5))
            service.kill()
            service.start()
        wait_until("the senders", lambda: not any(s.is_alive() for s in senders), 120)
    finally:
        for sender in senders:
            sender.stopping.set()
            sender.join()
    # Right for longer than an audit takes.
    last = settled(lambda: wrong(github, lives), steady=8, patience=120)
    sys.stdout.write(
        f"\nseed {seed} (CRASH_SEED={seed} repeats it), {kills} kills, "
        f"{sum(s.taken for s in senders)} deliveries taken, {len(issues(github))} issues, "
        f"{repaired(issues(github))} duplicates repaired, {len(last)} mistakes\n"
    )
    assert [sender.refused for sender in senders] == [[], []]
    assert all(sender.taken == len(lives.webhooks) for sender in senders)
    assert last == [], f"CRASH_SEED={seed}"


POINTS = {
    "create": ("POST", "/issues$"),
    "assign": ("POST", "/assignees$"),
    "edit": ("PATCH", ""),
    "comment": ("POST", "/comments$"),
    "close": ("PATCH", ""),
    "reopen": ("PATCH", ""),
}


def test_killed_before_and_after_each_call_to_github_it_ends_right(
    service: Service, github: SandboxGitHub
) -> None:
    service.start()
    for write in POINTS:
        for when in ("before", "after"):
            kill_around(service, github, write, when)
    tokens = [
        comment.body.splitlines()[0]
        for issue in issues(github)
        for comment in github.state.comments.in_group(f"{issue.repository}/{issue.number}")
    ]
    assert len(tokens) == len(set(tokens))


def kill_around(service: Service, github: SandboxGitHub, write: str, when: str) -> None:
    """One group up to the call, the call held, the kill, the restart, and what must be then."""
    name = f"{write}-{when}"

    def shows(state: str, text: str = "", assignees: tuple[str, ...] = ("alice",)) -> bool:
        mine = of_group(github, name)
        if [issue.state for issue in mine] != [state]:
            return False
        return text in mine[0].body and mine[0].assignees == assignees

    def send(episode: int, *, firing: bool, nodes: int = 2) -> None:
        assert service.post(news(name, episode, firing=firing, nodes=nodes))[0] == 200

    if write not in ("create", "assign"):
        send(0, firing=True)
        wait_until(f"{name}: the first issue", lambda: shows("open"))
    if write == "reopen":
        send(0, firing=False)
        wait_until(f"{name}: its close", lambda: shows("closed"))
    seen = len(github.log())
    method, path = POINTS[write]
    held = github.state.faults.add(
        Fault(FaultKind.TIMEOUT, when, method, path, count=1, seconds=60)  # type: ignore[arg-type]
    )
    resolves = write in ("comment", "close")
    nodes = 3 if write == "edit" else 2
    send({"reopen": 1}.get(write, 0), firing=not resolves, nodes=nodes)
    wait_until(f"{name}: the call", lambda: any(e.fault for e in github.log(seen)))
    service.kill()
    github.state.faults.remove(held)
    service.start()
    end = ("closed", "resolved") if resolves else ("open", f"n{nodes - 1}")
    wait_until(f"{name}: the end", lambda: shows(*end))


@pytest.mark.parametrize("protected", [True, False], ids=["as it is", "the intent switched off"])
def test_only_without_the_intent_a_kill_after_the_create_makes_a_second_issue(
    service: Service, github: SandboxGitHub, protected: bool
) -> None:
    """The control: the same kill on the same GitHub, whose list lags longer than a restart takes."""
    github.state.switches.list_lag = timedelta(seconds=20)
    service.configure(recovery={"look_after": ["1s", "25s"], "audit_after": "1h"})
    if not protected:
        script = service.folder / "without_intents.py"
        script.write_text(WITHOUT_INTENTS)
        service.arguments = [sys.executable, str(script)]
    service.start()
    github.state.faults.add(
        Fault(FaultKind.TIMEOUT, "after", "POST", "/issues$", count=1, seconds=60)
    )
    assert service.post(news("g0", 0, firing=True))[0] == 200
    wait_until("the create", lambda: len(issues(github)) == 1)
    service.kill()
    service.start()
    if protected:
        wait_until("the issue to be found", lambda: bool(issues(github)[0].assignees), 60)
        assert wrong(github, ONE) == []
    else:
        wait_until("the second issue", lambda: len(issues(github)) == 2)
        assert wrong(github, ONE) == ["g0: ['open', 'open'], should be one that is open"]
