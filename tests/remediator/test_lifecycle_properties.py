"""What must hold on every way through the lifecycle, whatever ends how and wherever it is killed."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chassis.contracts import TimelineOutcome
from remediator.cluster import (
    DESTRUCTIVE,
    CreateJob,
    DeleteJob,
    EvictPod,
    ForgetWish,
    Isolate,
    JobState,
    JobView,
    Observation,
    ProbeState,
    ProbeView,
    Release,
)
from remediator.lifecycle import Act, Policy, Record, Wait, next_step
from remediator.operation import (
    CANCELLED_BY,
    RELEASE_REQUESTED_BY,
    Attempt,
    AttemptOutcome,
    Intent,
    IntentAction,
    NodeOperation,
    Phase,
    Reason,
    Wish,
    may_follow,
)
from tests.remediator.building import (
    HAND_OVER,
    HOUR,
    NOW,
    condition_of,
    config_of,
    faulty,
    fleet_of,
    node_of,
    operation_of,
    pinned,
    playbook_of,
    pod_of,
)
from tests.remediator.small_world import ENDINGS, World

LADDER = [
    {"name": "reboot", "repair": {"reboot": {}}, "attempts": 2, "cooldown": "1m"},
    {"name": "now", "repair": {"reboot_now": {}}, "timeout": "2m", "return_within": "5m"},
    {"name": "reset", "repair": {"reset_gpu": {}}, "attempts": 2, "cooldown": "1m"},
    HAND_OVER,
]
endings = st.lists(st.sampled_from(ENDINGS), max_size=6)
kills = st.lists(st.booleans(), max_size=60)


def world(ends: list[str], killed: list[bool], **changes: Any) -> World:
    probe = {"soak": "1m", "deadline": "10m", "probe": True}
    config = config_of(playbook_of(ladder=LADDER, proof=probe))
    made = World(config, operation_of(), list(ends), kills=list(killed), **changes)
    made.pods = [pod_of("a"), pod_of("b")]
    return made


@settings(max_examples=40, deadline=None)
@given(endings, kills, st.booleans())
def test_it_ends_and_never_acts_more_often_than_it_has_counted(
    ends: list[str], killed: list[bool], heals: bool
) -> None:
    done = world(ends, killed, heals=heals).finish()

    status = done.operation.status
    assert status.phase in {Phase.SUCCEEDED, Phase.ESCALATED, Phase.CANCELLED}
    assert len(done.created) == len(set(done.created))
    assert len(done.created) <= len(status.attempts)
    assert len(done.reboots) == len(set(done.reboots))
    # What may have happened is the last thing that was done.
    assert AttemptOutcome.AMBIGUOUS not in {each.outcome for each in status.attempts[:-1]}
    numbers = [entry.number for entry in status.history]
    assert numbers == sorted(set(numbers))


@settings(max_examples=40, deadline=None)
@given(endings, kills, st.booleans())
def test_nothing_is_released_unproven_and_nothing_that_succeeded_stays_tainted(
    ends: list[str], killed: list[bool], heals: bool
) -> None:
    done = world(ends, killed, heals=heals).finish()

    succeeded = done.operation.status.phase is Phase.SUCCEEDED
    assert (done.node.operation_taint is None) == succeeded
    assert bool(done.effects(Release)) == succeeded
    if succeeded:
        assert not done.fault
        assert done.probe.state is ProbeState.PASSED
        assert done.operation.status.outcome is TimelineOutcome.HEALED


@settings(max_examples=30, deadline=None)
@given(endings, kills, st.integers(0, 60))
def test_a_node_that_vanishes_ends_it_and_a_job_that_has_not_begun_is_all_that_is_touched(
    ends: list[str], killed: list[bool], when: int
) -> None:
    going = world(ends, killed)
    for _ in going.run():
        if going.steps == when:
            going.there = False
            count = len(going.log)

    if not going.there and going.operation.status.phase is Phase.NODE_GONE:
        assert all(isinstance(effect, DeleteJob) for _, _, effect in going.log[count:])
        assert all(job.began for job in going.jobs.values() if job.state is JobState.ACTIVE)
        assert not going.operation.status.isolated


@settings(max_examples=40, deadline=None)
@given(endings, kills, st.integers(1, 60))
def test_a_person_who_takes_the_taint_off_cancels_it(
    ends: list[str], killed: list[bool], when: int
) -> None:
    going = world(ends, killed)
    isolating = {Phase.RESERVED, Phase.RELEASING}
    removed: int | None = None
    for _ in going.run():
        standing = going.node.operation_taint is not None
        if (
            going.steps >= when
            and removed is None
            and standing
            and going.operation.status.phase not in isolating
        ):
            going.node = replace(going.node, operation_taint=None)
            removed = len(going.log)
    going.finish()  # the removal itself wakes one that rests

    if removed is not None:
        assert going.operation.status.phase is Phase.CANCELLED
        assert going.operation.status.reason is Reason.TAINT_REMOVED
        after = [effect for _, _, effect in going.log[removed:]]
        assert all(isinstance(effect, DeleteJob) for effect in after)
        assert not any(
            job.state is JobState.ACTIVE and not job.began for job in going.jobs.values()
        )


@settings(max_examples=40, deadline=None)
@given(endings, kills, st.integers(1, 60), st.booleans())
def test_cancel_gives_back_an_untouched_node_and_a_repaired_one_only_proven(
    ends: list[str], killed: list[bool], when: int, heals: bool
) -> None:
    going = world(ends, killed, heals=heals)
    for _ in going.run():
        if going.steps == when:
            going.operation = replace(going.operation, annotations={CANCELLED_BY: "ada"})

    status = going.operation.status
    if going.node.operation_taint is None and status.attempts:
        assert not going.fault
    if status.phase is Phase.CANCELLED:
        assert not status.attempts
        assert going.node.operation_taint is None


@settings(max_examples=30, deadline=None)
@given(kills, st.booleans())
def test_an_escalated_node_is_released_on_request_only_if_it_is_proven(
    killed: list[bool], healthy: bool
) -> None:
    going = world(["no_image"] * 6, []).finish()
    assert going.operation.status.phase is Phase.ESCALATED

    going.fault = not healthy
    going.kills = list(killed)
    going.operation = replace(going.operation, annotations={RELEASE_REQUESTED_BY: "ada"})
    going.finish()

    assert going.operation.status.phase is (Phase.SUCCEEDED if healthy else Phase.ESCALATED)
    assert (going.node.operation_taint is None) is healthy
    assert going.operation.annotations == {}


# From any state at all.

texts = st.sampled_from(["", "boot-1", "boot-2"])
moments = st.sampled_from([None, NOW - HOUR, NOW, NOW + HOUR])
intents = st.builds(
    Intent,
    st.sampled_from(IntentAction),
    st.just(NOW - HOUR),
    texts,
    st.sampled_from(["", "op-1"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
attempts = st.builds(
    Attempt,
    st.integers(0, 3),
    st.integers(1, 2),
    st.just(NOW - HOUR),
    moments,
    st.sampled_from(AttemptOutcome),
)


@st.composite
def operations(draw: st.DrawFn, *, dry_run: bool | None = None) -> NodeOperation:
    if draw(st.booleans()):
        # Nothing is wrong with this one: chance alone hardly ever comes to an effect.
        announced = Intent(draw(st.sampled_from(IntentAction)), NOW, "boot-1", "op-1")
        flag = draw(st.booleans()) if dry_run is None else dry_run
        phase = draw(st.sampled_from(Phase))
        return pinned(phase=phase, intent=announced, fixed_at=NOW - HOUR, dry_run=flag)
    annotations = draw(st.sampled_from([{}, {CANCELLED_BY: "a"}, {RELEASE_REQUESTED_BY: "a"}]))
    return operation_of(
        phase=draw(st.sampled_from(Phase)),
        reason=draw(st.sampled_from(Reason)),
        since=draw(moments),
        deadline=draw(moments),
        node_uid=draw(st.sampled_from(["", "uid-n1", "uid-old"])),
        boot_id=draw(texts),
        rung=draw(st.integers(0, 5)),
        rung_name=draw(st.sampled_from(["", "reboot", "now", "reset"])),
        attempt=draw(st.integers(0, 3)),
        isolated=draw(st.booleans()),
        intent=draw(st.none() | intents),
        attempts=tuple(draw(st.lists(attempts, max_size=2))),
        fixed_at=draw(moments),
        clear_since=draw(moments),
        wish=draw(st.none() | st.sampled_from(Wish)),
        wish_by=draw(st.sampled_from(["", "a"])),
        dry_run=draw(st.booleans()) if dry_run is None else dry_run,
        playbook=draw(st.sampled_from(["gpu", "gpu", "former"])),
        annotations=annotations,
        deleting=draw(st.booleans()),
    )


jobs = st.builds(
    JobView,
    st.sampled_from(["op-1", "other"]),
    st.sampled_from(JobState),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0, 1, 70, 71, 72, 75, 76, 137]),
)


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    if draw(st.booleans()):
        tainted = faulty(operation_taint=draw(st.sampled_from([None, "no-1"])))
        return Observation(NOW, tainted, (pod_of(),), JobView("op-1", JobState.MISSING))
    node = node_of(
        boot_id=draw(texts),
        ready=draw(st.sampled_from(["True", "False", "Unknown"])),
        operation_taint=draw(st.sampled_from([None, "no-1", "no-2"])),
        is_virtual=draw(st.booleans()),
        conditions={"GPUIsLost": condition_of(draw(st.sampled_from(["True", "False", "Unknown"])))},
    )
    pods = draw(st.sampled_from([None, (), (pod_of(),), (pod_of(terminating_since=NOW),)]))
    return Observation(
        draw(st.sampled_from([NOW, NOW - HOUR])),
        draw(st.sampled_from([node, node, None])),
        pods,
        draw(st.none() | jobs),
        probe=ProbeView(draw(st.sampled_from(ProbeState)), "boot-1", NOW),
    )


POLICY = Policy(config_of(playbook_of(ladder=LADDER)))
ANNOUNCED = {
    CreateJob: (Phase.EXECUTING, IntentAction.RUN_JOB),
    EvictPod: (Phase.DRAINING, None),
    Isolate: (Phase.RESERVED, None),
}


@settings(max_examples=200, deadline=None)
@given(operations(), observations())
def test_from_any_state_the_step_is_allowed_and_its_effects_are_announced(
    operation: NodeOperation, observation: Observation
) -> None:
    fleet = fleet_of(observation.node or faulty())
    step = next_step(operation, observation, POLICY, fleet, (), NOW)

    status = operation.status
    if isinstance(step, Record):
        assert may_follow(status.phase, step.status.phase)
        assert step.status != status
        assert not step.status.phase.is_final or step.status.ended_at or status.phase.is_final
    elif isinstance(step, Act):
        for effect in step.effects:
            phase, action = ANNOUNCED.get(type(effect), (None, None))
            assert phase in {None, status.phase}
            assert action is None or (status.intent and status.intent.action is action)
            if isinstance(effect, Release):
                assert status.phase in {Phase.RELEASING, Phase.SUCCEEDED, Phase.CANCELLED}
            if isinstance(effect, CreateJob):
                assert observation.job is not None
                assert observation.job.state is JobState.MISSING
                assert status.intent is not None
                assert not status.intent.job_seen
    else:
        assert isinstance(step, Wait)
        assert step.until is None or step.until > NOW


@settings(max_examples=100, deadline=None)
@given(operations(dry_run=True), observations())
def test_a_dry_run_never_touches_anything(
    operation: NodeOperation, observation: Observation
) -> None:
    fleet = fleet_of(observation.node or faulty())
    step = next_step(operation, observation, POLICY, fleet, (), NOW)

    if isinstance(step, Act):
        assert all(isinstance(effect, ForgetWish) for effect in step.effects)


@settings(max_examples=100, deadline=None)
@given(operations(), observations())
def test_under_a_pause_or_an_open_breaker_nothing_is_taken_from_anybody(
    operation: NodeOperation, observation: Observation
) -> None:
    fleet = fleet_of(observation.node or faulty())
    stopped = replace(fleet, breaker=replace(fleet.breaker, open=True))
    step = next_step(operation, observation, POLICY, stopped, (), NOW)

    if isinstance(step, Act):
        assert not any(isinstance(effect, DESTRUCTIVE) for effect in step.effects)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(Phase))
def test_every_running_phase_has_a_deadline_or_moves_on(phase: Phase) -> None:
    intent = Intent(IntentAction.RUN_JOB, NOW, "boot-1", "op-1")
    operation = pinned(phase=phase, intent=intent, fixed_at=NOW, attempt=1)
    node = faulty(operation_taint="no-1" if operation.status.isolated else None)
    if phase is Phase.RESERVED:
        node = replace(node, operation_taint=None)
    observation = Observation(NOW, node, (pod_of(),), JobView("op-1", JobState.ACTIVE, began=True))
    step = next_step(operation, observation, POLICY, fleet_of(node), (), NOW)

    if isinstance(step, Wait) and operation.running:
        assert step.until is not None
        assert operation.status.deadline is not None
        assert step.until <= operation.status.deadline
