"""alerts2gh killed with -9 at random under two senders of the same alerts: what was lost, and what stayed double.

Verdict from what the senders were told and what the sandbox GitHub has at the end. N alerts (10,000), five a group, in groups
that fire and resolve; SEED repeats a run's dice. DATABASE=postgresql takes PostgreSQL in place of SQLite. A second run
has the default limits and policies, its clock and GitHub's sped up.
"""

import os
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench._alerts2gh import NO_LIMITS, load_average, say, write_config
from sandbox import programs
from sandbox.alert_senders import (
    DUPLICATE,
    Lives,
    Sender,
    mistakes,
    poster,
    random_lives,
    repaired,
    settled,
)
from sandbox.github_server import Fault, FaultKind, SandboxGitHub
from sandbox.github_server.model import Issue

ALERTS = 10_000
NODES = 5
STEPS = 3
REPOSITORIES = ("acme/alerts-0", "acme/alerts-1")
ROUTE = {
    "repository": REPOSITORIES[1],
    "routes": [{"matchers": ['g=~".*[02468]"'], "repository": REPOSITORIES[0]}],
}
LIVES_FOR = (3.0, 9.0)
"""Seconds that a started server lives."""
KILLING = 150
"""Seconds after which the kills end, if the work has not; time to settle comes on top."""
STEADY = 12
"""Seconds that all must stay right for; an audit comes within them."""
PATIENCE = 240
SPEED = 120
SHARE_AT_DEFAULTS = 8
"""The second run has so many times fewer alerts: the default limits allow 400 issues and comments an hour."""
SPED_UP = """
import sys
from datetime import UTC, datetime
import alerts2gh.__main__ as program
began, speed = datetime.fromisoformat(sys.argv.pop(1)), float(sys.argv.pop(1))

def utc_now():
    return began + (datetime.now(UTC) - began) * speed

program.utc_now = utc_now
sys.exit(program.main())
"""


@dataclass(frozen=True)
class Scene:
    """One run: what the server is told, how fast its time goes, how the senders behave."""

    name: str
    groups: int
    sections: Mapping[str, Any]
    speed: float = 1
    unlimited: bool = True
    """GitHub enforces no limits."""
    ahead: int = 0
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def clock(self) -> datetime:
        return self.began + (datetime.now(UTC) - self.began) * self.speed


@dataclass(frozen=True)
class Result:
    """What came of a scene; `figures` as in the table's head, between the groups and the times."""

    scene: Scene
    figures: Sequence[int]
    wrong: Sequence[str]
    sending: float
    seconds: float


def run() -> str:
    """Both runs as a table.

    Raises:
        AssertionError: Something was lost, or a duplicate stayed.
    """
    seed = int(os.environ.get("SEED") or secrets.randbelow(10**6))
    groups = int(os.environ.get("N") or ALERTS) // NODES
    before = load_average()
    say(f"SEED={seed}, {groups} groups")
    results = [_play(scene, seed) for scene in (_raised(groups), _defaults(groups))]
    table = (
        _table(results) + f"\nSEED={seed}. Load average before {before}, after {load_average()}.\n"
    )
    wrong = [mistake for result in results for mistake in result.wrong]
    if wrong:
        raise AssertionError(f"{table}\n{len(wrong)} mistakes:\n" + "\n".join(wrong[:20]))
    return table


def _raised(groups: int) -> Scene:
    """Copies of one Alertmanager may come after the other's next news; the reorder window is there for that."""
    return Scene(
        "rollup off, budget raised",
        groups,
        {
            "limits": NO_LIMITS,
            "storm": {"enabled": False},
            "policy": {"reorder_window": "20s", "close_after": "20s"},
            "database": {"lease": "1s"},
            "recovery": {"look_after": ["1s", "4s"], "audit_after": "10s", "retry_after": "1s"},
        },
        ahead=1,
    )


def _defaults(groups: int) -> Scene:
    """Only the lease is not the default: at this speed a renewal comes late for one of 30 seconds."""
    return Scene(
        f"defaults, time {SPEED} times as fast",
        groups // SHARE_AT_DEFAULTS,
        {
            "limits": {},
            "storm": {},
            "database": {"lease": "8m"},
        },
        speed=SPEED,
        unlimited=False,
    )


