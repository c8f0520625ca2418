"""Holds tests/known_bugs.yaml to its promise: each public bug has a test here, or a reason why it needs none."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "known_bugs.yaml"
SERVICES = {"alerts2gh", "exporters", "remediator", "gpu_admission", "chassis"}
REQUIRED = {"id", "service", "source", "rule", "input"}
OPTIONAL = {"test", "why_none"}


def complaints(document: Any, root: Path) -> list[str]:
    """Everything that is wrong with the file, one line each."""
    if not isinstance(document, dict) or not isinstance(document.get("bugs"), list):
        return ["the file must be a mapping with a list `bugs`"]
    entries = document["bugs"]
    open_until = document.get("open_until", {})
    found = [f"unknown key {key!r}" for key in document if key not in {"bugs", "open_until"}]
    for number, entry in enumerate(entries):
        found += _shape(number, entry)
    if found:
        return found
    found += _twice(entries)
    for entry in entries:
        found += _coverage(entry, open_until, root)
    return [*found, *_open_list(open_until, entries)]


def _shape(number: int, entry: Any) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield f"entry {number} is no mapping"
        return
    name = entry.get("id", f"entry {number}")
    for key in sorted(REQUIRED - set(entry)):
        yield f"{name}: {key} is missing"
    for key, value in entry.items():
        if key not in REQUIRED | OPTIONAL:
            yield f"{name}: unknown field {key!r}"
        elif not isinstance(value, str) or not value.strip():
            yield f"{name}: {key} must be a text that is not empty"
    yield from _wording(name, entry)


def _wording(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    if entry.get("service") not in SERVICES:
        yield f"{name}: service must be one of {', '.join(sorted(SERVICES))}"
    if not re.search(r"[\w.-]+/[\w.-]+", str(entry.get("source", ""))):
        yield f"{name}: source must name a public OWNER/REPO"
    if not str(entry.get("rule", "")).rstrip().endswith("."):
        yield f"{name}: rule must be a sentence"


def _twice(entries: list[Mapping[str, str]]) -> Iterator[str]:
    for name, count in Counter(entry["id"] for entry in entries).items():
        if count > 1:
            yield f"{name}: the id is used {count} times"


def _coverage(entry: Mapping[str, str], open_until: Any, root: Path) -> Iterator[str]:
    test, why = entry.get("test"), entry.get("why_none")
    if test and why:
        yield f"{entry['id']}: has a test and a reason for none; keep one"
    elif test and not node_exists(test, root):
        yield f"{entry['id']}: there is no test {test}"
    elif not test and not why and exists(entry["service"], root):
        listed = {each.get("id") for each in open_until.get(entry["service"], [])}
        if entry["id"] not in listed:
            yield f"{entry['id']}: {entry['service']} exists, so give a test or why_none"


def _open_list(open_until: Any, entries: list[Mapping[str, str]]) -> Iterator[str]:
    by_id = {entry["id"]: entry for entry in entries}
    for service, listed in open_until.items():
        for each in listed:
            entry = by_id.get(each.get("id", ""))
            if entry is None or entry["service"] != service:
                yield f"open_until: {each.get('id')} is no entry of {service}"
            elif entry.get("test") or entry.get("why_none"):
                yield f"open_until: {each['id']} is covered; take it off the list"
            if not str(each.get("reason", "")).strip().endswith("."):
                yield f"open_until: {each.get('id')} needs a reason, as a sentence"


def exists(service: str, root: Path) -> bool:
    """Whether a service has modules, and not only an empty package."""
    return any(path.name != "__init__.py" for path in (root / service).rglob("*.py"))


def node_exists(node: str, root: Path) -> bool:
    """Whether `tests/…/file.py::test_name` (or `::Class::test_name`) is defined; parameters are left out of ids."""
    file, _, names = node.partition("::")
    path = root / file
    if not re.fullmatch(r"tests/[\w/]+\.py", file) or not names or not path.is_file():
        return False
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    *classes, function = names.split("::")
    for name in classes:
        body = next((s.body for s in body if isinstance(s, ast.ClassDef) and s.name == name), [])
    functions = {s.name for s in body if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)}
    return function.startswith("test_") and function in functions


def test_every_known_bug_has_a_test_or_a_reason_for_none() -> None:
    document = yaml.safe_load(FILE.read_text(encoding="utf-8"))

    assert complaints(document, ROOT) == []


def test_all_four_services_are_represented() -> None:
    document = yaml.safe_load(FILE.read_text(encoding="utf-8"))

    assert {entry["service"] for entry in document["bugs"]} >= SERVICES - {"chassis"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A tiny project in which alerts2gh exists and exporters does not."""
    (tmp_path / "alerts2gh").mkdir()
    (tmp_path / "alerts2gh" / "incident.py").write_text("")
    (tmp_path / "exporters").mkdir()
    (tmp_path / "exporters" / "__init__.py").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(
        "def test_one(): ...\ndef helper(): ...\nclass TestIt:\n    def test_two(self): ...\n"
    )
    return tmp_path


