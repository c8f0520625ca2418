"""What people, nodes and configurations do to an operation under way, one decision at a time."""

from dataclasses import replace

import pytest

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
    NodeOperation,
    Phase,
    Reason,
    Wish,
)
from tests.remediator.building import (
    HOUR,
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
