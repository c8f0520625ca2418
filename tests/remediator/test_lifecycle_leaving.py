"""An operation that ends from outside while its repair is announced leaves no Job that could begin behind it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from remediator.cluster import DeleteJob, JobState, JobView, NodeView
from remediator.lifecycle import DELETION, Act, Wait
from remediator.operation import (
    AttemptOutcome,
    Intent,
    IntentAction,
    NodeOperation,
    Phase,
    Reason,
    Wish,
)
from tests.remediator.building import MINUTE, NOW, pod_of, seen
from tests.remediator.deciding import PODS, decide, executing, job, ours, status, went

LATE = {"deadline": NOW - 11 * MINUTE}
Way = tuple[Callable[..., NodeOperation], NodeView | None, dict[str, Any], tuple[Phase, Reason]]
WAYS: dict[str, Way] = {
    "L1 its playbook is gone": (
        lambda **c: executing(playbook="former", **c),
        ours(),
        {},
        (Phase.ESCALATED, Reason.PLAYBOOK_GONE),
    ),
    "L2 its rung is gone": (
        lambda **c: executing(rung_name="former", **c),
        ours(),
        {},
        (Phase.ESCALATED, Reason.PLAYBOOK_GONE),
    ),
    "L3 its rung is another kind of repair": (
        executing,
        ours(),
        {"ladder": [PODS]},
        (Phase.ESCALATED, Reason.PLAYBOOK_GONE),
    ),
    "L4 a person takes the taint off": (
        executing,
        ours(operation_taint=None),
        {},
        (Phase.CANCELLED, Reason.TAINT_REMOVED),
    ),
    "L5 the status was edited": (
        lambda **c: executing(isolated=False, **c),
        ours(),
        {},
        (Phase.ESCALATED, Reason.INVALID_OPERATION),
    ),
    "L6 the node is gone": (executing, None, {}, (Phase.NODE_GONE, Reason.NODE_DELETED)),
    "L7 the node is another one": (
        executing,
        ours(uid="uid-new"),
        {},
        (Phase.SUPERSEDED, Reason.NODE_REPLACED),
    ),
}
READ = {
    "the Job has begun and is let be": job(JobState.ACTIVE),
    "the Job has ended well": job(JobState.SUCCEEDED),
    "the Job has failed": job(JobState.FAILED, began=False),
    "there is no Job (any more)": job(JobState.MISSING, began=False),
    "the Job is somebody else's": job(JobState.FOREIGN, began=False),
}
UNREAD = {
    "the Job was not looked at": None,
    "the Job could not be read": job(JobState.UNKNOWN, began=False),
    "another Job was read": replace(job(JobState.ACTIVE, began=False), name="op-0"),
}
WAITING = job(JobState.ACTIVE, began=False)
UNSEEN_JOB = {"intent_is": {"job_seen": False}}
PROVING = (Phase.VERIFYING, Reason.RELEASE_REQUESTED)


@pytest.mark.parametrize("way", WAYS)
def test_a_job_that_has_not_begun_is_deleted_before_the_operation_ends(way: str) -> None:
    made, node, playbook, _ = WAYS[way]
    step = decide(made(), seen(node, job=WAITING), playbook=playbook)

    assert isinstance(step, Act)
    assert step.effects == (DeleteJob("op-1", "nodemend"),)


@pytest.mark.parametrize("job_is", READ)
@pytest.mark.parametrize("way", WAYS)
def test_it_ends_when_nothing_can_begin_behind_it(way: str, job_is: str) -> None:
    made, node, playbook, end = WAYS[way]

    assert went(decide(made(), seen(node, job=READ[job_is]), playbook=playbook)) == end


@pytest.mark.parametrize("job_is", UNREAD)
@pytest.mark.parametrize("way", WAYS)
def test_it_does_not_end_while_nobody_knows(way: str, job_is: str) -> None:
    made, node, playbook, _ = WAYS[way]

    assert isinstance(decide(made(), seen(node, job=UNREAD[job_is]), playbook=playbook), Wait)


@pytest.mark.parametrize("left", [None, WAITING])
@pytest.mark.parametrize("way", WAYS)
def test_a_job_that_cannot_be_taken_away_holds_nothing_up_for_ever_and_is_named(
    way: str, left: JobView | None
) -> None:
    made, node, playbook, end = WAYS[way]
    step = decide(made(**LATE), seen(node, job=left), playbook=playbook)

    assert went(step) == end
    assert status(step).message.startswith("Job op-1 may begin yet; delete it. ")
    assert status(step).history[-1].text == status(step).message


# A person ends it.

CALLED_OFF: dict[str, tuple[dict[str, Any], JobView, tuple[Phase, Reason] | None]] = {
    "C1 a Job that was never made is not made": (
        UNSEEN_JOB,
        job(JobState.MISSING, began=False),
        PROVING,
    ),
    "C2 one that has not begun is announced to go": (
        {},
        WAITING,
        (Phase.EXECUTING, Reason.RELEASE_REQUESTED),
    ),
    "C3 one that was made and not seen, too": (
        UNSEEN_JOB,
        WAITING,
        (Phase.EXECUTING, Reason.RELEASE_REQUESTED),
    ),
    "C4 one that has begun goes on": (
        {"reason": Reason.JOB_RUNNING},
        job(JobState.ACTIVE),
        None,
    ),
    "C5 of one that was there and is gone nobody knows": (
        {},
        job(JobState.MISSING, began=False),
        (Phase.AWAITING_RETURN, Reason.JOB_LOST),
    ),
}


@pytest.mark.parametrize("wish_by", ["ada", DELETION])
@pytest.mark.parametrize("sentence", CALLED_OFF)
def test_a_repair_that_has_not_begun_is_called_off_when_a_person_ends_the_operation(
    sentence: str, wish_by: str
) -> None:
    changes, job_is, expected = CALLED_OFF[sentence]
    asked = executing(wish=Wish.CANCEL, wish_by=wish_by, **changes)
    step = decide(asked, seen(ours(), job=job_is))

    assert (None if isinstance(step, Wait) else went(step)) == expected


def test_a_job_that_is_called_off_is_deleted_and_the_node_proven() -> None:
    asked = executing(wish=Wish.CANCEL, wish_by="ada")
    announced = status(decide(asked, seen(ours(), job=WAITING)))
    going = replace(asked, status=announced)
    step = decide(going, seen(ours(), job=WAITING))
    gone = status(decide(going, seen(ours(), job=job(JobState.MISSING, began=False))))

    assert isinstance(step, Act)
    assert step.effects == (DeleteJob("op-1", "nodemend"),)
    assert (gone.phase, gone.reason, gone.isolated) == (*PROVING, True)
    assert gone.attempts[-1].outcome is AttemptOutcome.FAILED
    assert gone.attempts[-1].text == "called off by ada before it began"


def test_a_reboot_that_began_while_it_was_called_off_goes_to_a_person() -> None:
    asked = executing(wish=Wish.CANCEL, wish_by="ada")
    going = replace(asked, status=status(decide(asked, seen(ours(), job=WAITING))))
    late = status(decide(going, seen(ours(), job=job(JobState.ACTIVE))))
    ended = decide(replace(asked, status=late), seen(ours(), job=job(JobState.MISSING)))

    assert late.reason is Reason.AMBIGUOUS
    assert went(ended) == (Phase.ESCALATED, Reason.AMBIGUOUS)


def test_pods_that_have_not_been_deleted_stay_when_a_person_ends_the_operation() -> None:
    plugin = pod_of(namespace="gpu", labels={"app": "plugin"})
    intent = Intent(IntentAction.RESTART_PODS, NOW, "boot-1")
    asked = executing(intent=intent, wish=Wish.CANCEL, wish_by="ada")
    step = decide(asked, seen(ours(), pods=(plugin,)), playbook={"ladder": [PODS]})

    assert went(step) == PROVING
