"""The custom resource definition and the code know the same words, limits and fields."""

from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis.contracts import TimelineOutcome
from remediator.operation import (
    MAX_ATTEMPTS,
    MAX_CAUSES,
    MAX_HISTORY,
    AttemptOutcome,
    CauseKind,
    IntentAction,
    Phase,
    Reason,
    Trigger,
    Wish,
)

CRD = yaml.safe_load((Path(__file__).parents[2] / "deploy/remediator/crd.yaml").read_text("utf-8"))
VERSION = CRD["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]


def at(path: str) -> dict[str, Any]:
    """The schema of a field; `[]` are a list's entries."""
    found: dict[str, Any] = SCHEMA
    for key in path.split("."):
        found = found["items"] if key == "[]" else found["properties"][key]
    return found


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("status.phase", Phase),
        ("status.reason", Reason),
        ("status.wish", Wish),
        ("status.outcome", TimelineOutcome),
        ("status.intent.action", IntentAction),
        ("status.attempts.[].outcome", AttemptOutcome),
        ("status.history.[].phase", Phase),
        ("status.history.[].reason", Reason),
        ("spec.trigger", Trigger),
        ("spec.causes.[].kind", CauseKind),
    ],
)
def test_the_definition_takes_exactly_the_words_of_the_code(
    path: str, words: type[StrEnum]
) -> None:
    assert at(path)["enum"] == [each.value for each in words]


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("spec.causes", MAX_CAUSES),
        ("status.attempts", MAX_ATTEMPTS),
        ("status.history", MAX_HISTORY),
    ],
)
def test_lists_are_bounded_as_in_the_code(path: str, most: int) -> None:
    assert at(path)["maxItems"] == most


def test_people_see_phase_node_playbook_rung_reason_and_age() -> None:
    shown = [each["name"] for each in VERSION["additionalPrinterColumns"]]

    assert [each for each in shown if each != "Message"] == [
        "Phase",
        "Node",
        "Playbook",
        "Rung",
        "Reason",
        "Age",
    ]


def test_status_is_written_apart_from_spec() -> None:
    assert CRD["spec"]["scope"] == "Cluster"
    assert VERSION["subresources"] == {"status": {}}
