"""`make demo`, from the first alert to the last line."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from sandbox import programs
from sandbox.demo.monitoring import PROGRAMS, rules

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "sandbox", "demo"]


def environment(path: str | None = None, **more: str) -> dict[str, str]:
    """The environment of a demo, with another PATH if given."""
    chosen = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return chosen if path is None else {**chosen, "PATH": path}


def demo(path: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Play it once in a process of its own."""
    return subprocess.run(
        COMMAND,
        env=environment(path, ONCE="1", **more),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def need_programs() -> None:
    for name in PROGRAMS:
        if programs.find(name) is None:
            pytest.skip(f"{name} is not installed. {programs.HOW_TO_GET[name]}")


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
    assert "BREAK=everything is unknown; there is: assign, condition, metric" in done.stdout


@pytest.mark.parametrize("broken", ["condition", "metric"])
def test_a_break_in_the_cluster_is_refused_where_there_is_none(tmp_path: Path, broken: str) -> None:
    done = demo(path=str(tmp_path), BREAK=broken)
    assert done.returncode == 2
    assert f"BREAK={broken} needs prometheus and prometheus-alertmanager" in done.stdout


@contextmanager
def playing(path: str | None = None, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A demo that goes on until it is stopped."""
    process = subprocess.Popen(
        COMMAND,
        env=environment(path, ONCE="", BREAK="", **more),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()  # killed, it could not stop what it started
        process.communicate(timeout=60)


def told_until(process: subprocess.Popen[str], words: str) -> str:
    """What it has told up to the line with these words."""
    told = []
    assert process.stdout
    for line in process.stdout:
        told.append(line)
        if words in line:
            return "".join(told)
    pytest.fail(f"it ended before it said {words!r}:\n{''.join(told)}")


def left_over(folder: Path) -> list[str]:
    """Files in the folder, and the command lines of processes that name it."""
    commands = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it has just ended
    return [*map(str, folder.iterdir()), *(c for c in commands if str(folder) in c)]


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with playing(path=str(tmp_path), TMPDIR=str(folder)) as process:
        told_until(process, "Everything keeps running")
        assert left_over(folder)
        process.send_signal(signal.SIGINT)
        assert told_until(process, "Stopped.")
        assert process.wait(30) == 0
    assert left_over(folder) == []


def test_ctrl_c_in_the_middle_ends_the_story(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with playing(path=str(tmp_path), TMPDIR=str(folder)) as process:
        told_until(process, "1. An embedded GitHub")
        process.send_signal(signal.SIGINT)
        assert told_until(process, "Stopped before the story was over.")
        assert process.wait(30) == 0
    assert left_over(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "status", "found"),
    [
        ("", 0, "All of it holds."),
        ("assign", 1, "[NO] it is assigned to alice (found: nobody)"),
        ("condition", 1, "[NO] Kubernetes has GPURuntimeError True on gpu-0001 (found: False"),
        ("metric", 1, "[NO] Prometheus saw the metric rise, fall, and rise (found: 0 changes)"),
    ],
)
def test_with_real_programs(broken: str, status: int, found: str) -> None:
    need_programs()
    done = demo(BREAK=broken)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Alerts come from a real Prometheus and Alertmanager" in done.stdout
    assert found in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_with_real_programs_the_addresses_answer_until_ctrl_c(tmp_path: Path) -> None:
    need_programs()
    folder = tmp_path / "temporary"
    folder.mkdir()
    with playing(TMPDIR=str(folder)) as process:
        told = told_until(process, "Everything keeps running")
        addresses = re.findall(r"http://\S+", told)
        assert (
            len(addresses) == 7
        )  # GitHub, alerts2gh, metrics, Prometheus, Alertmanager, issue twice
        for address in addresses:
            with urllib.request.urlopen(address, timeout=10) as answer:
                assert answer.status == 200
        kubeconfig = re.search(r"kubectl --kubeconfig (\S+) get nodes", told)
        assert kubeconfig is not None
        assert yaml.safe_load(Path(kubeconfig[1]).read_text())["kind"] == "Config"
        process.send_signal(signal.SIGINT)
        assert told_until(process, "Stopped.")
        assert process.wait(60) == 0
    assert left_over(folder) == []


def test_the_demos_rule_is_the_shipped_one() -> None:
    shipped = yaml.safe_load((ROOT / "deploy/prometheus/exporters-rules.yaml").read_text())
    by_name = {rule.get("alert"): rule for group in shipped["groups"] for rule in group["rules"]}
    ours = rules()["groups"][0]["rules"][0]
    theirs = by_name[ours["alert"]]
    assert " ".join(theirs["expr"].split()) == ours["expr"]
    assert (theirs["labels"], theirs.get("for")) == (ours["labels"], ours.get("for"))
