"""The image's recipe agrees with the project and the manifests. Building it is for where a container engine is."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

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


def test_the_process_gets_its_signals_itself() -> None:
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", RECIPE, re.MULTILINE)
    (arguments,) = re.findall(r"^CMD (.*)$", RECIPE, re.MULTILINE)
    (container,) = loaded("deployment.yaml")["spec"]["template"]["spec"]["containers"]

    assert json.loads(entry) == ["alerts2gh"]
    assert json.loads(arguments) == container["args"]
    assert entry[2:-2] in PROJECT["project"]["scripts"]


def test_the_version_is_the_projects_everywhere() -> None:
    version = PROJECT["project"]["version"]
    deploying = (ROOT / "docs" / "deploying.md").read_text("utf-8")
    tags = re.findall(r"nodemend:([\d.]+)|newTag: ([\d.]+)", deploying + RECIPE)

    assert [each["newTag"] for each in loaded("kustomization.yaml")["images"]] == [version]
    assert {one or other for one, other in tags} == {version}
