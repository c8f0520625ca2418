"""The image's recipe agrees with the project and the manifests. Building it is for where a container engine is."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "deploy" / "image" / "Containerfile").read_text("utf-8")
BASE = ROOT / "deploy" / "alerts2gh" / "base"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def loaded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((BASE / name).read_text("utf-8"))
    return found


def test_every_package_of_the_project_is_copied() -> None:
    packages = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]

    assert {each.rstrip("*") for each in packages} == set(
        re.findall(r"^COPY (\w+) \./\1$", RECIPE, re.MULTILINE)
    )


def test_everything_that_is_fetched_has_its_hash_checked() -> None:
    fetching = [
        line
        for line in RECIPE.replace("\\\n", "").splitlines()
        if re.search(r"\bpip (?:install|download|wheel)\b", line)
    ]

    assert fetching
    for line in fetching:
        for command in re.findall(r"pip (?:install|download|wheel)[^&]*", line):
            assert "--no-index" in command or "--require-hashes" in command


def test_the_user_is_the_one_of_the_manifests_and_a_number() -> None:
    security = loaded("deployment.yaml")["spec"]["template"]["spec"]["securityContext"]
    (user,) = re.findall(r"^USER (.*)$", RECIPE, re.MULTILINE)

    assert user == f"{security['runAsUser']}:{security['runAsGroup']}" == "10001:10001"


def stages() -> dict[str, str]:
    """What each stage of the recipe does, by its name, in order."""
    parts = re.split(r"^FROM \S+ AS (\S+)\n", RECIPE, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("command", ["alerts2gh", "exporters"])
def test_the_process_gets_its_signals_itself(command: str) -> None:
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", stages()[command], re.MULTILINE)

    assert json.loads(entry) == [command]
    assert command in PROJECT["project"]["scripts"]


def test_without_a_target_the_image_is_the_one_of_alerts2gh_and_starts_it() -> None:
    (arguments,) = re.findall(r"^CMD (.*)$", stages()["alerts2gh"], re.MULTILINE)
    (container,) = loaded("deployment.yaml")["spec"]["template"]["spec"]["containers"]

    assert list(stages())[-1] == "alerts2gh"
    assert json.loads(arguments) == container["args"]


def test_each_image_has_the_extras_of_its_command() -> None:
    extras = {
        command: re.findall(r'"nodemend\[(\w+)\]"', stages()[f"build-{command}"])
        for command in ("alerts2gh", "exporters")
    }

    assert extras == {"alerts2gh": ["postgres"], "exporters": ["gpu"]}


def test_the_version_is_the_projects_everywhere() -> None:
    version = PROJECT["project"]["version"]
    deploying = (ROOT / "docs" / "deploying.md").read_text("utf-8")
    tags = re.findall(r"nodemend(?:-exporters)?:([\d.]+)|newTag: ([\d.]+)", deploying + RECIPE)
    bases = [BASE, *(ROOT / "deploy" / "exporters").iterdir()]
    kustomizations = [yaml.safe_load((base / "kustomization.yaml").read_text()) for base in bases]

    assert [each["newTag"] for one in kustomizations for each in one["images"]] == [version] * 4
    assert {one or other for one, other in tags} == {version}
