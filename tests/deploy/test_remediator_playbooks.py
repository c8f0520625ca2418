"""The shipped playbooks: check-config takes them, they touch nothing yet, and they take the alerts that Prometheus really sends."""

import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis.alertmanager import Alert, AlertStatus
from chassis.config import ConfigWatcher, load_settings
from chassis.contracts import ConditionType
from chassis.errors import ConfigError
from chassis.telemetry import get_logger, new_registry
from remediator.commands import check_config
from remediator.config import Config, Playbook
from remediator.config.playbook_files import PlaybookFile
from remediator.triggers import Match, NoMatch, from_alert
from tests.deploy.exporters_cluster import ROOT
from tests.deploy.remediator_cluster import REMEDIATOR
from tests.journeys.service import wait_until

PLAYBOOKS = sorted((REMEDIATOR / "playbooks").glob("*.yaml"))
PROMETHEUS = ROOT / "deploy" / "prometheus"
ALERTMANAGER = ROOT / "deploy" / "alertmanager" / "remediator.example.yml"
CONDITIONS = [each.value for each in ConditionType]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """remediator.yaml as it is shipped, with the playbooks beside it as in the pod, and a secret."""
    for each in PLAYBOOKS:
        (tmp_path / each.name).write_text(each.read_text("utf-8"))
    (tmp_path / "webhook-token").write_text("made up")
    text = (REMEDIATOR / "remediator.yaml").read_text("utf-8")
    (tmp_path / "remediator.yaml").write_text(text.replace("/etc/remediator/secrets/", ""))
    return tmp_path / "remediator.yaml"


@pytest.fixture
def config(file: Path) -> Config:
    return load_settings(file, Config)


# They are usable.


def test_check_config_takes_them_and_says_that_nothing_is_touched(file: Path) -> None:
    out, err = StringIO(), StringIO()

    status = check_config(file, out, err)

    assert (status, err.getvalue()) == (0, "")
    assert f"{len(PLAYBOOKS)} playbooks" in out.getvalue()
    (dry,) = [line for line in out.getvalue().splitlines() if line.startswith("in dry run")]
    assert all(each.stem in dry for each in PLAYBOOKS)


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_a_shipped_playbook(path: Path) -> None:
    """Has its file's name, begins in dry run by its own word, ends with a person, and says what that person does."""
    written = yaml.safe_load(path.read_text("utf-8"))["playbooks"]
    (playbook,) = load_settings(path, PlaybookFile).playbooks

    assert playbook.name == path.stem
    assert written[0]["dry_run"] is True
    assert playbook.description
    last = playbook.ladder[-1].repair.hand_over
    assert last is not None
    assert len(last.text) > 40


def test_every_condition_has_a_playbook(config: Config) -> None:
    proven = {each for playbook in config.playbooks for each in playbook.proof.conditions}

    assert set(CONDITIONS) <= proven


def test_the_larger_example_is_usable_beside_them(file: Path) -> None:
    text = (REMEDIATOR / "remediator.example.yaml").read_text("utf-8")
    (file.parent / "alerts2gh-token").write_text("made up")
    file.write_text(text.replace("/etc/remediator/secrets/", ""))
    out, err = StringIO(), StringIO()

    assert (check_config(file, out, err), err.getvalue()) == (0, "")
    assert "2 budgets" in out.getvalue()


# They take what Prometheus sends.


@cache
def rules() -> dict[str, dict[str, Any]]:
    document = yaml.safe_load((PROMETHEUS / "exporters-rules.yaml").read_text("utf-8"))
    return {rule["alert"]: rule for group in document["groups"] for rule in group["rules"]}


@cache
def cases() -> list[dict[str, Any]]:
    document = yaml.safe_load(
        (PROMETHEUS / "tests" / "exporters-rules.test.yaml").read_text("utf-8")
    )
    found: list[dict[str, Any]] = document["tests"]
    return found


