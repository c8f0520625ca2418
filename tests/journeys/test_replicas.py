"""Two real alerts2gh on one PostgreSQL, behind senders that go from one to the other; killed, paused and started again.

One writer a repository, one issue an incident, and a killed replica's work goes on within the lease.
"""

import os
import random
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from sandbox.alert_senders import Lives, Sender, mistakes, random_lives, repaired, settled
from sandbox.github_server import Fault, FaultKind, SandboxGitHub
from tests.contracts.postgres_server import HOW_TO_GET_IT, PostgresServer, binaries
from tests.journeys.service import HOME, Service, issues, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LEASE = 3.0
ALLOWED = 4.0
"""On top of the lease: the other replica looks once a second, and machines are busy."""
GROUPS = 80
NODES = 2
RANDOM_SECONDS = 60
START = datetime.now(UTC) - timedelta(hours=6)
LOGINS = ("nodemend-bot", "robot-b")
WAIT = 0.15


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    programs = binaries()
    if programs is None:
        pytest.skip(HOW_TO_GET_IT)
    server = PostgresServer(programs)
    yield server
    server.remove()


@pytest.fixture
def github() -> Iterator[SandboxGitHub]:
    people = ("alice", "bob", LOGINS[1])
    with SandboxGitHub(repositories=(HOME, "acme/fallback"), people=people) as running:
        running.state.add_token("token-b", LOGINS[1])
        # Long enough for two writers to meet, were there two.
        running.state.faults.add(Fault(FaultKind.LATENCY, "before", "POST|PATCH", seconds=WAIT))
        yield running


@pytest.fixture
def replicas(
    tmp_path: Path, github: SandboxGitHub, postgres: PostgresServer
) -> Iterator[list[Service]]:
    url = postgres.new_database()
    made = [replica(tmp_path / name, github, url) for name in ("a", "b")]
    yield made
    for each in made:
        each.kill()


def replica(folder: Path, github: SandboxGitHub, url: str) -> Service:
    folder.mkdir()
    (folder / "postgres-url").write_text(url)
    database = {
        "sqlite_file": None,
        "postgres_url_file": "postgres-url",
        "lease": f"{LEASE:.0f}s",
    }
    recovery = {"look_after": ["1s", "4s"], "audit_after": "6s"}
    policy: dict[str, Any] = {"flapping": {"changes": 50}}
    return Service(folder, github, database=database, recovery=recovery, policy=policy)


def start_all(replicas: list[Service]) -> None:
    for each in replicas:
        each.start(wait=False)
    for each in replicas:
        each.wait_until_ready()


def senders_to(replicas: list[Service], lives: Lives, pause: float) -> list[Sender]:
    """Two that deliver the same, each to both replicas in turn."""
    posts = [each.post for each in replicas]
    senders: list[Sender] = []
    senders += [Sender(way, lives.webhooks, pause, senders) for way in (posts, posts[::-1])]
    for sender in senders:
        sender.start()
    return senders


def end(senders: list[Sender]) -> None:
    for sender in senders:
        sender.stopping.set()
        sender.join()


def writers(github: SandboxGitHub) -> list[str]:
    """Who wrote to the repository, in the order of the writes, each turn once."""
    writes = (e.login or "" for e in github.log() if e.took_effect and f"/{HOME}/" in e.path)
    return [login for login, _ in groupby(writes)]


def test_a_killed_replicas_work_goes_on_within_the_lease_and_only_one_writes_at_a_time(
    replicas: list[Service], github: SandboxGitHub
) -> None:
    """Each has a token of its own here, so that GitHub's log tells who wrote."""
    (replicas[1].folder / "github-token").write_text("token-b")
    for each in replicas:
        each.configure(adopt_authors=list(LOGINS))
    dice = random.Random(1)
    lives = random_lives(dice, GROUPS, nodes=NODES, most_steps=1, start=START)
    start_all(replicas)
    senders = senders_to(replicas, lives, pause=0.01)
    try:
        wait_until("some issues", lambda: len(issues(github)) >= GROUPS // 4)
        (first,) = writers(github)
        replicas[LOGINS.index(first)].kill()
        killed = time.monotonic()
        wait_until("the other one", lambda: len(writers(github)) > 1, LEASE + ALLOWED)
        took = time.monotonic() - killed
        wait_until("the senders", lambda: not any(s.is_alive() for s in senders))
    finally:
        end(senders)
    last = settled(lambda: mistakes(issues(github), lives), steady=8, patience=90)
    sys.stdout.write(f"\nlease {LEASE} s: the other replica wrote {took:.1f} s after the kill\n")
    assert [sender.refused for sender in senders] == [[], []]
    assert last == []
    assert len(issues(github)) == GROUPS
    assert len(writers(github)) == 2, "the writer changed without a kill"
    assert took <= LEASE + ALLOWED


def test_replicas_killed_and_paused_at_random_lose_nothing_and_leave_no_duplicate(
    replicas: list[Service], github: SandboxGitHub
) -> None:
    seed = int(os.environ.get("CRASH_SEED") or secrets.randbelow(10**6))
    dice = random.Random(seed)
    lives = random_lives(dice, GROUPS, nodes=NODES, most_steps=4, start=START)
    start_all(replicas)
    senders = senders_to(replicas, lives, pause=0.2)
    kills = pauses = 0
    until = time.monotonic() + RANDOM_SECONDS
    try:
        while time.monotonic() < until:
            time.sleep(dice.uniform(0.2, 4))
            chosen = dice.choice(replicas)
            if dice.random() < 0.3 and chosen.running:
                pauses += 1
                pause(chosen, dice.uniform(0.5, 2) * LEASE)
            else:
                kills += chosen.running
                chosen.kill()
                time.sleep(dice.uniform(0, 1.5))
                chosen.start(wait=False)
        for each in replicas:
            each.wait_until_ready()
        wait_until("the senders", lambda: not any(s.is_alive() for s in senders), 90)
    finally:
        end(senders)
    last = settled(lambda: mistakes(issues(github), lives), steady=8, patience=90)
    sys.stdout.write(
        f"\nseed {seed} (CRASH_SEED={seed} repeats it), {kills} kills, {pauses} pauses, "
        f"{sum(s.taken for s in senders)} deliveries taken, {len(issues(github))} issues, "
        f"{repaired(issues(github))} duplicates repaired, {len(last)} mistakes\n"
    )
    assert [sender.refused for sender in senders] == [[], []]
    assert all(sender.taken == len(lives.webhooks) for sender in senders)
    assert last == [], f"CRASH_SEED={seed}"


def pause(service: Service, seconds: float) -> None:
    """Stop it in the middle of whatever it does; it goes on later and does not know."""
    assert service.program is not None
    service.program.process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    service.program.process.send_signal(signal.SIGCONT)
