"""The way from node-operation-controller that docs/migrating.md shows works as it stands there."""

import re
from pathlib import Path

import pytest
import yaml

from remediator.__main__ import main
from tests.remediator.test_import import a_budget, a_remediation, a_template

GUIDE = Path(__file__).parents[2] / "docs" / "migrating.md"


def section() -> str:
    text = GUIDE.read_text("utf-8")
    return text.partition("\n## From node-operation-controller")[2].partition("\n## ")[0]


def commands() -> list[list[str]]:
    """The commands of ours that it shows, as words."""
    shown = re.findall(r"(?:^|`)\s*remediator ([^`\n]+)", section(), re.MULTILINE)
    return [line.split() for line in shown]


def test_the_steps_lead_to_a_configuration_that_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    manifests = [
        a_template(evictionStrategy="None", job={"activeDeadlineSeconds": 90, "backoffLimit": 2}),
        a_remediation(nodeSelector={"pool": "gpu"}),
        a_budget(maxUnavailable=2, taintTargets=[{"key": "x"}]),
    ]
    exported = {"apiVersion": "v1", "kind": "List", "items": manifests}
    (tmp_path / "controller.yaml").write_text(yaml.safe_dump(exported))
    (tmp_path / "webhook-token").write_text("sesame")
    (convert,) = (each for each in commands() if each[:2] == ["import", "controller.yaml"])
    (check,) = (each for each in commands() if each[0] == "check-config")

    assert main(convert[: convert.index(">")]) == 1
    imported = capsys.readouterr().out
    (around,) = re.findall(r"```yaml\n(.*?)```", section(), re.DOTALL)
    around = re.sub(r"^   ", "", around, flags=re.MULTILINE)
    (tmp_path / check[1]).write_text(around + imported)

    assert main(check) == 0
    assert "in dry run, so that nothing is touched: bad-node" in capsys.readouterr().out
    notes = [line for line in imported.splitlines() if line.startswith("# - ")]
    assert any("taintTargets" in note for note in notes)


def test_every_field_that_a_note_names_is_in_the_tables() -> None:
    source = (Path(__file__).parents[2] / "remediator/importing").glob("*.py")
    text = "".join(path.read_text("utf-8") for path in source)
    fields = set(re.findall(r'"(\w+)(?: \{\w+\})? has no counterpart', text)) - {"Job"}

    assert len(fields) >= 3
    assert {field for field in fields if f"`{field}`" not in section()} == set()
