"""What people, nodes and configurations do to an operation under way, one decision at a time."""

from dataclasses import replace
from typing import Any

import pytest

from chassis.contracts import PROBE_REQUEST_ANNOTATION
from remediator.cluster import (
    DeleteJob,
    ForgetWish,
    JobState,
    ProbeState,
    Release,
)
from remediator.lifecycle import DELETION, Act, Wait, wants
from remediator.operation import (
    CANCELLED_BY,
    RELEASE_REQUESTED_BY,
    SCALE_DOWN_MARK,
    Attempt,
    AttemptOutcome,
    NodeOperation,
    Phase,
    Reason,
    Wish,
)
from tests.remediator.building import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    config_of,
    faulty,
    node_of,
    operation_of,
    pinned,
    playbook_of,
    pod_of,
    seen,
)
from tests.remediator.deciding import cured, decide, executing, job, ours, status, verifying, went
from tests.remediator.small_world import World

# People, nodes, and configurations that change under it.

RUNNING = [phase for phase in Phase if not phase.is_final]


@pytest.mark.parametrize("phase", [*RUNNING, Phase.ESCALATED])
def test_a_node_that_is_gone_or_another_ends_it_whatever_the_phase(phase: Phase) -> None:
    operation = pinned(phase=phase)

    assert went(decide(operation, seen(None))) == (Phase.NODE_GONE, Reason.NODE_DELETED)
    assert went(decide(operation, seen(ours(uid="uid-new")))) == (
        Phase.SUPERSEDED,
        Reason.NODE_REPLACED,
    )


@pytest.mark.parametrize("phase", RUNNING)
def test_old_news_changes_nothing(phase: Phase) -> None:
    step = decide(pinned(phase=phase), seen(None, as_of=NOW - HOUR))

    assert isinstance(step, Wait)
    assert step.reason is Reason.STALE_DATA


def test_a_persons_word_is_written_down_before_it_is_taken_off_the_object() -> None:
    operation = replace(pinned(phase=Phase.DRAINING), annotations={CANCELLED_BY: "ada"})
    noted = status(decide(operation, seen(ours())))
    step = decide(replace(operation, status=noted), seen(ours()))

    assert (noted.phase, noted.wish, noted.wish_by) == (Phase.DRAINING, Wish.CANCEL, "ada")
    assert isinstance(step, Act)
    assert step.effects == (ForgetWish("no-1", CANCELLED_BY, "ada"),)


def test_a_release_asked_of_one_that_still_runs_is_not_kept_for_later() -> None:
    operation = replace(pinned(phase=Phase.DRAINING), annotations={RELEASE_REQUESTED_BY: "ada"})

    assert isinstance(decide(operation, seen(ours())), Act)


def test_deleting_an_operation_is_cancelling_it() -> None:
    operation = replace(pinned(phase=Phase.DRAINING), deleting=True)
    noted = status(decide(operation, seen(ours())))

    assert (noted.wish, noted.wish_by) == (Wish.CANCEL, DELETION)
    assert went(decide(replace(operation, status=noted), seen(ours())))[0] is Phase.RELEASING


ISOLATED = [
    phase for phase in [*RUNNING, Phase.ESCALATED] if phase not in {Phase.RECEIVED, Phase.GATED}
]


@pytest.mark.parametrize("phase", Phase)
def test_another_operation_that_is_deleted_takes_no_taint_but_its_own(phase: Phase) -> None:
    """rem-N03"""
    other = replace(pinned("no-2", phase, wish=Wish.CANCEL, wish_by=DELETION), deleting=True)
    for ours_is in ISOLATED:
        step = decide(other, seen(ours()), pinned(phase=ours_is))
        effects = step.effects if isinstance(step, Act) else ()
        assert {each.operation for each in effects if isinstance(each, Release)} <= {"no-2"}


