"""The example playbooks that are shipped are accepted as they are, and there is one for each condition."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis.contracts import ConditionType
from remediator.config import Config, Playbook

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = sorted((DEPLOY / "remediator/playbooks").glob("*.yaml"))


def config_of(*files: Path) -> Config:
    playbooks: list[Any] = []
    for file in files:
        playbooks += yaml.safe_load(file.read_text("utf-8"))["playbooks"]
    return Config.model_validate(
        {"playbooks": playbooks, "alertmanagers": [{"url": "http://alertmanager:9093"}]}
    )


def alert_of(playbook: Playbook) -> str:
    ((matcher,),) = playbook.match
    return matcher.value


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_an_example_is_accepted_and_starts_in_dry_run(file: Path) -> None:
    (playbook,) = config_of(file).playbooks

    assert playbook.name == file.stem
    assert playbook.dry_run
    assert playbook.ladder[-1].repair.hand_over is not None


def test_there_is_one_for_each_condition_and_they_fit_together() -> None:
    config = config_of(*FILES)

    assert sorted(map(alert_of, config.playbooks)) == sorted(map(str, ConditionType))


def test_each_takes_an_alert_that_the_shipped_rules_make() -> None:
    rules = (DEPLOY / "prometheus/exporters-rules.yaml").read_text("utf-8")
    alerts = set(re.findall(r"- alert: (\S+)", rules))

    assert {alert_of(each) for each in config_of(*FILES).playbooks} <= alerts


def test_each_proves_its_own_condition_gone() -> None:
    for playbook in config_of(*FILES).playbooks:
        assert alert_of(playbook) in playbook.proof.conditions
