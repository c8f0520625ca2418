"""Every reason of a condition is explained in the documentation, and none is invented."""

from pathlib import Path

from chassis.contracts import PROBLEM_REASONS, ConditionReason
from tests.project.test_docs import CODE, named, one_row_less, rows

TEXT = (Path(__file__).parents[2] / "docs" / "exporters.md").read_text("utf-8")
HEADING = "Reasons"
PROBLEMS = frozenset().union(*PROBLEM_REASONS.values())


def test_every_reason_is_explained_once_and_none_is_invented() -> None:
    assert sorted(named(TEXT, HEADING)) == sorted(ConditionReason)


def test_every_reason_stands_beside_the_status_that_it_goes_with() -> None:
    told = {CODE.findall(name)[0]: (status, bool(means)) for name, status, means in rows(TEXT, HEADING)}  # fmt: skip
    status = dict.fromkeys(map(str, ConditionReason), "Unknown")
    status |= dict.fromkeys(map(str, PROBLEMS), "True") | {"Healthy": "False"}

    assert told == {reason: (each, True) for reason, each in status.items()}


def test_a_reason_that_loses_its_row_is_noticed() -> None:
    start = TEXT.index(f"### {HEADING}\n")
    section = TEXT[start : TEXT.index("\n### ", start)]
    complete = sorted(ConditionReason)

    less = [sorted(named(text, HEADING)) for _, text in one_row_less(section)]
    assert len(less) == len(complete)
    assert complete not in less
