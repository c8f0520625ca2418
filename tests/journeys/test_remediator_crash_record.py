"""The judge of the crash runs sees what must never happen, and nothing in a history as it should be."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.journeys.remediator_crash_record import JobThen, NodeThen, OperationThen, Record

WHOLE = NodeThen(0, "n1", "uid", "", "boot-1", ready=True, faulty=False, probe=("", "", ""))
OPERATION = OperationThen(0, "no-1", "uid-1", "n1", "", "", "")
PROBED = ("uid-1", "boot-2", "pass")


def a_record() -> Record:
    """An operation from its beginning to its end, at versions 10, 20 and so on."""
    record = Record(SimpleNamespace(listen=lambda _: None))  # type: ignore[arg-type]  # all it needs
    record.operations = [
        replace(OPERATION, version=10, phase="Reserved", action="Isolate"),
        replace(OPERATION, version=30, phase="Executing", action="RunJob", job="job-1"),
        replace(OPERATION, version=60, phase="Releasing", action="Release"),
        replace(OPERATION, version=80, phase="Succeeded"),
    ]
    record.jobs = [JobThen(40, "job-1", "uid-1")]
    isolated = replace(WHOLE, taint="no-1")
    record.nodes = [
        replace(WHOLE, version=5, faulty=True),
        replace(isolated, version=20, faulty=True),
        replace(isolated, version=50, boot_id="boot-2", probe=PROBED),
        replace(WHOLE, version=70, boot_id="boot-2", probe=PROBED),
    ]
    return record


def test_a_history_as_it_should_be_has_no_mistakes() -> None:
    assert not a_record().mistakes(1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"faulty": True}, "GPURuntimeError was not False"),
        ({"ready": False}, "it was not Ready"),
        ({"boot_id": "boot-1"}, "it had not rebooted"),
        ({"probe": ("another", "boot-2", "pass")}, "its last probe was"),
        ({"probe": ("uid-1", "boot-1", "pass")}, "its last probe was"),
        ({"probe": ("uid-1", "boot-2", "problem")}, "its last probe was"),
    ],
)
def test_a_release_without_proof_is_a_mistake(change: dict[str, object], says: str) -> None:
    record = a_record()
    record.nodes[-1] = replace(record.nodes[-1], **change)  # type: ignore[arg-type]  # as named

    [mistake] = record.mistakes(1)
    assert f"n1 was released at 70: {says}" in mistake


def test_a_taint_after_the_success_is_a_mistake() -> None:
    record = a_record()
    record.nodes[-1] = replace(record.nodes[-1], version=90)
    assert not record.mistakes(1)

    record.nodes.insert(-1, replace(record.nodes[-2], version=85))
    [mistake] = record.mistakes(1)
    assert "carries the taint of no-1 at 85" in mistake


def test_more_isolated_nodes_than_the_budget_allows_are_a_mistake() -> None:
    record = a_record()
    record.operations.append(replace(OPERATION, version=12, name="no-2", action="Isolate"))
    record.nodes.insert(2, replace(WHOLE, version=22, name="n2", taint="no-2"))

    assert not record.mistakes(2)
    assert record.mistakes(1)[0] == "['n1', 'n2'] were isolated at 22"


def test_an_effect_before_its_announcement_is_a_mistake() -> None:
    record = a_record()
    record.nodes[1] = replace(record.nodes[1], version=9)
    record.jobs = [JobThen(29, "job-1", "uid-1"), JobThen(41, "job-2", "uid-1")]

    assert record.mistakes(1) == [
        "the taint of no-1 on n1 was not announced",
        "Job job-1 at 29 was not announced",
        "Job job-2 at 41 was not announced",
    ]
