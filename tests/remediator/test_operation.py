"""Operations as objects of the API: read strictly, written whole, named so that they are found again."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chassis.contracts import TimelineOutcome
from chassis.errors import PermanentError
from remediator.operation import (
    FOLLOWERS,
    Attempt,
    AttemptOutcome,
    CauseKind,
    HeldBy,
    HistoryEntry,
    Intent,
    IntentAction,
    NodeOperation,
    Phase,
    Reason,
    Wish,
    job_name,
    may_follow,
    operation_name,
    read,
    to_json,
)
from tests.remediator.building import NOW, cause_of, operation_of, pinned


def full() -> NodeOperation:
    made = pinned(
        phase=Phase.EXECUTING,
        reason=Reason.JOB_RUNNING,
        message="runs",
        wake_at=NOW,
        rung=1,
        attempt=2,
        intent=Intent(IntentAction.RUN_JOB, NOW, "boot-1", "op-1", True, True, True),
        attempts=(Attempt(0, 1, NOW, NOW, AttemptOutcome.NOT_PROVEN, "no"), Attempt(1, 2, NOW)),
        held_by=(HeldBy("pause", "paused by ada", NOW), HeldBy("approval", "waits")),
        history=(HistoryEntry(7, NOW, Phase.GATED, Reason.HELD, 0, 0, "held"),),
        fixed_at=NOW,
        clear_since=NOW,
        wish=Wish.CANCEL,
        wish_by="ada",
        told=7,
        ended_at=NOW,
        outcome=TimelineOutcome.NOT_HEALED,
        requested_by="bob",
        causes=(cause_of(CauseKind.ALERT, labels={"mountpoint": "/data"}), cause_of(text="gone")),
    )
    return replace(made, annotations={"a": "b"}, deleting=True)


@pytest.mark.parametrize("operation", [full(), operation_of(), pinned()])
def test_what_is_written_is_read_back(operation: NodeOperation) -> None:
    assert read(to_json(operation)) == operation


def test_an_object_without_a_status_has_just_been_received() -> None:
    raw = to_json(operation_of())
    del raw["status"]

    assert read(raw).status.phase is Phase.RECEIVED


def changed(path: str, value: Any) -> dict[str, Any]:
    raw = to_json(full())
    place: Any = raw
    *above, last = path.split(".")
    for key in above:
        place = place[int(key)] if key.isdigit() else place[key]
    place[last] = value
    return raw


GARBAGE: dict[str, tuple[Any, str]] = {
    "spec": (None, "spec: must be an object, not NoneType"),
    "spec.nodeName": ("", "spec.nodeName must be a text that is not empty"),
    "spec.playbook": (7, "spec.playbook must be a text that is not empty"),
    "spec.trigger": ("Whim", "spec.trigger must be one of Alert, Condition, Manual"),
    "spec.episode": (0, "spec.episode must be a number from 1 to 2147483647"),
    "spec.dryRun": ("yes", "spec.dryRun must be true or false"),
    "spec.causes": ({}, "spec.causes must be a list"),
    "spec.causes.0.startsAt": ("today", "spec.causes[0].startsAt must be a time like 2026-"),
    "spec.causes.0.labels": ({"a": 1}, "spec.causes[0].labels must map texts to texts"),
    "status.phase": ("Done", "status.phase must be one of Received, "),
    "status.rung": (True, "status.rung must be a whole number"),
    "status.attempt": (-1, "status.attempt must be a number from 0 to 2147483647"),
    "status.since": (5, "status.since must be a time like 2026-"),
    "status.deadline": ("0001-01-01T00:00:00+23:59", "status.deadline must be a time like 2026-"),
    "status.intent": ("reboot", "status.intent: must be an object, not str"),
    "status.intent.at": (None, "status.intent.at is missing"),
    "status.history": ([{}] * 65, "status.history has 65 entries, at most 64 are allowed"),
    "metadata.annotations": ([], "metadata.annotations must map texts to texts"),
}


@pytest.mark.parametrize("path", GARBAGE)
def test_an_object_edited_by_hand_is_refused_with_the_field_named(path: str) -> None:
    value, problem = GARBAGE[path]

    with pytest.raises(PermanentError) as refused:
        read(changed(path, value))

    assert str(refused.value).startswith(f"NodeOperation no-1: {problem}")


def test_names_are_the_same_for_the_same_episode_and_fit_kubernetes() -> None:
    name = operation_name("uid", 1)

    assert name == operation_name("uid", 1)
    assert len({name, operation_name("uid", 2), operation_name("uid2", 1)}) == 3
    assert len(name) == 23
    assert len(job_name("0" * 36, 15, 10)) <= 63


def test_a_final_phase_is_followed_by_nothing_unless_a_person_asks() -> None:
    final = {phase for phase in Phase if phase.is_final} - {Phase.ESCALATED}

    by_hand = {Phase.SUCCEEDED, Phase.CANCELLED}  # written by somebody while the node was isolated
    assert all(FOLLOWERS[phase] == frozenset() for phase in final - by_hand)
    assert all(FOLLOWERS[phase] == {Phase.ESCALATED} for phase in by_hand)
    assert set(FOLLOWERS) == set(Phase)
    assert all(may_follow(phase, phase) for phase in Phase)


def test_every_phase_can_come_to_an_end() -> None:
    reaches = {phase for phase in Phase if phase.is_final}
    while found := {p for p in Phase if p not in reaches and FOLLOWERS[p] & reaches}:
        reaches |= found

    assert reaches == set(Phase)


@pytest.mark.parametrize(
    ("phase", "isolated", "holds"),
    [
        (Phase.GATED, False, False),
        (Phase.RESERVED, True, True),
        (Phase.ESCALATED, True, True),
        (Phase.ESCALATED, False, False),
        (Phase.SUCCEEDED, False, False),
        (Phase.NODE_GONE, False, False),
    ],
)
def test_an_operation_holds_capacity_from_its_reservation_until_its_node_is_back(
    phase: Phase, isolated: bool, holds: bool
) -> None:
    assert pinned(phase=phase, isolated=isolated).holds_capacity is holds


def test_times_are_kept_to_the_microsecond() -> None:
    moment = NOW + timedelta(microseconds=1)

    assert read(to_json(pinned(deadline=moment))).status.deadline == moment
