"""What services say to each other is closed, frozen, and safe to store."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from chassis.contracts import (
    PROBLEM_REASONS,
    ConditionReason,
    ConditionType,
    ProbeResult,
    ProbeVerdict,
    TimelineEntry,
    TimelineOutcome,
    TimelinePhase,
    known_reason,
    probe_request,
    xid_reason,
)


def an_entry(**changes: Any) -> dict[str, Any]:
    return {
        "fingerprint": "586d088728731196",
        "starts_at": "2026-11-30T18:22:46.715+09:00",
        "operation": "gpu-n1-0001",
        "phase": "Draining",
        "node": "gpu-n1",
        "at": "2026-11-30T09:30:00Z",
        "text": "3 pods left",
    } | changes


def test_an_entry_survives_json_with_its_times_in_utc() -> None:
    entry = TimelineEntry.model_validate(an_entry(outcome="healed"))

    assert entry.starts_at == datetime(2026, 11, 30, 9, 22, 46, 715_000, tzinfo=UTC)
    assert entry.starts_at.tzinfo is UTC
    assert entry.outcome is TimelineOutcome.HEALED
    assert TimelineEntry.model_validate_json(entry.model_dump_json()) == entry


def test_the_key_is_operation_phase_and_attempt() -> None:
    first = TimelineEntry.model_validate(an_entry())
    again = TimelineEntry.model_validate(an_entry(text="2 pods left"))
    second = TimelineEntry.model_validate(an_entry(attempt=2))

    assert first.key == again.key == ("gpu-n1-0001", TimelinePhase.DRAINING, 1)
    assert second.key != first.key


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"more": 1}, "more"),
        ({"fingerprint": "xyz"}, "fingerprint"),
        ({"fingerprint": "586d088728731196\n"}, "fingerprint"),
        ({"starts_at": "2026-11-30T09:22:46"}, "starts_at"),
        ({"starts_at": "9999-12-31T23:59:59-12:00"}, "starts_at"),
        ({"phase": "Sleeping"}, "phase"),
        ({"outcome": "fine"}, "outcome"),
        ({"operation": ""}, "operation"),
        ({"operation": "x" * 254}, "operation"),
        ({"node": "a\nb"}, "node"),
        ({"node": "gpu\n"}, "node"),
        ({"text": ""}, "text"),
        ({"text": "x" * 4097}, "text"),
        ({"text": "a\x00b"}, "text"),
        ({"text": "a\ud800b"}, "text"),
        ({"attempt": 0}, "attempt"),
    ],
    ids=lambda given: str(given)[:30].encode("ascii", "replace").decode(),
)
def test_an_entry_that_cannot_be_kept_is_refused(change: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TimelineEntry.model_validate(an_entry(**change))

    assert [error["loc"] for error in caught.value.errors()] == [(where,)]


def test_an_entry_never_changes() -> None:
    entry = TimelineEntry.model_validate(an_entry())

    with pytest.raises(ValidationError, match="frozen"):
        entry.text = "other"  # type: ignore[misc]


@pytest.mark.parametrize("phase", TimelinePhase)
def test_an_issue_stays_open_while_the_operation_runs_or_waits_for_a_person(
    phase: TimelinePhase,
) -> None:
    lets_close = {"Succeeded", "Cancelled", "Superseded", "NodeGone"}

    assert phase.holds_auto_close is (phase.value not in lets_close)
    assert phase.is_final is (phase.value in lets_close | {"Escalated"})


@pytest.mark.parametrize("condition", ConditionType)
def test_each_condition_names_its_problems_and_healthy_is_none(condition: ConditionType) -> None:
    assert ConditionReason.HEALTHY not in PROBLEM_REASONS[condition]
    assert PROBLEM_REASONS[condition] or condition is ConditionType.GPU_XID_ERROR


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("GPUIsLost", "GPUIsLost"),
        ("Xid79", "Xid79"),
        ("Xid0", "Xid0"),
        ("Xid079", "Other"),
        ("Xid", "Other"),
        ("Xid123456", "Other"),
        ("Xid٣", "Other"),
        ("gpuislost", "Other"),
        ('a"b\n', "Other"),
        ("", "Other"),
    ],
)
def test_an_unknown_reason_is_other(text: str, reason: str) -> None:
    assert known_reason(text) == reason


@pytest.mark.parametrize("reason", ConditionReason)
def test_each_reason_is_known_and_camel_case(reason: ConditionReason) -> None:
    assert known_reason(reason.value) == reason.value
    assert reason.value[0].isupper()
    assert reason.value.isalnum()


def test_an_xid_has_its_code_in_the_reason() -> None:
    assert xid_reason(79) == "Xid79"
    with pytest.raises(ValueError, match="-1 is no XID code"):
        xid_reason(-1)


# Probe requests and their answers.

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
PASS, FAIL, UNCLEAR = ProbeVerdict.PASSED, ProbeVerdict.PROBLEM, ProbeVerdict.INCONCLUSIVE


@pytest.mark.parametrize("text", [None, "", "a\nb", "é", "x" * 254])
def test_a_request_that_no_answer_could_carry_is_none(text: str | None) -> None:
    assert probe_request(text) == ""


@pytest.mark.parametrize("text", ["op-1", "x" * 253, "a b"])
def test_a_request_names_an_operation_that_an_answer_can_carry(text: str) -> None:
    assert ProbeResult.of(probe_request(text), "boot-1", NOW, {}, complete=True).operation == text


@pytest.mark.parametrize(
    ("gpus", "complete", "result"),
    [
        pytest.param({"a": PASS, "b": PASS}, True, PASS, id="all have passed"),
        pytest.param({"a": PASS}, False, UNCLEAR, id="one is missing"),
        pytest.param({"a": PASS, "b": UNCLEAR}, True, UNCLEAR, id="one gave no verdict"),
        pytest.param({"a": UNCLEAR, "b": FAIL}, False, FAIL, id="a problem goes before no verdict"),
        pytest.param({}, True, UNCLEAR, id="there is none"),
    ],
)
def test_an_answer_passes_only_when_every_gpu_of_the_node_has(
    gpus: dict[str, ProbeVerdict], complete: bool, result: ProbeVerdict
) -> None:
    found = ProbeResult.of("op-1", "boot-1", NOW, gpus, complete=complete)

    assert found.result is result
    assert ProbeResult.parse(found.dump()) == found


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"gpus": {}}, id="passes without a GPU"),
        pytest.param({"gpus": {"a": "problem"}}, id="passes, yet a GPU has a problem"),
        pytest.param({"gpus": {"a": "fine"}}, id="an unknown verdict"),
        pytest.param({"gpus": 1}, id="no verdicts"),
        pytest.param({"at": "2026-11-30T12:00:00"}, id="a time without a zone"),
        pytest.param({"bootID": ""}, id="no boot"),
        pytest.param({"operation": None}, id="no operation"),
    ],
)
def test_an_answer_that_cannot_be_believed_is_none(change: dict[str, Any]) -> None:
    answer = {"operation": "o", "bootID": "b", "at": "2026-11-30T12:00:00Z", "gpus": {"a": "pass"}, "result": "pass"}  # fmt: skip

    assert ProbeResult.parse(json.dumps(answer | {"by": "a newer prober"})) is not None
    assert ProbeResult.parse(json.dumps(answer | change)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"operation": "x"}'])
def test_what_is_no_answer_is_none(text: str) -> None:
    assert ProbeResult.parse(text) is None
