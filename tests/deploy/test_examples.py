"""The examples and what the documents quote: the programs that read them take them, and they name what exists."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts2gh.config import Config
from chassis.config import load_settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ALERTMANAGER = ROOT / "deploy" / "alertmanager" / "alerts2gh.example.yml"
EXAMPLE = ROOT / "deploy" / "alerts2gh" / "alerts2gh.example.yaml"
MIGRATING = DOCS / "migrating.md"

CODE = re.compile(r"`([^`]+)`")
KEY = re.compile(
    r"(?:serving|database|credentials|route|policy|auth|storm|limits|recovery|alertmanagers)"
    r"(?:[.\[][\w.\[\]]+)?"
)


def usable(text: str, folder: Path) -> Config:
    """What `check-config` says of it, once the secrets that it names are there."""
    for name in re.findall(r"_file: ([\w./-]+)", text):
        (folder / Path(name).name).write_text("made up")
    file = folder / "alerts2gh.yaml"
    file.write_text(text.replace("/etc/alerts2gh/secrets/", ""))
    return load_settings(file, Config)


def documented_keys() -> set[str]:
    lines = (DOCS / "configuration.md").read_text("utf-8").splitlines()
    return {
        key for line in lines if line.startswith("| `") for key in CODE.findall(line.split("|")[1])
    }


# Alertmanager.


def test_alertmanager_takes_its_example(amtool: str) -> None:
    done = subprocess.run(
        [amtool, "check-config", ALERTMANAGER], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def alertmanager() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(ALERTMANAGER.read_text("utf-8"))
    return found


def test_alertmanager_sends_resolved_messages_whole_groups_and_the_token() -> None:
    receivers = {each["name"]: each["webhook_configs"] for each in alertmanager()["receivers"]}
    (webhook,) = receivers["alerts2gh"]

    assert webhook["url"].endswith(":8080/v1/webhook")
    assert (webhook["send_resolved"], webhook["max_alerts"]) == (True, 0)
    assert webhook["http_config"]["authorization"]["credentials_file"]


def test_alertmanager_suppresses_nothing_and_tells_somebody_else_of_alerts2gh() -> None:
    config = alertmanager()
    own = config["route"]["routes"][0]

    assert "inhibit_rules" not in config
    assert own["matchers"] == ['alertname=~"Alerts2gh.*"']
    assert (own["receiver"], own["continue"]) == ("people", True)


# alerts2gh.


def test_alerts2gh_takes_its_example(tmp_path: Path) -> None:
    config = usable(EXAMPLE.read_text("utf-8"), tmp_path)

    assert [route.name for route in config.route.routes] == ["gpu", "storage"]


def test_alerts2gh_takes_the_configuration_for_those_who_migrate(tmp_path: Path) -> None:
    block, *_ = re.findall(r"```yaml\n(.*?)```", MIGRATING.read_text("utf-8"), re.DOTALL)
    text = re.sub("^ {3}", "", block, flags=re.MULTILINE)

    config = usable(text, tmp_path)

    assert config.adopt_authors == ("old-bridge",)


@pytest.mark.parametrize("name", ["migrating.md", "deploying.md"])
def test_the_documents_name_only_keys_that_exist(name: str) -> None:
    text = re.sub(r"```.*?```", "", (DOCS / name).read_text("utf-8"), flags=re.DOTALL)
    spans = CODE.findall(text)
    keys = {span.partition(":")[0] for span in spans if KEY.fullmatch(span.partition(":")[0])}

    assert keys
    assert keys - documented_keys() == set()


@pytest.mark.parametrize("name", sorted(path.name for path in DOCS.glob("*.md")))
def test_the_documents_link_only_to_what_exists(name: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", (DOCS / name).read_text("utf-8")):
        path, _, anchor = link.partition("#")
        if path.startswith("http"):
            continue
        file = DOCS / path if path else DOCS / name
        assert file.resolve().is_file(), link
        if anchor:
            assert anchor in anchors(file.read_text("utf-8")), link


def anchors(markdown: str) -> set[str]:
    """The anchors that GitHub makes of headings: lower case, no punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.*)$", markdown, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