def an_entry(**changes: str | None) -> dict[str, str]:
    entry: dict[str, str | None] = {
        "id": "x-1",
        "service": "alerts2gh",
        "source": "owner/repo#1",
        "rule": "It holds.",
        "input": "one alert",
        "test": "tests/test_it.py::test_one",
    }
    return {key: value for key, value in (entry | changes).items() if value is not None}


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(an_entry(), id="a test that exists"),
        pytest.param(an_entry(test="tests/test_it.py::TestIt::test_two"), id="a test in a class"),
        pytest.param(an_entry(test=None, why_none="It cannot."), id="a reason for none"),
        pytest.param(an_entry(test=None, service="exporters"), id="a service that does not exist"),
    ],
)
def test_a_good_entry_is_taken(project: Path, entry: dict[str, str]) -> None:
    assert complaints({"bugs": [entry]}, project) == []


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (an_entry(test=None), "give a test or why_none"),
        (an_entry(test="tests/test_it.py::test_three"), "there is no test"),
        (an_entry(test="tests/test_it.py::helper"), "there is no test"),
        (an_entry(test="tests/gone.py::test_one"), "there is no test"),
        (an_entry(test="tests/../tests/test_it.py::test_one"), "there is no test"),
        (an_entry(why_none="And yet."), "keep one"),
        (an_entry(test=None, why_none=" "), "not empty"),
        (an_entry(service="other"), "service must be one of"),
        (an_entry(rule="no sentence"), "must be a sentence"),
        (an_entry(source="somewhere"), "OWNER/REPO"),
        (an_entry(input=None), "input is missing"),
        (an_entry() | {"due": "B"}, "unknown field"),
    ],
)
def test_a_bad_entry_is_told(project: Path, entry: dict[str, str], told: str) -> None:
    assert any(told in line for line in complaints({"bugs": [entry]}, project))


def test_an_id_used_twice_is_told(project: Path) -> None:
    assert complaints({"bugs": [an_entry(), an_entry()]}, project) == [
        "x-1: the id is used 2 times"
    ]


@pytest.mark.parametrize(
    ("entry", "listed", "told"),
    [
        (an_entry(test=None), {"id": "x-1", "reason": "The end-to-end test comes with it."}, None),
        (an_entry(test=None), {"id": "x-1"}, "needs a reason"),
        (an_entry(), {"id": "x-1", "reason": "It is late."}, "take it off the list"),
        (an_entry(), {"id": "x-2", "reason": "It is late."}, "is no entry of alerts2gh"),
    ],
)
def test_an_open_entry_needs_a_reason_and_leaves_the_list_once_covered(
    project: Path, entry: dict[str, str], listed: dict[str, str], told: str | None
) -> None:
    found = complaints({"bugs": [entry], "open_until": {"alerts2gh": [listed]}}, project)

    assert [told in line for line in found] == [True] if told else found == []
