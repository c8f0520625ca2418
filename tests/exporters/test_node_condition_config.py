"""What the configuration of node-conditions may say: one file for each way to be wrong, and what the rest means."""

import io
from datetime import timedelta
from pathlib import Path

import pytest

from chassis.config import load_settings
from chassis.errors import ConfigError
from exporters.__main__ import main
from exporters.commands import check_config
from exporters.config.node_conditions import NodeConditionsSettings
from exporters.node_condition_lines import Family

BAD = Path(__file__).parents[1] / "bad_configs" / "exporters"
PREFIX = "node_conditions_"

MISTAKES = {
    "context": "kubernetes: context names a part of a kubeconfig file; set kubeconfig, too",
    "driver_labels": "node_info.driver_labels[0]: must be a list, not a text; start each entry with a dash",
    "family": "families[1]: must be 'condition', 'reason', 'last_transition', 'last_heartbeat', 'stale', 'info' or 'labels'",
    "label_key": "node_labels.zone: not the key of a Kubernetes label or resource, like example.org/zone",
    "label_name": "node_labels.my-zone: not the name of a metric label; use letters, digits and _",
    "label_twice": 'line 3: key "zone" is already on line 2; keep one of them',
    "log_level": "log_level: must be 'debug', 'info', 'warning' or 'error'",
    "no_family": "families: name at least one family, or leave the key out for all",
    "only_labels": "families has labels only, and node_labels names none; add some",
    "resource": "node_info.gpu_resources[0]: not the key of a Kubernetes label or resource, like example.org/zone",
    "selector": "node_selector: is empty; leave the key out if nothing is meant",
    "shard_index": "shard: index 2 is not below total 2; shards count from 0",
    "shard_total": "shard.total: must be greater than or equal to 1",
    "stale_number": "stale.period: the number 300 has no unit; write a number and a unit, like 30s or 1h30m",
    "stale_period": "stale: period must be at least 1s",
    "unknown_key": 'family: unknown key; did you mean "families"?',
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_place_and_what_to_do(name: str) -> None:
    file = BAD / f"{PREFIX}{name}.yaml"

    with pytest.raises(ConfigError) as caught:
        load_settings(file, NodeConditionsSettings)

    assert caught.value.mistakes == (f"{file}: {MISTAKES[name]}",)


def test_each_bad_file_has_its_mistake() -> None:
    assert {path.stem.removeprefix(PREFIX) for path in BAD.glob(f"{PREFIX}*")} == set(MISTAKES)


def test_an_empty_file_serves_all_nodes_and_all_families_but_labels() -> None:
    policy = NodeConditionsSettings().lines_policy()

    assert policy.families == set(Family) - {Family.LABELS}
    assert policy.stale_after == timedelta(minutes=15)


def test_the_shard_of_the_command_line_goes_before_the_files() -> None:
    settings = NodeConditionsSettings.model_validate({"shard": {"total": 3}})

    assert [settings.for_shard(index).shard.index for index in (None, 0, 2)] == [0, 0, 2]


@pytest.mark.parametrize("index", [-1, 3])
def test_a_shard_that_does_not_exist_is_refused(index: int) -> None:
    settings = NodeConditionsSettings.model_validate({"shard": {"total": 3}})

    with pytest.raises(ConfigError, match=r"not below shard\.total \(3\)"):
        settings.for_shard(index)


def test_check_config_says_whether_a_file_can_be_used(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", BAD / f"{PREFIX}no_family.yaml"
    good.write_text("families: [condition]\n")
    out, err = io.StringIO(), io.StringIO()

    statuses = [check_config("node-conditions", file, out, err) for file in (good, bad)]

    assert statuses == [0, 2]
    assert out.getvalue() == f"{good}: can be used by node-conditions\n"
    assert err.getvalue() == f"{bad}: {MISTAKES['no_family']}\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("families: []\n", "families: name at least one family"),
        ("kubernetes: {kubeconfig: gone}\n", "gone"),
        ("shard: {total: 2}\n", "--shard-index: 2 is not below shard.total (2)"),
    ],
)
def test_a_service_that_cannot_start_says_why_in_one_line_and_ends_with_2(
    tmp_path: Path, content: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node-conditions.yaml"
    file.write_text(content)
    shard = ["--shard-index", "2"] if "shard" in content else []

    status = main(["node-conditions", "-c", str(file), *shard])

    said = [line for line in capsys.readouterr().err.splitlines() if '"event"' not in line]
    assert status == 2
    assert told in said[0]
    assert len(said) == 1
