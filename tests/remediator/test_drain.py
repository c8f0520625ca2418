"""A drain removes exactly the pods that must go, in the way the playbook says, and always ends."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from remediator.cluster import (
    AskCheckpoint,
    DeletePod,
    DrainStep,
    EvictionAnswer,
    EvictionKind,
    EvictPod,
    PodRef,
    PodView,
)
from remediator.config import DrainSettings
from remediator.drain import next_drain
from remediator.operation import (
    CHECKPOINT_DONE,
    CHECKPOINT_REQUEST,
    OPERATION_UID_LABEL,
    Reason,
)
from tests.remediator.repair_inputs import a_pod, an_operation, at

OPERATION = an_operation()
REF = PodRef("ml", "p", "uid-p")


def policy(**values: Any) -> DrainSettings:
    return DrainSettings.model_validate({"deadline": "15m", **values})


def drain(*pods: PodView, seconds: float = 0, **values: Any) -> DrainStep:
    return next_drain(OPERATION, pods, policy(**values), at(seconds))


def answered(kind: EvictionKind, seconds: float = 0, retry: float | None = None) -> EvictionAnswer:
    return EvictionAnswer(kind, at(seconds), retry_at=None if retry is None else at(retry))


STAYING = {
    "a static pod": a_pod(mirror=True, owner_kind="Node"),
    "a pod of a DaemonSet": a_pod(daemon_set=True),
    "a pod that succeeded": a_pod(phase="Succeeded"),
    "a pod that failed": a_pod(phase="Failed"),
    "the pod of a repair": a_pod(labels={OPERATION_UID_LABEL: "any"}),
}


@pytest.mark.parametrize("pod", STAYING.values(), ids=STAYING)
def test_what_need_not_go_is_left_alone(pod: PodView) -> None:
    """rem-C35"""
    step = drain(pod)

    assert (step.done, step.effects, step.waiting) == (True, (), ())


@pytest.mark.parametrize("phase", ["Running", "Pending", "Unknown"])
def test_a_pod_goes_whatever_its_phase(phase: str) -> None:
    """rem-N11"""
    step = drain(a_pod(phase=phase))

    assert (step.effects, step.done) == ((EvictPod(REF),), False)


def test_an_empty_node_is_drained_at_once() -> None:
    """rem-N19"""
    assert drain().done


WAYS = {
    "an eviction": ({}, EvictPod(REF)),
    "an eviction with another grace": ({"grace": "5s"}, EvictPod(REF, timedelta(seconds=5))),
    "a delete": ({"strategy": "Delete"}, DeletePod(REF)),
    "a delete with its grace before it is forced": ({"strategy": "ForceDelete"}, DeletePod(REF)),
    "nothing, until it ends": ({"strategy": "WaitForCompletion"}, None),
    "nothing, as it is left": ({"strategy": "None"}, None),
    "a rule of its namespace": (
        {"rules": [{"namespace": "ml", "strategy": "Delete"}]},
        DeletePod(REF),
    ),
    "a rule of another namespace": (
        {"rules": [{"namespace": "web", "strategy": "Delete"}]},
        EvictPod(REF),
    ),
    "the first rule that fits its labels": (
        {
            "rules": [
                {"selector": 'app="other"', "strategy": "None"},
                {"selector": 'app="train"', "strategy": "Delete"},
                {"strategy": "None"},
            ]
        },
        DeletePod(REF),
    ),
}


@pytest.mark.parametrize(("values", "effect"), WAYS.values(), ids=WAYS)
def test_a_pod_leaves_as_the_playbook_says(values: dict[str, Any], effect: object) -> None:
    step = drain(a_pod(labels={"app": "train"}), **values)

    assert step.effects == (() if effect is None else (effect,))


def test_a_pod_that_is_left_does_not_hold_up_the_drain_and_one_that_ends_by_itself_does() -> None:
    assert drain(a_pod(), strategy="None").done
    waits = drain(a_pod(), strategy="WaitForCompletion")
    assert (waits.done, waits.waiting[0].text) == (False, "runs to its end")


def test_only_pods_with_a_gpu_leave_if_that_is_asked() -> None:
    step = drain(a_pod("web"), a_pod("train", gpus=2), gpu_pods_only=True)

    assert step.effects == (EvictPod(PodRef("ml", "train", "uid-train")),)


KEPT = {
    "an unmanaged pod, by default": ({}, a_pod(owner_kind="")),
    "a pod with an emptyDir, if so asked": ({"empty_dir": "keep"}, a_pod(empty_dir=True)),
    "a kept pod with a rule to delete it": (
        {"rules": [{"strategy": "ForceDelete"}]},
        a_pod(owner_kind=""),
    ),
}


@pytest.mark.parametrize("on_deadline", ["escalate", "delete", "force_delete"])
@pytest.mark.parametrize(("values", "pod"), KEPT.values(), ids=KEPT)
def test_a_kept_pod_is_never_removed_and_told_to_a_person_at_the_deadline(
    values: dict[str, Any], pod: PodView, on_deadline: str
) -> None:
    """rem-C20"""
    before = drain(pod, on_deadline=on_deadline, **values)
    after = drain(pod, seconds=900, on_deadline=on_deadline, **values)

    assert (before.effects, before.stuck) == ((), None)
    assert before.waiting[0].reason is Reason.POD_CANNOT_GO
    assert before.wake_at == at(900)
    assert after.effects == ()
    assert after.stuck in {Reason.POD_CANNOT_GO, Reason.DRAIN_DEADLINE}


def test_unmanaged_pods_and_those_with_an_emptydir_go_if_that_is_allowed() -> None:
    step = drain(a_pod(owner_kind="", empty_dir=True), unmanaged="delete", empty_dir="delete")

    assert step.effects == (EvictPod(REF),)


ANSWERS = {
    "a budget holds it: again in 10 s": (EvictionKind.BUDGET, None, 10),
    "a budget holds it: again when the API says": (EvictionKind.BUDGET, 25, 25),
    "the API is busy: again in 5 s": (EvictionKind.THROTTLED, None, 5),
    "the API is busy: again when it says": (EvictionKind.THROTTLED, 3, 3),
    "it failed: again in 5 s": (EvictionKind.FAILED, None, 5),
    "accepted and not seen to end: again in 30 s": (EvictionKind.ACCEPTED, None, 30),
    "gone and still seen: again in 30 s": (EvictionKind.GONE, None, 30),
}


@pytest.mark.parametrize(("kind", "retry", "seconds"), ANSWERS.values(), ids=ANSWERS)
def test_an_eviction_is_tried_again_after_its_pause(
    kind: EvictionKind, retry: float | None, seconds: float
) -> None:
    """rem-C35"""
    pod = a_pod(answer=answered(kind, 0, retry))
    early = drain(pod, seconds=seconds - 1)

    assert (early.effects, early.wake_at, early.stuck) == ((), at(seconds), None)
    assert drain(pod, seconds=seconds).effects == (EvictPod(REF),)


def test_a_disruption_budget_is_told_from_a_busy_api() -> None:
    """rem-C19"""
    held = drain(a_pod(answer=answered(EvictionKind.BUDGET)))
    busy = drain(a_pod(answer=answered(EvictionKind.THROTTLED)))

    assert held.waiting[0].reason is Reason.BLOCKED_BY_DISRUPTION_BUDGET
    assert "PodDisruptionBudget" in held.text
    assert busy.waiting[0].reason is Reason.EVICTING


def test_a_pod_under_two_budgets_holds_up_no_other_one_and_then_goes_to_a_person() -> None:
    """rem-N09"""
    never = a_pod("a", answer=answered(EvictionKind.SEVERAL_BUDGETS))
    first = drain(never, a_pod("b"))

    assert (first.effects, first.stuck) == ((EvictPod(PodRef("ml", "b", "uid-b")),), None)
    then = drain(never)
    assert (then.effects, then.stuck) == ((), Reason.POD_CANNOT_GO)
    assert "ml/a cannot be evicted" in then.text


def test_a_pod_under_two_budgets_waits_for_a_deadline_that_deletes_it() -> None:
    never = a_pod(answer=answered(EvictionKind.SEVERAL_BUDGETS))

    assert drain(never, on_deadline="delete").stuck is None
    assert drain(never, seconds=900, on_deadline="delete").effects == (DeletePod(REF),)


DEADLINES = {
    "a person is told": ("escalate", (), Reason.DRAIN_DEADLINE, False),
    "the rest is deleted": ("delete", (DeletePod(REF),), None, False),
    "the rest is deleted by force": ("force_delete", (DeletePod(REF, timedelta(0)),), None, False),
    "the repair goes on": ("proceed", (), None, True),
}


@pytest.mark.parametrize(("how", "effects", "stuck", "done"), DEADLINES.values(), ids=DEADLINES)
def test_at_the_deadline(
    how: str, effects: tuple[object, ...], stuck: Reason | None, *, done: bool
) -> None:
    """rem-N10, rem-C21"""
    pod = a_pod(answer=answered(EvictionKind.BUDGET, 890, 1000))
    before = drain(pod, seconds=899, on_deadline=how)
    step = drain(pod, seconds=900, on_deadline=how)

    assert (before.done, before.stuck, before.wake_at) == (False, None, at(900))
    assert (step.effects, step.stuck, step.done) == (effects, stuck, done)
    assert "ml/p" in step.text


@pytest.mark.parametrize("how", ["delete", "force_delete"])
def test_what_outlives_even_the_deadlines_delete_goes_to_a_person(how: str) -> None:
    pod = a_pod(terminating_since=at(900), grace=timedelta(seconds=40))
    last = 900 + 60 + (40 if how == "delete" else 0)

    assert drain(pod, seconds=last - 1, on_deadline=how).stuck is None
    assert drain(pod, seconds=last, on_deadline=how).stuck is Reason.DRAIN_DEADLINE


def test_a_terminating_pod_is_waited_for() -> None:
    step = drain(a_pod(terminating_since=at(-5)))

    assert (step.effects, step.done) == ((), False)
    assert step.waiting[0].reason is Reason.PODS_TERMINATING


def test_a_terminating_pod_is_forced_after_its_grace_only_if_the_playbook_says_so() -> None:
    pod = a_pod(terminating_since=at(0), grace=timedelta(seconds=30))

    assert drain(pod, seconds=29, strategy="ForceDelete").effects == ()
    assert drain(pod, seconds=29, strategy="ForceDelete").wake_at == at(30)
    forced = DeletePod(REF, timedelta(0))
    assert drain(pod, seconds=30, strategy="ForceDelete").effects == (forced,)
    again = replace(pod, answer=answered(EvictionKind.ACCEPTED, 30))
    assert drain(again, seconds=39, strategy="ForceDelete").effects == ()
    assert drain(again, seconds=40, strategy="ForceDelete").effects == (forced,)
    assert drain(pod, seconds=300, strategy="Delete").effects == ()


def test_a_pod_reborn_under_its_name_is_another_pod() -> None:
    reborn = a_pod(uid="uid-2", owner_kind="StatefulSet", created_at=at(20))

    assert drain(reborn, seconds=21).effects == ()
    assert drain(reborn, seconds=21).wake_at == at(30)
    assert drain(reborn, seconds=30).effects == (EvictPod(PodRef("ml", "p", "uid-2")),)


CHECKPOINT = {"checkpoint": {"selector": 'app="train"', "wait": "5m"}}
TRAINS = {"app": "train"}


def test_a_checkpoint_is_asked_for_awaited_and_then_the_pod_goes() -> None:
    fresh = a_pod(labels=TRAINS)
    asked = replace(fresh, annotations={CHECKPOINT_REQUEST: OPERATION.name})
    done = replace(asked, annotations={**asked.annotations, CHECKPOINT_DONE: OPERATION.name})

    assert drain(fresh, **CHECKPOINT).effects == (AskCheckpoint(REF, OPERATION.name),)
    waits = drain(asked, seconds=299, **CHECKPOINT)
    assert (waits.effects, waits.wake_at) == ((), at(300))
    assert waits.waiting[0].reason is Reason.WAITS_FOR_CHECKPOINT
    assert drain(done, seconds=1, **CHECKPOINT).effects == (EvictPod(REF),)
    assert drain(asked, seconds=300, **CHECKPOINT).effects == (EvictPod(REF),)


NOT_ASKED = {
    "its labels do not fit": a_pod(labels={"app": "web"}),
    "it does not run yet": a_pod(labels=TRAINS, phase="Pending"),
}


@pytest.mark.parametrize("pod", NOT_ASKED.values(), ids=NOT_ASKED)
def test_no_checkpoint_is_asked_of(pod: PodView) -> None:
    assert drain(pod, **CHECKPOINT).effects == (EvictPod(REF),)


def test_the_answer_of_an_earlier_operation_is_no_checkpoint() -> None:
    old = a_pod(
        labels=TRAINS, annotations={CHECKPOINT_REQUEST: "no-old", CHECKPOINT_DONE: "no-old"}
    )

    assert drain(old, **CHECKPOINT).effects == (AskCheckpoint(REF, OPERATION.name),)


def test_the_text_names_the_blocked_first_and_not_all() -> None:
    pods = [a_pod(f"p{n}") for n in range(8)]
    blocked = a_pod("z", answer=answered(EvictionKind.BUDGET))
    text = drain(*pods, blocked).text

    assert text.startswith("9 pods must leave: ml/z is held by a PodDisruptionBudget; ml/p0 ")
    assert text.endswith("; and 4 more")