@pytest.mark.parametrize("phase", ISOLATED)
def test_an_active_operation_keeps_its_taint_whatever_becomes_of_others(phase: Phase) -> None:
    """rem-N03"""
    others = [
        replace(pinned(f"no-{n}", each, isolated=False), deleting=True)
        for n, each in enumerate(Phase, 2)
    ]
    step = decide(pinned(phase=phase), seen(ours(), job=job(JobState.ACTIVE)), *others)

    effects = step.effects if isinstance(step, Act) else ()
    assert not [each for each in effects if isinstance(each, Release)]


def test_removing_our_taint_cancels_but_a_job_that_could_still_begin_goes_first() -> None:
    free = ours(operation_taint=None)
    waiting = decide(executing(), seen(free, job=job(JobState.ACTIVE, began=False)))

    assert isinstance(waiting, Act)
    assert waiting.effects == (DeleteJob("op-1", "nodemend"),)
    assert went(decide(executing(), seen(free, job=job(JobState.ACTIVE)))) == (
        Phase.CANCELLED,
        Reason.TAINT_REMOVED,
    )


def test_an_ended_operation_takes_off_a_taint_that_came_late() -> None:
    ended = pinned(phase=Phase.CANCELLED, isolated=False, ended_at=NOW)
    step = decide(ended, seen(ours()))

    assert isinstance(step, Act)
    assert step.effects == (Release("n1", "uid-n1", "no-1", "uid-no-1"),)


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.CANCELLED])
def test_an_end_that_somebody_wrote_by_hand_releases_nothing(phase: Phase) -> None:
    step = decide(pinned(phase=phase, isolated=True), seen(ours()))

    assert went(step) == (Phase.ESCALATED, Reason.INVALID_OPERATION)
    assert status(step).isolated


def test_a_lost_status_of_an_isolated_node_repeats_nothing_and_is_proven_before_it_is_released() -> (
    None
):
    lost = operation_of()
    told = status(decide(lost, seen(cured())))

    assert (told.phase, told.reason) == (Phase.ESCALATED, Reason.INVALID_OPERATION)
    assert (told.isolated, told.node_uid, told.rung_name) == (True, "uid-n1", "reboot")
    for wish in Wish:
        asked = replace(lost, status=replace(told, wish=wish, wish_by="alice"))
        assert status(decide(asked, seen(cured()))).phase is Phase.VERIFYING


@pytest.mark.parametrize(
    "left", [{SCALE_DOWN_MARK: "no-1"}, {PROBE_REQUEST_ANNOTATION: "uid-no-1"}]
)
def test_a_person_who_takes_the_taint_off_gets_the_marks_taken_off_too(
    left: dict[str, str],
) -> None:
    ended = pinned(phase=Phase.CANCELLED, reason=Reason.TAINT_REMOVED, isolated=False, ended_at=NOW)
    step = decide(ended, seen(faulty(annotations=left)))
    others = dict.fromkeys(left, "another")

    assert isinstance(step, Act)
    assert step.effects == (Release("n1", "uid-n1", "no-1", "uid-no-1"),)
    assert isinstance(decide(ended, seen(faulty(annotations=others))), Wait)


def test_a_very_long_name_of_a_person_is_taken_up_as_far_as_it_fits() -> None:
    by = "a" * 3000
    operation = replace(pinned(phase=Phase.DRAINING), annotations={CANCELLED_BY: by})
    noted = status(decide(operation, seen(ours())))
    step = decide(replace(operation, status=noted), seen(ours()))

    assert len(noted.wish_by) == 1024
    assert isinstance(step, Act)
    assert step.effects == (ForgetWish("no-1", CANCELLED_BY, by),)


def test_an_ended_operation_is_never_taken_up_again_but_sees_its_fault_clear() -> None:
    ended = pinned(phase=Phase.CANCELLED, isolated=False, ended_at=NOW)

    assert isinstance(decide(ended, seen(faulty())), Wait)
    noted = status(decide(ended, seen(cured(operation_taint=None))))
    assert (noted.phase, noted.clear_since) == (Phase.CANCELLED, NOW)


