"""`make demo`, from the first alert to the last line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import programs

ROOT = Path(__file__).parents[2]
PROGRAMS = ("prometheus", "prometheus-alertmanager")


def demo(path: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Play it in a process of its own, with another PATH if given."""
    chosen = {**os.environ, "PYTHONPATH": str(ROOT), "ONCE": "1", **environment}
    if path is not None:
        chosen["PATH"] = path
    return subprocess.run(
        [sys.executable, "-m", "sandbox", "demo"],
        env=chosen,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_with_recorded_webhooks_all_of_the_story_holds(tmp_path: Path) -> None:
    done = demo(path=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Alerts come from recorded webhooks" in done.stdout
    for name in PROGRAMS:
        assert f"{name} is not installed ({programs.HOW_TO_GET[name]})" in done.stdout
    assert "[NO]" not in done.stdout
    assert "All of it holds." in done.stdout


def test_with_assignees_switched_off_underneath_it_fails(tmp_path: Path) -> None:
    done = demo(path=str(tmp_path), BREAK="assign")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "[NO] it is assigned to alice (found: nobody)" in done.stdout


def test_an_unknown_break_is_told() -> None:
    done = demo(BREAK="everything")
    assert done.returncode == 2
    assert "BREAK=everything is unknown" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("broken", "status"), [("", 0), ("assign", 1)])
def test_with_real_programs(broken: str, status: int) -> None:
    for name in PROGRAMS:
        if programs.find(name) is None:
            pytest.skip(f"{name} is not installed. {programs.HOW_TO_GET[name]}")
    done = demo(BREAK=broken)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Alerts come from a real Prometheus and Alertmanager" in done.stdout
