"""Executing and AwaitingReturn: what follows from how a repair ends, one decision at a time."""

from dataclasses import replace
from typing import Any

import pytest

from remediator.cluster import (
    CreateJob,
    DeleteJob,
    DeletePod,
    JobState,
    JobView,
    NodeView,
    Pause,
    PodRef,
    PodView,
)
from remediator.lifecycle import Act, Wait
from remediator.operation import (
    Attempt,
    AttemptOutcome,
    Intent,
    IntentAction,
    NodeOperation,
    Phase,
    Reason,
)
from tests.remediator.building import (
    HOUR,
    MINUTE,
    NOW,
    REBOOT,
    SECOND,
    fleet_of,
    pinned,
    pod_of,
    seen,
)
from tests.remediator.deciding import (
    PODS,
    POWER,
    RESET,
    RESTART,
    TEMPLATES,
    cured,
    decide,
    executing,
    job,
    ours,
    status,
    went,
)

# The repair.

JOBS: dict[str, tuple[dict[str, Any], JobView, NodeView, tuple[Phase, Reason], AttemptOutcome]] = {
    "J1 the job has ended": (
        RESET,
        job(JobState.SUCCEEDED, exit_code=0),
        ours(),
        (Phase.AWAITING_RETURN, Reason.JOB_SUCCEEDED),
        AttemptOutcome.DONE,
    ),
    "J2 the reboot took the job's pod with it": (
        REBOOT,
        job(JobState.FAILED),
        ours(),
        (Phase.AWAITING_RETURN, Reason.JOB_FAILED),
        AttemptOutcome.TIMED_OUT,
    ),
    "J3 a new boot id": (
        REBOOT,
        job(JobState.ACTIVE),
        ours(boot_id="boot-2"),
        (Phase.AWAITING_RETURN, Reason.RETURNED),
        AttemptOutcome.DONE,
    ),
    "J4 an empty boot id is no change": (
        REBOOT,
        job(JobState.FAILED),
        ours(boot_id=""),
        (Phase.AWAITING_RETURN, Reason.JOB_FAILED),
        AttemptOutcome.TIMED_OUT,
    ),
    "J5 a known failure may be tried again": (
        RESET,
        job(JobState.FAILED, exit_code=70),
        ours(),
        (Phase.RETRYING, Reason.JOB_FAILED),
        AttemptOutcome.FAILED,
    ),
    "J6 an unknown one of a destructive repair never": (
        RESET,
        job(JobState.FAILED),
        ours(),
        (Phase.ESCALATED, Reason.AMBIGUOUS),
        AttemptOutcome.AMBIGUOUS,
    ),
    "J7 of a harmless one it may": (
        RESTART,
        job(JobState.FAILED),
        ours(),
        (Phase.RETRYING, Reason.JOB_FAILED),
        AttemptOutcome.FAILED,
    ),
    "J8 the job was deleted": (
        RESET,
        job(JobState.MISSING),
        ours(),
        (Phase.ESCALATED, Reason.AMBIGUOUS),
        AttemptOutcome.AMBIGUOUS,
    ),
    "J9 a deleted reboot job is judged by the boot id": (
        REBOOT,
        job(JobState.MISSING),
        ours(),
        (Phase.AWAITING_RETURN, Reason.JOB_LOST),
        AttemptOutcome.AMBIGUOUS,
    ),
    "J10 somebody else's job of that name": (
        {**REBOOT, "attempts": 2},
        job(JobState.FOREIGN),
        ours(),
        (Phase.RETRYING, Reason.JOB_FOREIGN),
        AttemptOutcome.FAILED,
    ),
    "J11 the script could not begin": (
        RESET,
        job(JobState.FAILED, exit_code=76),
        ours(),
        (Phase.RETRYING, Reason.JOB_FAILED),
        AttemptOutcome.FAILED,
    ),
    "J12 the script found another boot than the api shows": (
        REBOOT,
        job(JobState.FAILED, exit_code=75),
        ours(),
        (Phase.AWAITING_RETURN, Reason.WAITS_FOR_REBOOT),
        AttemptOutcome.AMBIGUOUS,
    ),
}


@pytest.mark.parametrize("sentence", JOBS)
def test_how_a_job_ended_decides(sentence: str) -> None:
    rung, seen_job, node, expected, outcome = JOBS[sentence]
    step = decide(executing(), seen(node, job=seen_job), playbook={"ladder": [rung]})

    assert went(step) == expected
    assert status(step).attempts[-1].outcome is outcome
    assert status(step).isolated


def test_a_job_is_made_once_the_intent_stands_and_again_under_the_same_name_only() -> None:
    announced = executing(intent_is={"job_seen": False})
    step = decide(announced, seen(ours(), job=job(JobState.MISSING)))

    assert isinstance(step, Act)
    (effect,) = step.effects
    assert isinstance(effect, CreateJob)
    assert (effect.name, effect.namespace) == ("op-1", "nodemend")


