"""Each wish of the talk that this service comes from, as a manifest before and after.

A file of golden/ is two documents: what somebody submits, and what is stored.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_admission.mutation import Unchanged
from gpu_admission.validation import Allowed, validate_pod
from tests.gpu_admission.admitting import (
    ANNOTATION,
    LABEL,
    NOW,
    TEAM,
    admitted,
    asking,
    catalogue_of,
    decide,
    models_of,
    settings_of,
)

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.stem for path in GOLDEN.glob("*.yaml"))
ORIGIN = catalogue_of("origin")
TAKEN_OUT = catalogue_of(
    "origin",
    models=[
        {**each, "exclude_from_any": {"reason": "maintenance"}} if each["id"] == "a100" else each
        for each in settings_of("origin")["models"]
    ],
)


def golden(case: str) -> tuple[dict[str, Any], dict[str, Any]]:
    text = (GOLDEN / f"{case}.yaml").read_text("utf-8")
    before, after = yaml.safe_load_all(text.replace("GENERATION", ORIGIN.generation))
    return before, after


def test_the_cases_are_all_there() -> None:
    assert len(CASES) >= 12


@pytest.mark.parametrize("case", CASES)
def test_what_is_stored_is_the_golden_manifest(case: str) -> None:
    before, after = golden(case)

    assert admitted(before, ORIGIN) == after


@pytest.mark.parametrize("case", CASES)
def test_a_second_call_changes_nothing(case: str) -> None:
    _, after = golden(case)

    assert isinstance(decide(after, ORIGIN), Unchanged)


@pytest.mark.parametrize("case", CASES)
def test_what_is_stored_passes_validation(case: str) -> None:
    _, after = golden(case)

    assert validate_pod(after, TEAM, ORIGIN, NOW) == Allowed()


@pytest.mark.parametrize("case", CASES)
def test_the_golden_manifest_would_show_a_change(case: str) -> None:
    """The comparison can fail: with another amount the result is another."""
    before, after = golden(case)
    resources = before["spec"]["containers"][0]["resources"]
    for part in ("limits", "requests"):
        resources[part] = dict.fromkeys(resources[part], "3")

    assert admitted(before, ORIGIN) != after


def test_taking_the_a100_out_of_any_touches_no_manifest() -> None:
    """Slide 13: the admin edits the catalogue, and only explicit requests get an A100."""
    assert models_of(asking("any-32gb"), catalogue=ORIGIN) == ["v100-32gb", "a100-80gb"]
    assert models_of(asking("any-32gb"), catalogue=TAKEN_OUT) == ["v100-32gb"]
    assert models_of(asking("a100"), catalogue=TAKEN_OUT) == ["a100-80gb"]


def test_mn_core_is_never_any() -> None:
    for key in ("any", "any-24gb", "any-32gb"):
        assert "mncore-32gb" not in models_of(asking(key), catalogue=ORIGIN)


def test_the_golden_manifests_use_the_label_and_the_annotation_of_the_docs() -> None:
    text = "".join((GOLDEN / f"{case}.yaml").read_text("utf-8") for case in CASES)

    assert LABEL in text
    assert ANNOTATION in text