@pytest.mark.parametrize(
    ("phase", "end"), [(Phase.GATED, Phase.CANCELLED), (Phase.DRAINING, Phase.ESCALATED)]
)
def test_a_playbook_that_is_gone_ends_it_and_keeps_an_isolated_node(
    phase: Phase, end: Phase
) -> None:
    operation = pinned(phase=phase, playbook="former")

    assert went(decide(operation, seen(ours()))) == (end, Reason.PLAYBOOK_GONE)


def orphan(phase: Phase = Phase.ESCALATED, **changes: Any) -> NodeOperation:
    return pinned(phase=phase, playbook="former", **changes)


REPAIRED = {"attempts": (Attempt(0, 1, NOW - HOUR, NOW, AttemptOutcome.FAILED),)}
CANCEL = {"wish": Wish.CANCEL, "wish_by": "ada"}
FREE = {"operation_taint": None}
ORPHANS: dict[str, tuple[NodeOperation, dict[str, Any], tuple[Phase, Reason] | None]] = {
    "O1 it rests": (orphan(), {}, None),
    "O2 a person takes the taint off": (orphan(), FREE, (Phase.CANCELLED, Reason.TAINT_REMOVED)),
    "O3 cancelled before any repair it gives the node back": (
        orphan(**CANCEL),
        {},
        (Phase.RELEASING, Reason.CANCELLED_BY_PERSON),
    ),
    "O4 once the taint is off it has ended": (
        orphan(Phase.RELEASING, reason=Reason.CANCELLED_BY_PERSON, **CANCEL),
        FREE,
        (Phase.CANCELLED, Reason.CANCELLED_BY_PERSON),
    ),
    "O5 a taint that cannot be taken off is a person's": (
        orphan(Phase.RELEASING, reason=Reason.CANCELLED_BY_PERSON, deadline=NOW, **CANCEL),
        {},
        (Phase.ESCALATED, Reason.CANNOT_RELEASE),
    ),
    "O6 after a repair nothing can prove the node": (
        orphan(**CANCEL, **REPAIRED),
        {},
        (Phase.ESCALATED, Reason.PLAYBOOK_GONE),
    ),
    "O7 nor for whoever asks for its release": (
        orphan(wish=Wish.RELEASE, wish_by="ada"),
        {},
        (Phase.ESCALATED, Reason.PLAYBOOK_GONE),
    ),
    "O8 one whose node was never isolated is closed": (
        orphan(isolated=False, **CANCEL),
        FREE,
        (Phase.CANCELLED, Reason.CANCELLED_BY_PERSON),
    ),
    "O9 a taint that came late is seen": (
        orphan(isolated=False, reason=Reason.CANNOT_ISOLATE),
        {},
        (Phase.ESCALATED, Reason.CANNOT_ISOLATE),
    ),
}


@pytest.mark.parametrize("sentence", ORPHANS)
def test_a_person_can_end_an_operation_whose_playbook_is_gone(sentence: str) -> None:
    operation, node, expected = ORPHANS[sentence]
    step = decide(operation, seen(ours(**node)))

    assert (None if isinstance(step, Wait) else went(step)) == expected
    if expected is not None and expected[0] is Phase.ESCALATED and status(step).isolated:
        assert status(step).wish is None


def test_an_operation_whose_playbook_is_gone_takes_off_its_taint_when_it_is_cancelled() -> None:
    giving_back = orphan(Phase.RELEASING, reason=Reason.CANCELLED_BY_PERSON, **CANCEL)
    step = decide(giving_back, seen(ours()))

    assert isinstance(step, Act)
    assert step.effects == (Release("n1", "uid-n1", "no-1", "uid-no-1"),)