def test_a_job_that_nobody_has_read_is_not_taken_for_missing() -> None:
    announced = executing(intent_is={"job_seen": False}, reason=Reason.DRAINED)

    assert isinstance(decide(announced, seen(ours())), Wait)
    assert isinstance(decide(announced, seen(ours(), job=job(JobState.UNKNOWN))), Wait)


@pytest.mark.parametrize(
    ("look", "reason", "text"),
    [
        ({"began": False}, Reason.JOB_CREATED, "Job op-1 has not begun: no pod runs"),
        (
            {"began": False, "text": "ContainerCreating"},
            Reason.JOB_CREATED,
            "Job op-1 has not begun: ContainerCreating",
        ),
        ({}, Reason.JOB_RUNNING, "the repair runs"),
    ],
)
def test_a_job_that_waits_is_told_from_one_that_runs(
    look: dict[str, Any], reason: Reason, text: str
) -> None:
    drained = executing(reason=Reason.DRAINED)
    found = status(decide(drained, seen(ours(), job=job(JobState.ACTIVE, **look))))

    assert (found.phase, found.reason, found.message) == (Phase.EXECUTING, reason, text)


def test_an_image_that_cannot_be_had_fails_at_once_and_the_job_goes_first() -> None:
    look = seen(ours(), job=job(JobState.ACTIVE, began=False, image_failed=True))
    announced = decide(executing(), look)
    giving_up = replace(executing(), status=status(announced))
    gone = decide(giving_up, seen(ours(), job=job(JobState.MISSING)))

    assert went(announced) == (Phase.EXECUTING, Reason.JOB_IMAGE_FAILED)
    step = decide(giving_up, look)
    assert isinstance(step, Act)
    assert step.effects == (DeleteJob("op-1", "nodemend"),)
    assert went(gone) == (Phase.ESCALATED, Reason.RUNGS_EXHAUSTED)


LATE: dict[str, tuple[dict[str, Any], bool, Reason, tuple[Phase, Reason]]] = {
    "T1 what never began is left for the next rung": (
        {**RESET, "attempts": 1},
        False,
        Reason.RUNG_TIMEOUT,
        (Phase.NEXT_RUNG, Reason.RUNG_TIMEOUT),
    ),
    "T2 a destructive repair that was cut off in the middle is a person's": (
        RESET,
        True,
        Reason.AMBIGUOUS,
        (Phase.ESCALATED, Reason.AMBIGUOUS),
    ),
    "T3 a harmless one is tried again": (
        RESTART,
        True,
        Reason.RUNG_TIMEOUT,
        (Phase.RETRYING, Reason.RUNG_TIMEOUT),
    ),
}


@pytest.mark.parametrize("sentence", LATE)
def test_a_job_that_runs_or_waits_too_long_is_removed_before_anything_else(sentence: str) -> None:
    rung, began, reason, end = LATE[sentence]
    playbook = {"ladder": [rung, {**REBOOT, "name": "now"}]}
    late, look = executing(deadline=NOW), seen(ours(), job=job(JobState.ACTIVE, began=began))
    step = decide(late, look, playbook=playbook)
    giving_up = replace(late, status=status(step))
    gone = seen(ours(), job=job(JobState.MISSING))

    assert went(step) == (Phase.EXECUTING, reason)
    assert decide(giving_up, look, playbook=playbook) == Act(
        (DeleteJob("op-1", "nodemend"),), NOW + 30 * SECOND
    )
    assert went(decide(giving_up, gone, playbook=playbook)) == end


def test_a_job_that_begins_while_it_is_being_removed_counts_as_begun() -> None:
    giving_up = executing(intent_is={"giving_up": True}, reason=Reason.RUNG_TIMEOUT)
    step = decide(giving_up, seen(ours(), job=job(JobState.ACTIVE)), playbook={"ladder": [RESET]})

    assert went(step) == (Phase.EXECUTING, Reason.AMBIGUOUS)


def test_a_job_that_cannot_be_deleted_is_told_to_a_person_in_time() -> None:
    stuck = executing(
        intent_is={"giving_up": True}, reason=Reason.RUNG_TIMEOUT, deadline=NOW, message="late"
    )
    look = seen(ours(), job=job(JobState.ACTIVE, began=False))
    step = decide(stuck, look, playbook={"ladder": [RESET]})

    assert went(step) == (Phase.ESCALATED, Reason.RUNG_TIMEOUT)
    assert "Job op-1 cannot be deleted" in status(step).message