def _play(scene: Scene, seed: int) -> Result:
    dice = random.Random(seed)
    start = scene.began - timedelta(hours=6)
    lives = random_lives(dice, scene.groups, nodes=NODES, most_steps=STEPS, start=start)
    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        github = stack.enter_context(SandboxGitHub(repositories=REPOSITORIES, clock=scene.clock))
        github.state.switches.enforce_primary = not scene.unlimited
        github.state.switches.enforce_secondary = not scene.unlimited
        for when in ("before", "after"):  # so that kills hit requests under way
            github.state.faults.add(
                Fault(FaultKind.LATENCY, when, "POST|PATCH", seconds=0.02, probability=0.5)
            )
        postgres = os.environ.get("DATABASE") == "postgresql"
        url = stack.enter_context(programs.running_postgres()) if postgres else None
        server = _Server(folder, github.url, scene, url)
        stack.callback(server.kill)
        senders = _senders(server.url, lives, scene)
        stack.callback(_stop, senders)
        check = _checker(github, lives)
        kills, sending = _kill_until_done(server, senders, check, dice)
        say(f"{scene.name}: {kills} kills, {sending:.0f} s; waiting for it to settle")
        wrong = settled(check, steady=STEADY, patience=PATIENCE)
        ours, rollups = _issues(github)
    wrong += _not_delivered(senders, lives)
    taken = sum(sender.taken for sender in senders)
    figures = (taken, kills, len(ours), len(rollups), repaired(ours), len(wrong))
    return Result(scene, figures, wrong, sending, time.monotonic() - began)


def _not_delivered(senders: Iterable[Sender], lives: Lives) -> list[str]:
    refused = [f"refused: {refusal}" for sender in senders for refusal in sender.refused]
    left = (len(lives.webhooks) - sender.taken for sender in senders)
    return refused + [f"{count} deliveries not taken" for count in left if count]


class _Server:
    """alerts2gh in a process of its own; killed and started again."""

    def __init__(
        self, folder: Path, github_url: str, scene: Scene, postgres_url: str | None
    ) -> None:
        self._folder = folder
        self._port = programs.free_port()
        file = {"postgres_url_file": "postgres-url"} if postgres_url else {"sqlite_file": "a.db"}
        database = {"database": {**scene.sections["database"], **file}}
        sections = {"route": ROUTE, **scene.sections, **database}
        self._config = write_config(folder, self._port, github_url, postgres_url, sections)
        script = folder / "sped_up.py"
        script.write_text(SPED_UP)
        self._command = [sys.executable, str(script), scene.began.isoformat(), str(scene.speed)]
        if scene.speed == 1:
            self._command = [sys.executable, "-m", "alerts2gh"]
        self._program: programs.Program | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        command = [*self._command, "serve", "--config", str(self._config)]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        self._program = programs.start("alerts2gh", command, self._folder, environment)
        self._program.wait_until_ready(f"{self.url}/readyz", 60)

    def kill(self) -> None:
        if self._program is not None:
            self._program.process.kill()
            self._program.process.wait()


def _senders(url: str, lives: Lives, scene: Scene) -> list[Sender]:
    post = poster(f"{url}/v1/webhook")
    senders: list[Sender] = []
    senders += [
        Sender([post], lives.webhooks, pause, senders, scene.ahead)
        for pause in (0.0, 0.001)  # one falls behind the other
    ]
    return senders


def _stop(senders: Iterable[Sender]) -> None:
    for sender in senders:
        sender.stopping.set()
    for sender in senders:
        sender.join()


def _kill_until_done(
    server: _Server,
    senders: Sequence[Sender],
    check: Callable[[], Sequence[str]],
    dice: random.Random,
) -> tuple[int, float]:
    """Kill at random until everything is filed; how many kills, and after how many seconds the senders were done."""
    kills, sent, began = 0, 0.0, time.monotonic()
    server.start()
    for sender in senders:
        sender.start()
    while time.monotonic() < began + KILLING and (not sent or check()):
        time.sleep(dice.uniform(*LIVES_FOR))
        server.kill()
        server.start()
        kills += 1
        if not sent and not any(sender.is_alive() for sender in senders):
            sent = time.monotonic() - began
    for sender in senders:
        sender.join(PATIENCE)
    return kills, sent or time.monotonic() - began


def _issues(github: SandboxGitHub) -> tuple[list[Issue], list[Issue]]:
    """Those of groups, and the rollups."""
    found: list[Issue] = []
    for name in REPOSITORIES:
        group = str(github.state.repository(name).id)
        with github.state.lock:
            found += github.state.issues.in_group(group)
    ours = [issue for issue in found if "g=g" in issue.title]
    return ours, [issue for issue in found if "g=g" not in issue.title]


def _checker(github: SandboxGitHub, lives: Lives) -> Callable[[], list[str]]:
    def check() -> list[str]:
        ours, rollups = _issues(github)
        wrong = mistakes(ours, lives)
        standing = Counter(issue.repository for issue in rollups if issue.state_reason != DUPLICATE)
        wrong += [
            f"{count} rollup issues in one repository" for count in standing.values() if count > 1
        ]
        return wrong

    return check


def _table(results: Iterable[Result]) -> str:
    head = (
        "| run | alerts | groups | deliveries taken | kills | issues | rollup issues"
        " | duplicates repaired | lost or double | senders done after, s | all right after, s |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    return head + "".join(_row(result) for result in results)


def _row(result: Result) -> str:
    scene = result.scene
    figures = (scene.groups * NODES, scene.groups, *result.figures)
    times = f"{result.sending:.0f} | {result.seconds:.0f}"
    return f"| {scene.name} | {' | '.join(f'{each:,}' for each in figures)} | {times} |\n"