def sent(alertname: str) -> Alert:
    """The alert as promtool found that Prometheus sends it: its labels are the expected ones of that rule's test."""
    labels = next(
        expected["exp_labels"]
        for case in cases()
        for test in case["alert_rule_test"]
        for expected in test["exp_alerts"]
        if test["alertname"] == alertname
    )
    now = datetime(2026, 11, 30, tzinfo=UTC)
    return Alert(
        status=AlertStatus.FIRING,
        labels={"alertname": alertname, **labels},
        annotations=rules()[alertname]["annotations"],
        starts_at=now,
        ends_at=now,
        generator_url="",
        fingerprint="0" * 16,
    )


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_alert_of_a_condition_gets_its_playbook_and_names_its_node(
    config: Config, condition: str
) -> None:
    found = from_alert(sent(condition), config)

    assert isinstance(found, Match)
    assert found.node == "n1"
    playbook = config.playbook(found.playbook)
    assert playbook is not None
    assert condition in playbook.proof.conditions


def test_no_playbook_takes_any_other_alert(config: Config) -> None:
    others = [each for each in rules() if each not in CONDITIONS]
    taken = [
        each for each in others if not isinstance(from_alert(alert_named(each), config), NoMatch)
    ]

    assert others
    assert taken == []


def alert_named(name: str) -> Alert:
    labels = {"alertname": name, "node": "n1", "condition": "GPUIsLost"}
    return replace(sent("GPUIsLost"), labels=labels)


def test_each_is_asked_about_the_condition_that_its_alert_is_about(config: Config) -> None:
    for playbook in config.playbooks:
        (name,) = alertnames(playbook)
        assert f'condition="{name}"' in rules()[name]["expr"]
        assert name in playbook.proof.conditions


def alertnames(playbook: Playbook) -> list[str]:
    return [
        matcher.value
        for matchers in playbook.match
        for matcher in matchers
        if matcher.name == "alertname"
    ]


# Alertmanager brings them.