HELD = {
    "a job that is not made yet": ({"intent_is": {"job_seen": False}}, REBOOT, ()),
    "pods that are not deleted yet": (
        {"intent": Intent(IntentAction.RESTART_PODS, NOW, "boot-1")},
        PODS,
        (pod_of("old", namespace="gpu", labels={"app": "plugin"}, created_at=NOW - HOUR),),
    ),
}


@pytest.mark.parametrize(("changes", "rung", "pods"), HELD.values(), ids=HELD)
def test_the_time_of_a_pause_is_not_the_repairs_but_has_an_end(
    changes: dict[str, Any], rung: dict[str, Any], pods: tuple[PodView, ...]
) -> None:
    look = seen(ours(), job=job(JobState.MISSING), pods=pods)
    paused = fleet_of(ours(), pause=Pause("ada"))
    playbook = {"ladder": [rung]}
    announced = executing(deadline=NOW, **changes)
    held = decide(announced, look, fleet=paused, playbook=playbook)
    after = decide(replace(announced, status=status(held)), look, playbook=playbook)
    week = executing(deadline=NOW, since=NOW - 8 * 24 * HOUR, **changes)

    assert went(held) == (Phase.EXECUTING, Reason.HELD)
    assert went(after) == (Phase.EXECUTING, Reason.GATES_OPEN)
    assert status(after).deadline == NOW + 10 * MINUTE
    assert status(after).intent == announced.status.intent
    assert isinstance(
        decide(replace(announced, status=status(after)), look, playbook=playbook), Act
    )
    assert went(decide(week, look, fleet=paused, playbook=playbook)) == (
        Phase.ESCALATED,
        Reason.GATE_DEADLINE,
    )


def test_a_long_word_of_a_job_fits_into_the_object() -> None:
    look = seen(ours(), job=job(JobState.FAILED, exit_code=70, text="x" * 1024))
    found = status(decide(executing(), look, playbook={"ladder": [RESET]}))

    assert len(found.attempts[-1].text) <= 1024
    assert len(found.message) <= 1024


def test_a_recovery_in_mid_repair_kills_no_job() -> None:
    step = decide(executing(reason=Reason.JOB_RUNNING), seen(cured(), job=job(JobState.ACTIVE)))

    assert isinstance(step, Wait)


def test_pods_from_before_the_intent_are_deleted_and_their_successors_are_not() -> None:
    operation = executing(intent=Intent(IntentAction.RESTART_PODS, NOW - MINUTE, "boot-1"))
    old = pod_of("old", namespace="gpu", labels={"app": "plugin"}, created_at=NOW - HOUR)
    new = replace(old, name="new", uid="uid-new", created_at=NOW)
    other = replace(old, name="other", uid="uid-o", labels={})
    playbook = {"ladder": [PODS]}

    first = decide(operation, seen(ours(), pods=(old, new, other)), playbook=playbook)
    then = decide(operation, seen(ours(), pods=(new, other)), playbook=playbook)

    assert isinstance(first, Act)
    assert first.effects == (DeletePod(PodRef("gpu", "old", "uid-old")),)
    assert went(then) == (Phase.AWAITING_RETURN, Reason.PODS_RESTARTED)


# Coming back.


def returning(**changes: Any) -> NodeOperation:
    attempts = (Attempt(0, 1, NOW - MINUTE, NOW, changes.pop("outcome", AttemptOutcome.DONE)),)
    return pinned(phase=Phase.AWAITING_RETURN, attempt=1, attempts=attempts, **changes)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (ours(boot_id="boot-2"), (Phase.VERIFYING, Reason.RETURNED)),
        (ours(boot_id="boot-2", ready="False"), (Phase.AWAITING_RETURN, Reason.WAITS_FOR_READY)),
        (ours(), (Phase.AWAITING_RETURN, Reason.WAITS_FOR_REBOOT)),
        (ours(boot_id=""), (Phase.AWAITING_RETURN, Reason.WAITS_FOR_REBOOT)),
    ],
)
def test_only_a_new_boot_id_and_ready_prove_a_reboot(
    node: NodeView, expected: tuple[Phase, Reason]
) -> None:
    assert went(decide(returning(), seen(node))) == expected


def test_a_reboot_that_never_comes_is_not_asked_for_again() -> None:
    ladder = [{**REBOOT, "attempts": 3}]
    step = decide(returning(deadline=NOW), seen(ours()), playbook={"ladder": ladder})

    assert went(step) == (Phase.ESCALATED, Reason.RUNGS_EXHAUSTED)


def test_an_unknown_power_cycle_ends_with_a_person() -> None:
    lost = returning(deadline=NOW, outcome=AttemptOutcome.AMBIGUOUS)
    step = decide(lost, seen(ours()), playbook=POWER, job_templates=TEMPLATES)

    assert went(step) == (Phase.ESCALATED, Reason.AMBIGUOUS)
