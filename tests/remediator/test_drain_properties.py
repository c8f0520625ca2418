"""Whatever pods there are and whatever the policy: a drain touches only what it may, and it ends."""

from datetime import datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from remediator.cluster import AskCheckpoint, DrainStep, EvictionAnswer, EvictionKind, PodView
from remediator.config import DrainSettings
from remediator.drain import next_drain
from tests.remediator.repair_inputs import a_pod, an_operation, at

OPERATION = an_operation()


def policy(**values: Any) -> DrainSettings:
    return DrainSettings.model_validate({"deadline": "15m", **values})


PODS = st.builds(
    lambda number, kind, answer, ends, values: a_pod(
        f"p{number}",
        terminating_since=None if ends is None else at(ends),
        answer=None if answer is None else EvictionAnswer(answer[0], at(answer[1])),
        **kind,
        **values,
    ),
    st.integers(0, 5),
    st.sampled_from(
        [{}, {"mirror": True}, {"daemon_set": True}, {"owner_kind": ""}, {"empty_dir": True}]
    ),
    st.none() | st.tuples(st.sampled_from(EvictionKind), st.floats(-100, 2000)),
    st.none() | st.floats(-100, 2000),
    st.fixed_dictionaries({"phase": st.sampled_from(["Running", "Pending", "Succeeded"])}),
)
POLICIES = st.builds(
    policy,
    strategy=st.sampled_from(["None", "Evict", "Delete", "ForceDelete", "WaitForCompletion"]),
    on_deadline=st.sampled_from(["escalate", "delete", "force_delete", "proceed"]),
    empty_dir=st.sampled_from(["keep", "delete"]),
    unmanaged=st.sampled_from(["keep", "delete"]),
    checkpoint=st.none() | st.just({"wait": "3m"}),
)


@given(st.lists(PODS, max_size=6, unique_by=lambda pod: pod.uid), POLICIES, st.floats(-100, 3000))
def test_whatever_is_there_a_drain_touches_only_what_it_may_and_ends(
    pods: list[PodView], settings: DrainSettings, seconds: float
) -> None:
    step = next_drain(OPERATION, tuple(pods), settings, at(seconds))
    by_uid = {pod.uid: pod for pod in pods}

    assert not (step.done and step.stuck)
    assert step.effects == () or not (step.done or step.stuck)
    for effect in step.effects:
        pod = by_uid[effect.pod.uid]
        assert (pod.mirror, pod.daemon_set, pod.finished) == (False, False, False)
    if not step.done and not step.stuck:
        assert step.waiting
        _wakes_in_time(step, settings, at(seconds))
    if seconds >= 900 + 60 + 30:
        assert step.done or step.stuck


def _wakes_in_time(step: DrainStep, settings: DrainSettings, now: datetime) -> None:
    assert step.wake_at is not None
    assert step.wake_at > now
    assert step.wake_at <= at(settings.deadline.total_seconds() + 60 + 30)


@given(st.lists(PODS, max_size=6, unique_by=lambda pod: pod.uid), POLICIES, st.floats(-100, 3000))
def test_kept_pods_are_never_touched(
    pods: list[PodView], settings: DrainSettings, seconds: float
) -> None:
    kept = settings.model_copy(
        update={"empty_dir": policy(empty_dir="keep").empty_dir, "unmanaged": policy().unmanaged}
    )
    step = next_drain(OPERATION, tuple(pods), kept, at(seconds))
    touched = {effect.pod.uid for effect in step.effects if not isinstance(effect, AskCheckpoint)}
    last = {pod.uid: pod for pod in pods}

    assert not [uid for uid in touched if last[uid].empty_dir or not last[uid].owner_kind]
