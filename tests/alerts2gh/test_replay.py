"""A dry run says what would be done to GitHub now, and does none of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts2gh.__main__ import main
from alerts2gh.config import Config, Database
from alerts2gh.incident import Issue, IssueState, Target
from alerts2gh.ports import Answer, Outcome
from alerts2gh.store import open_copy
from alerts2gh.worker import RecordingTracker, is_new
from chassis.config import load_settings
from tests.alerts2gh.store_builders import NOW, a_part
from tests.alerts2gh.world import HOME, NOON, World, a_world, alert, webhook

TARGET = Target("main", "acme", "alerts")


class Console:
    """Runs dry runs on a world's configuration; the clock of the command is the real one."""

    def __init__(self, world: World, capsys: pytest.CaptureFixture[str]) -> None:
        self.world = world
        self.capsys = capsys

    def dry_run(self, *bodies: Any) -> tuple[int, str]:
        """Exit status and what was said, after checking that GitHub and the database stayed as they were."""
        folder = self.world.folder / "bodies"
        folder.mkdir(exist_ok=True)
        for number, body in enumerate(bodies):
            text = body if isinstance(body, str) else json.dumps(body)
            (folder / f"{number}.json").write_text(text)
        before = len(self.world.effects()), self.stored()
        config = str(self.world.folder / "alerts2gh.yaml")
        status = main(["replay", "--dry-run", str(folder), "--config", config])
        assert (len(self.world.effects()), self.stored()) == before
        told = self.capsys.readouterr()
        assert told.err == ""
        return status, told.out

    def stored(self) -> Any:
        store = self.world.store
        return store.incidents(), store.counts(), store.load_budget("main"), store.refusals()


@contextmanager
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], **config: Any
) -> Iterator[tuple[World, Console]]:
    with a_world(tmp_path, **config) as world:
        yield world, Console(world, capsys)


ROUTE = {
    "repository": HOME,
    "issue_labels": ["severity/{{ labels.severity }}"],
    "assignees": [{"static": {"logins": ["alice"]}}],
}


def test_a_new_incident_would_be_created_and_assigned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run(tmp_path, capsys, route=ROUTE) as (_, console):
        status, said = console.dry_run(webhook(alert("gpu-n1", severity="critical")))

    lines = [line.strip() for line in said.splitlines()]
    assert status == 0
    assert lines[0].endswith("0.json: would be taken, 1 incident")
    for line in (
        "would be done to GitHub now:",
        f"create an issue in {HOME} (first_firing)",
        "labels: alerts2gh, severity/critical",
        f"assign alice to the new issue in {HOME} (unassigned)",
    ):
        assert line in lines
    assert any(line.startswith("title: GPURuntimeError") for line in lines)
    assert lines[-1].startswith("then incident alertname=GPURuntimeError (the new issue")


def test_what_is_open_would_be_commented_on_and_then_closed_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run(tmp_path, capsys) as (world, console):
        world.deliver(alert("gpu-n1"))
        status, said = console.dry_run(webhook(alert("gpu-n1", firing=False)))

    assert status == 0
    assert f"comment on {HOME}#1 (transitions_untold)" in said
    assert f"({HOME}#1): nothing to do, quiet_period; looked at again at" in said
    assert "create" not in said


def test_a_repeat_would_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with run(tmp_path, capsys) as (world, console):
        world.deliver(alert("gpu-n1"))
        status, said = console.dry_run(webhook(alert("gpu-n1")))

    assert status == 0
    assert "nothing would be done to GitHub now" in said
    assert "up_to_date" in said


def test_two_bodies_of_one_incident_are_one_issue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run(tmp_path, capsys) as (_, console):
        _, said = console.dry_run(webhook(alert("gpu-n1")), webhook(alert("gpu-n2")))

    assert said.count("create an issue") == 1


def test_what_the_service_has_to_do_anyway_is_not_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run(tmp_path, capsys) as (world, console):
        world.accept(webhook(alert("gpu-n1"), group={"alertname": "Waiting"}))
        _, said = console.dry_run(webhook(alert("gpu-n2")))

    assert said.count("create an issue") == 1
    assert "Waiting" not in said


def test_what_people_did_on_the_real_github_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run(tmp_path, capsys) as (world, console):
        world.deliver(alert("gpu-n1"))
        world.human.delete(HOME, 1)
        _, said = console.dry_run(webhook(alert("gpu-n1"), alert("gpu-n2")))

    assert f"create an issue in {HOME}" in said
    assert f"{HOME}#1" not in said