def test_a_rung_that_is_gone_keeps_no_escalated_node_from_being_proven_and_released() -> None:
    moved = {"rung": 3, "rung_name": "former"}
    asked = pinned(phase=Phase.ESCALATED, wish=Wish.RELEASE, wish_by="ada", **moved)
    proving = verifying(clear_since=NOW - HOUR, wish=Wish.RELEASE, wish_by="ada", **moved)
    broken = replace(proving, status=replace(proving.status, fixed_at=NOW - HOUR))

    assert went(decide(asked, seen(cured()))) == (Phase.VERIFYING, Reason.RELEASE_REQUESTED)
    proving = replace(proving, status=replace(proving.status, clear_since=NOW - 2 * MINUTE))
    assert went(decide(proving, seen(cured()))) == (Phase.RELEASING, Reason.PROVEN)
    assert went(decide(broken, seen(ours())))[0] is Phase.ESCALATED


def test_a_rung_that_was_moved_or_renamed_is_not_guessed() -> None:
    step = decide(pinned(phase=Phase.DRAINING, rung_name="former"), seen(ours()))

    assert went(step) == (Phase.ESCALATED, Reason.PLAYBOOK_GONE)


@pytest.mark.parametrize(
    "edited",
    [
        pinned(phase=Phase.EXECUTING, intent=None),
        pinned(phase=Phase.DRAINING, node_uid=""),
        pinned(phase=Phase.VERIFYING, fixed_at=None),
        pinned(phase=Phase.DRAINING, dry_run=True),
        pinned(phase=Phase.DRAINING, isolated=False),
    ],
)
def test_a_status_edited_by_hand_is_given_to_a_person(edited: NodeOperation) -> None:
    assert went(decide(edited, seen(ours()))) == (Phase.ESCALATED, Reason.INVALID_OPERATION)


def test_a_clock_that_was_set_back_or_forward_ends_nothing_wrongly() -> None:
    ahead = pinned(phase=Phase.DRAINING, since=NOW + HOUR, deadline=NOW + 2 * HOUR)

    assert isinstance(decide(ahead, seen(ours(), pods=(pod_of(),))), Act)
    assert isinstance(decide(ahead, seen(ours(), as_of=NOW + HOUR)), Wait)


def test_the_whole_way_is_walked_with_one_reboot() -> None:
    world = World(config_of(), operation_of(), ["works"])
    world.pods = [pod_of()]
    world.finish()

    assert world.phases == [
        Phase.GATED,
        Phase.RESERVED,
        Phase.ISOLATED,
        Phase.DRAINING,
        Phase.EXECUTING,
        Phase.AWAITING_RETURN,
        Phase.VERIFYING,
        Phase.RELEASING,
        Phase.SUCCEEDED,
    ]
    assert world.reboots == ["boot-1"]
    assert world.node.operation_taint is None
    assert [entry.phase for entry in world.operation.status.history][-1] is Phase.SUCCEEDED


def test_a_drain_ends_with_the_last_pod_and_not_at_the_next_poll() -> None:
    step = decide(pinned(phase=Phase.DRAINING, since=NOW - SECOND), seen(ours(), pods=()))

    assert went(step)[0] is Phase.EXECUTING


def test_only_what_a_phase_looks_at_is_read() -> None:
    guards = [{"name": "quiet", "expr": 'up{node="{{ node }}"}'}]
    config = config_of(
        playbook_of(gates={"guards": guards}), prometheus={"url": "http://p.example"}
    )
    playbook = config.playbooks[0]

    assert wants(pinned(), playbook).queries == {"quiet": 'up{node="n1"}'}
    assert wants(executing(), playbook).job == "op-1"
    assert wants(pinned(phase=Phase.DRAINING), playbook).pods
    assert wants(verifying(), playbook).probe
    assert not wants(pinned(phase=Phase.SUCCEEDED, clear_since=NOW), playbook).alerts
    assert ProbeState.NOT_ASKED is seen(node_of()).probe.state
