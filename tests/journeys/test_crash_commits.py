"""The real server killed with -9 just before and just after each commit of an incident's life, on both databases.

A process that has imported everything forks the servers, as some seventy starts would take minutes otherwise.
"""

import itertools
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sandbox.alert_senders import DUPLICATE, Webhook, group_of, step_webhook
from sandbox.github_server import SandboxGitHub
from tests.contracts.postgres_server import HOW_TO_GET_IT, PostgresServer, binaries
from tests.journeys.forking import Forker
from tests.journeys.service import HOME, Service, issues, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

START = datetime.now(UTC) - timedelta(hours=6)
ROUTE = {"repository": HOME, "assignees": [{"static": {"logins": ["alice"]}}]}
WHENS = ("before", "after")
SAVES = 4
"""What a life takes at least: planned and filed, planned and closed."""
KINDS = (
    ("saving an incident",),
    ("preparing the database", "storing a delivery", "taking leases", "saving a budget"),
)
"""The kinds of commit that each life has, as the store calls them: one shard for each line, side by side."""
SERVING = """
from contextlib import contextmanager
from itertools import count
import alerts2gh.__main__ as program
from alerts2gh.store.engines import Connections

write, commits = Connections.write, count(1)

def killing(kind, number, when, note):
    def die(doing):
        with open(note, "a") as file:
            file.write(doing + "\\n")
        os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def write_or_die(self, doing, **given):
        mine = doing == kind and next(commits) == number
        with write(self, doing, **given) as connection:
            yield connection
            if mine and when == "before":
                die(doing)
        if mine:
            die(doing)

    return write_or_die

def serve(config, log, kind, number, when, note):
    begin(config, log)
    Connections.write = killing(kind, int(number), when, note)
    os._exit(program.main(["serve", "--config", config]))
"""
"""Servers that end themselves at a commit."""


class Shard:
    """A server with a database and a GitHub of its own, killed at each commit of some kinds."""

    def __init__(self, folder: Path, forker: Forker, github: SandboxGitHub, when: str) -> None:
        self._service = Service(folder, github, route=ROUTE)
        self._forker = forker
        self._github = github
        self._when = when
        self._note = folder / "killed-at"
        self._note.touch()
        self._pid = 0

    def configure(self, **changes: object) -> None:
        self._service.configure(**changes)

    @property
    def killed_at(self) -> list[str]:
        """What the commits were for that it was killed at."""
        return self._note.read_text().splitlines()

    def work(self, kind: str) -> None:
        """Lives with a kill at the first commit of a kind, the second and so on, until one has no such commit."""
        for number in itertools.count(1):
            before = len(self.killed_at)
            with self._serving(kind, number):
                self._live(f"{kind.replace(' ', '-')}-{number}")
            if len(self.killed_at) == before:
                return

    @contextmanager
    def _serving(self, kind: str, number: int) -> Iterator[None]:
        self._start(kind, number)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            wait_until("its end", lambda: not self._running())

    def _start(self, kind: str, number: int) -> None:
        folder = self._service.folder
        log = folder / "alerts2gh.log"
        config = self._service.config_file
        self._pid = self._forker.fork(config, log, kind, number, self._when, self._note)

    def _running(self) -> bool:
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _live(self, name: str) -> None:
        """Fires, is filed and assigned, resolves, is closed; a server that has ended is started again."""
        fires, over = (
            step_webhook(name, 0, firing=firing, nodes=2, start=START) for firing in (True, False)
        )
        self._deliver(fires)
        self._wait(f"{name} to be filed", lambda: self._shows(name, "open", "firing"))
        self._deliver(over)
        self._wait(f"{name} to be closed", lambda: self._shows(name, "closed", "resolved"))

    def _deliver(self, webhook: Webhook) -> None:
        def taken() -> bool:
            try:
                return self._service.post(webhook)[0] == 200
            except OSError:
                return False

        self._wait("the delivery", taken)

    def _wait(self, what: str, holds: Callable[[], bool]) -> None:
        def holds_now() -> bool:
            if not self._running():
                self._start("", 0)  # no commit is of this kind
            return holds()

        wait_until(f"{what}, killed {self._when} {self.killed_at[-1:]}", holds_now)

    def _shows(self, name: str, state: str, text: str) -> bool:
        mine = [issue for issue in issues(self._github) if group_of(issue) == name]
        if [issue.state for issue in mine] != [state]:
            return False
        return text in mine[0].body and mine[0].assignees == ("alice",)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    programs = binaries()
    if programs is None:
        pytest.skip(HOW_TO_GET_IT)
    server = PostgresServer(programs)
    yield server
    server.remove()


@pytest.fixture(scope="module")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    made = Forker(tmp_path_factory.mktemp("forker"), SERVING)
    yield made
    made.stop()


def all_shards(folder: Path, forker: Forker, urls: Iterator[str] | None) -> list[Counter[str]]:
    """Run the shards side by side; how often each was killed at which kind of commit."""

    def one(when: str, kinds: tuple[str, ...]) -> tuple[Counter[str], list[object]]:
        place = folder / f"{when}-{len(kinds)}"
        place.mkdir()
        with SandboxGitHub(repositories=(HOME, "acme/fallback")) as github:
            shard = Shard(place, forker, github, when)
            if urls is not None:
                (place / "postgres-url").write_text(next(urls))
                shard.configure(database={"sqlite_file": None, "postgres_url_file": "postgres-url"})
            for kind in kinds:
                shard.work(kind)
            duplicates = [i for i in issues(github) if i.state_reason == DUPLICATE]
            return Counter(shard.killed_at), duplicates

    jobs = [(when, kinds) for when in WHENS for kinds in KINDS]
    with ThreadPoolExecutor(len(jobs)) as pool:
        done = list(pool.map(lambda job: one(*job), jobs))
    assert [duplicates for _, duplicates in done] == [[]] * len(jobs)
    return [kills for kills, _ in done]


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_killed_around_each_commit_of_a_life_it_ends_right_and_files_once(
    tmp_path: Path, forker: Forker, database: str, request: pytest.FixtureRequest
) -> None:
    urls = None
    if database == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        urls = iter([server.new_database() for _ in range(len(WHENS) * len(KINDS))])
    began = time.monotonic()
    kills = all_shards(tmp_path, forker, urls)
    sys.stdout.write(f"\n{database} in {time.monotonic() - began:.0f} s: {kills}\n")
    # One is enough where a life has one such commit at its start; an incident is saved at each of its steps.
    assert [set(each) for each in kills] == [set(kinds) for _ in WHENS for kinds in KINDS]
    assert all(each["saving an incident"] >= SAVES for each in kills if set(each) == set(KINDS[0]))