def test_alertmanager_takes_its_example(amtool: str) -> None:
    done = subprocess.run(
        [amtool, "check-config", ALERTMANAGER], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_alertmanager_sends_what_playbooks_take_to_both_and_the_rest_to_one(
    amtool: str, config: Config
) -> None:
    taken = [name for playbook in config.playbooks for name in alertnames(playbook)]
    routed = {name: route(amtool, name) for name in taken}

    assert routed == {name: ["remediator", "alerts2gh"] for name in taken}
    assert route(amtool, "NodeOperationEscalated") == ["alerts2gh"]
    assert route(amtool, "RemediatorAbsent") == ["people", "alerts2gh"]


def route(amtool: str, alertname: str) -> list[str]:
    """The receivers of an alert."""
    done = subprocess.run(
        [
            amtool,
            *("config", "routes", "test", f"--config.file={ALERTMANAGER}"),
            *(f"alertname={alertname}", "node=n1"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return re.split(r"[,\s]+", done.stdout.strip())


def test_alertmanager_suppresses_nothing_that_is_acted_on() -> None:
    example = yaml.safe_load(ALERTMANAGER.read_text("utf-8"))

    assert "inhibit_rules" not in example
    assert "mute_time_intervals" not in ALERTMANAGER.read_text("utf-8")
    (webhook,) = example["receivers"][0]["webhook_configs"]
    assert webhook["max_alerts"] == 0
    assert webhook["http_config"]["authorization"]["credentials_file"]


# Files of their own.


def test_a_mistake_in_a_playbook_is_told_with_its_file(file: Path) -> None:
    (file.parent / "gpu-is-lost.yaml").write_text("playbooks: [{name: x, ladder: []}]\n")

    with pytest.raises(ConfigError) as error:
        load_settings(file, Config)

    assert error.value.mistakes
    assert all("gpu-is-lost.yaml: playbooks[0]" in each for each in error.value.mistakes)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(None, "cannot be read: No such file", id="a file that is not there"),
        pytest.param("playbooks: []\n", "give at least 1 entry", id="a file without playbooks"),
        pytest.param("leader: {}\n", "unknown key", id="a file that holds something else"),
        pytest.param("- name: x\n", "must be a mapping", id="a file that is a list"),
        pytest.param("playbooks: [\n", "not YAML", id="a file that is no YAML"),
    ],
)
def test_an_unusable_file_is_said(file: Path, text: str | None, told: str) -> None:
    broken = file.parent / "gpu-is-lost.yaml"
    broken.unlink() if text is None else broken.write_text(text)

    with pytest.raises(ConfigError) as error:
        load_settings(file, Config)

    assert told in "\n".join(error.value.mistakes)
    assert str(broken) in error.value.mistakes[0]


def test_the_mistakes_of_all_files_are_said_at_once_with_those_of_the_rest(file: Path) -> None:
    folder = file.parent
    (folder / "gpu-is-lost.yaml").write_text("playbooks: [{name: x, ladder: []}]\n")
    (folder / "nfs-mount-stuck.yaml").unlink()
    kept = yaml.safe_load((folder / "d-state-process.yaml").read_text("utf-8"))
    kept["playbooks"][0]["gates"] = {"windows": ["never"]}
    (folder / "d-state-process.yaml").write_text(yaml.safe_dump(kept))
    file.write_text(file.read_text("utf-8") + "max_active: 0\n")

    with pytest.raises(ConfigError) as error:
        load_settings(file, Config)

    told = error.value.mistakes
    assert any(each.startswith(f"{file}: max_active") for each in told)
    assert any(each.startswith(f"{folder / 'gpu-is-lost.yaml'}: playbooks[0]") for each in told)
    assert any(each.startswith(str(folder / "nfs-mount-stuck.yaml")) for each in told)
    assert not any("at least 1" in each and each.startswith(str(file)) for each in told)


def test_what_does_not_fit_together_is_said_beside_a_broken_file(file: Path) -> None:
    (file.parent / "gpu-is-lost.yaml").write_text("playbooks: [{name: x, ladder: []}]\n")
    kept = yaml.safe_load((file.parent / "d-state-process.yaml").read_text("utf-8"))
    kept["playbooks"][0]["gates"] = {"windows": ["never"]}
    (file.parent / "d-state-process.yaml").write_text(yaml.safe_dump(kept))

    with pytest.raises(ConfigError) as error:
        load_settings(file, Config)

    first, *others = error.value.mistakes
    assert "playbook d-state-process: no such window" in first
    assert others
    assert all("gpu-is-lost.yaml: playbooks[0]" in each for each in others)


def test_of_a_configuration_without_a_usable_playbook_the_broken_files_are_said(
    file: Path,
) -> None:
    for each in PLAYBOOKS:
        (file.parent / each.name).write_text("playbooks: []\n")

    with pytest.raises(ConfigError) as error:
        load_settings(file, Config)

    assert [each.split(":")[0] for each in error.value.mistakes] == [
        str(file.parent / each)
        for each in yaml.safe_load(file.read_text("utf-8"))["playbook_files"]
    ]


def test_playbooks_of_files_come_after_those_of_the_configuration(file: Path) -> None:
    own = yaml.safe_load((REMEDIATOR / "playbooks" / "gpu-is-lost.yaml").read_text("utf-8"))
    own["playbooks"][0] |= {"name": "mine", "match": ['alertname="Mine"']}
    text = file.read_text("utf-8")
    file.write_text(text + yaml.safe_dump(own))

    found = [each.name for each in load_settings(file, Config).playbooks]

    assert found == ["mine", *(each.stem for each in PLAYBOOKS)]


def test_a_playbook_that_two_files_have_is_refused(file: Path) -> None:
    (file.parent / "gpu-is-lost.yaml").write_text(
        (file.parent / "d-state-process.yaml").read_text("utf-8")
    )

    with pytest.raises(ConfigError) as error:
        load_settings(file, Config)

    (told,) = [each for each in error.value.mistakes if "another one has this name" in each]
    assert "playbook d-state-process: " in told


def test_a_changed_playbook_is_a_changed_configuration(file: Path) -> None:
    got: list[Config] = []
    watcher = ConfigWatcher(
        file,
        Config,
        on_reload=got.append,
        registry=new_registry("remediator", "0"),
        log=get_logger("test"),
        service="remediator",
    )
    watcher.start()
    try:
        path = file.parent / "gpu-is-lost.yaml"
        path.write_text(path.read_text("utf-8").replace("dry_run: true", "dry_run: false"))
        wait_until("the new configuration", lambda: bool(got))
    finally:
        watcher.stop()

    assert [each.name for each in got[-1].playbooks if not each.dry_run] == ["gpu-is-lost"]
