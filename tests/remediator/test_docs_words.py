"""Every word, mark, field and exit code of remediator is explained where people look for it, and none is invented."""

import inspect
import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml

from chassis import contracts
from chassis.contracts import TimelineOutcome
from remediator import cluster
from remediator.cluster import EvictionKind, JobState
from remediator.config import KINDS, DrainStrategy
from remediator.gates import GATES
from remediator.intake import Result
from remediator.operation import (
    AttemptOutcome,
    CauseKind,
    IntentAction,
    Phase,
    Reason,
    Wish,
    naming,
    reasons,
)
from remediator.repair_jobs import Ending, jobs
from remediator.repairs import SCRIPTS, script
from remediator.triggers import NoMatchReason
from tests.project.test_docs import CODE, named, one_row_less, rows

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "remediator.md"
OPERATIONS = ROOT / "docs" / "operations.md"


WORDS: dict[str, set[str]] = {
    "phase": set(Phase),
    "reason": set(Reason),
    "outcome": set(TimelineOutcome),
    "gate": set(GATES),
    "fault": {*NoMatchReason, *Result},
    "repair": set(KINDS),
    "strategy": set(DrainStrategy),
    "eviction": set(EvictionKind),
    "cause": set(CauseKind),
    "wish": set(Wish),
    "intent": set(IntentAction),
    "attempt": set(AttemptOutcome),
    "Job": set(JobState),
    "ending": set(Ending),
}
"""The tables of docs/remediator.md by their first column, and what each must explain."""


@pytest.mark.parametrize("first", WORDS)
def test_every_word_is_explained_once_and_none_is_invented(first: str) -> None:
    assert sorted(named(GUIDE.read_text("utf-8"), first=first)) == sorted(map(str, WORDS[first]))


@pytest.mark.parametrize("first", WORDS)
def test_a_word_that_loses_its_row_is_noticed(first: str) -> None:
    text = GUIDE.read_text("utf-8")
    whole = sorted(named(text, first=first))
    lines = {f"| `{word}` |" for word in WORDS[first]}
    less = [
        left
        for line, left in one_row_less(text)
        if any(line.startswith(start) for start in lines)
        and sorted(named(left, first=first)) != whole
    ]

    assert len(less) == len(WORDS[first])


def test_every_enum_of_an_operation_is_among_the_tables() -> None:
    words = {
        each
        for _, each in inspect.getmembers(reasons, inspect.isclass)
        if issubclass(each, StrEnum) and each is not StrEnum
    }

    # Who began an operation stands in the row of its field.
    told = {frozenset(map(str, each)) for each in WORDS.values()}
    assert {each.__name__ for each in words if frozenset(map(str, each)) not in told} == {"Trigger"}


# Escalated.


def reasons_of_escalation() -> set[str]:
    """Those that the code escalates with, by its own words; what a failed attempt hands on is apart."""
    source = "".join(
        path.read_text("utf-8") for path in sorted((ROOT / "remediator/lifecycle").glob("*.py"))
    )
    named_ones = re.findall(r"(?:escalate\(\s*case,|Phase\.ESCALATED,)\s*Reason\.(\w+)", source)
    by_drain = {Reason.DRAIN_DEADLINE, Reason.POD_CANNOT_GO}
    by_proof = {Reason.NOT_PROVEN, Reason.CANNOT_PROVE}
    return {Reason[name].value for name in named_ones} | by_drain | by_proof


def test_what_to_do_is_said_for_each_reason_of_an_escalation() -> None:
    told = named(OPERATIONS.read_text("utf-8"), first="escalated because of")

    assert len(reasons_of_escalation()) > 10
    assert reasons_of_escalation() - set(told) == set()
    assert set(told) <= set(Reason)


def test_what_to_do_is_said_for_each_gate() -> None:
    told = named(OPERATIONS.read_text("utf-8"), first="held by")

    assert sorted(told) == sorted(GATES)


# Exit codes.


def test_the_exit_codes_of_repairs_are_those_of_the_scripts() -> None:
    shown = set(named(GUIDE.read_text("utf-8"), first="exit code"))
    texts = "".join(map(script, SCRIPTS))
    ours = {"0", *re.findall(r"\bfinish \w+ (\d+) ", texts)}
    constants = {str(value) for name, value in vars(cluster).items() if name.startswith("EXIT_")}

    assert shown == ours
    assert constants == ours - {"0"}


# Marks and fields.


def marks_of_the_code() -> set[str]:
    of_naming = {value for value in vars(naming).values() if str(value).startswith("nodemend.dev/")}
    shared = {
        contracts.OPERATION_TAINT,
        contracts.PROBE_REQUEST_ANNOTATION,
        contracts.PROBE_RESULT_ANNOTATION,
        contracts.SCALE_DOWN_DISABLED_ANNOTATION,
    }
    return {*of_naming, *shared, jobs.NODE_ANNOTATION}


def test_every_mark_on_an_object_is_documented_and_none_is_invented() -> None:
    assert set(named(GUIDE.read_text("utf-8"), first="mark")) == marks_of_the_code()


def test_the_variables_of_jobs_are_documented() -> None:
    source = inspect.getsource(jobs._environment)

    assert sorted(named(GUIDE.read_text("utf-8"), first="variable")) == sorted(
        re.findall(r'"(NODEMEND_\w+)":', source)
    )


def schema() -> dict[str, Any]:
    """What the definition says of spec and status."""
    text = (ROOT / "deploy/remediator/crd.yaml").read_text("utf-8")
    whole = yaml.safe_load(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return {
        f"{part}.{name}": field
        for part in ("spec", "status")
        for name, field in whole["properties"][part]["properties"].items()
    }


def test_every_field_of_the_object_is_documented_and_none_is_invented() -> None:
    assert set(named(GUIDE.read_text("utf-8"), first="field")) == set(schema())


def test_the_parts_of_lists_and_objects_are_told_in_their_row() -> None:
    told = {
        name: set(CODE.findall(cells[1]))
        for cells in rows(GUIDE.read_text("utf-8"), first="field")
        for name in CODE.findall(cells[0])
    }
    untold = {
        name: missing
        for name, field in schema().items()
        if (missing := set(_inner(field)) - told[name])
    }

    assert untold == {}


def _inner(field: dict[str, Any]) -> dict[str, Any]:
    return field.get("properties") or field.get("items", {}).get("properties") or {}