def test_without_github_what_is_stored_has_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run(tmp_path, capsys) as (world, console):
        world.deliver(alert("gpu-n1"))
        file = tmp_path / "alerts2gh.yaml"
        config = yaml.safe_load(file.read_text())
        config["credentials"]["main"]["base_url"] = "http://127.0.0.1:9"
        file.write_text(yaml.safe_dump(config))
        status, said = console.dry_run(webhook(alert("gpu-n1", firing=False)))

    assert status == 0
    assert f"comment on {HOME}#1 (transitions_untold)" in said
    assert "note: GitHub could not be asked" in said


def test_a_body_that_would_be_refused_is_told_beside_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run(tmp_path, capsys) as (_, console):
        status, said = console.dry_run("no JSON", webhook(alert("gpu-n1")))

    assert status == 1
    assert "0.json: would be refused: the body is no JSON" in said
    assert "1.json: would be taken" in said


def test_silence_that_github_wants_is_noted_and_does_not_hold_up_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run(tmp_path, capsys) as (world, console):
        state = world.store.load_budget("main")
        far = NOON + timedelta(days=40_000)
        world.store.save_budget("main", type(state)((), (), far, "secondary limit"))
        _, said = console.dry_run(webhook(alert("gpu-n1")))

    assert "create an issue" in said
    assert "note: GitHub wants silence from credential main until" in said


def test_hostile_words_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run(tmp_path, capsys) as (_, console):
        _, said = console.dry_run(webhook(alert("gpu"), group={"alertname": "\x1b[2J\u202e"}))

    assert "\x1b" not in said
    assert "\u202e" not in said


def test_nothing_named_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with a_world(tmp_path):
        config = str(tmp_path / "alerts2gh.yaml")
        (tmp_path / "empty").mkdir()
        for way in ([], ["--dry-run"]):
            line = ["replay", *way, str(tmp_path / "empty"), "--config", config]
            assert main(line) == 2
            assert "there is no *.json" in capsys.readouterr().err


# The parts.


class Unreachable:
    """A GitHub that cannot be asked anything."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: Answer(Outcome.UNREACHABLE, text="no route to host")


def test_the_tracker_remembers_what_it_noted() -> None:
    issue = Issue(7, "u", "acme/alerts", IssueState.OPEN, NOW, title="Known")
    tracker = RecordingTracker(Unreachable(), lambda _, n: issue if n == 7 else None, lambda: NOW)

    made = tracker.create_issue(TARGET, "New", "body", ["a"], None).value
    assert made is not None
    tracker.add_labels(TARGET, made.number, ["b"])
    tracker.remove_label(TARGET, made.number, "A")
    tracker.add_assignees(TARGET, made.number, ["ada"])
    tracker.add_comment(TARGET, made.number, "words")
    closed = tracker.edit_issue(TARGET, 7, state=IssueState.CLOSED, state_reason="completed")

    now = tracker.get_issue(TARGET, made.number).value
    assert now is not None
    assert (now.labels, now.assignees) == (("b",), ("ada",))
    assert [c.body for c in tracker.list_comments(TARGET, made.number, None).value or ()] == [
        "words"
    ]
    assert closed.value is not None
    assert (closed.value.title, closed.value.state) == ("Known", IssueState.CLOSED)
    listed = tracker.list_issues(TARGET, label="b", since=None, state="open").value or ()
    assert [i.number for i in listed] == [made.number]
    assert is_new(made.number)
    assert tracker.get_issue(TARGET, 8).outcome is Outcome.NOT_FOUND
    assert tracker.unreached == "no route to host"


def test_a_copy_has_everything_but_the_leases_and_leaves_the_original_alone(
    tmp_path: Path,
) -> None:
    with a_world(tmp_path) as world:
        world.deliver(alert("gpu-n1"))
        world.accept(webhook(alert("gpu-n2")))
        config = load_settings(tmp_path / "alerts2gh.yaml", Config)
        (tmp_path / "copy").mkdir()

        copy = open_copy(config.database, tmp_path / "copy", now=lambda: NOON)
        try:
            assert copy.incidents() == world.store.incidents()
            assert copy.backlog() == world.store.backlog() == 1
            assert (len(copy.leases()), len(world.store.leases())) == (0, 1)
            copy.accept([a_part()])
            assert world.store.backlog() == 1
        finally:
            copy.close()


def test_the_copy_of_nothing_is_empty(tmp_path: Path) -> None:
    missing = tmp_path / "missing.db"

    copy = open_copy(Database(sqlite_file=missing), tmp_path, now=lambda: NOW)

    assert copy.incidents() == ()
    assert not missing.exists()
    copy.close()
