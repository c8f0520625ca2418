"""An acknowledged delivery is there after the process was killed at any moment."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from alerts2gh.config import Database
from alerts2gh.store import open_store
from tests.alerts2gh.store_builders import NOW, TARGET, a_part

KILLS = 3


def acknowledged_before_kill(file: Path, first: int, lines: int, *mode: str) -> set[int]:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.alerts2gh.store_child", file, str(first), *mode],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert child.stdout is not None
    with child.stdout:
        read = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        read += child.stdout.readlines()
    assert child.wait(30) == -signal.SIGKILL
    return {int(line) for line in read if line.endswith(b"\n")}


def stored(file: Path, numbers: set[int]) -> set[int]:
    store = open_store(Database(sqlite_file=file), now=lambda: NOW)
    due = set(store.due(TARGET.key, NOW, 10**6))
    for incident_id in sorted(due)[:20]:
        assert store.load(incident_id)[1], "a part that is due can be read"
    store.close()
    return {n for n in numbers if a_part(f"A{n}").incident_id in due}


def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    file = tmp_path / "a.db"
    acknowledged: set[int] = set()
    for kill in range(KILLS):
        lines = chance.randrange(1, 200)
        acknowledged |= acknowledged_before_kill(file, kill * 10**6, lines)
        missing = acknowledged - stored(file, acknowledged)
        assert not missing, f"seed {seed}, kill {kill + 1}: lost {sorted(missing)}"
    assert len(acknowledged) >= KILLS


def test_the_crash_test_would_notice_an_early_acknowledgement(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    acknowledged = acknowledged_before_kill(file, 0, 20, "careless")

    with pytest.raises(AssertionError):
        assert stored(file, acknowledged) == acknowledged
