"""What to do about one pod now: remove it, ask for its checkpoint, or wait for something.

Pure. Every removal carries the pod's UID, so that a pod reborn under the same name is another pod.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from chassis.alertmanager import all_match
from remediator.cluster import (
    AskCheckpoint,
    DeletePod,
    Effect,
    EvictionAnswer,
    EvictionKind,
    EvictPod,
    PodRef,
    PodView,
)
from remediator.config import DrainSettings
from remediator.drain.pods import Way
from remediator.operation import CHECKPOINT_DONE, CHECKPOINT_REQUEST, NodeOperation, Reason

_BUDGET_PAUSE = timedelta(seconds=10)
_OTHER_PAUSE = timedelta(seconds=5)
_UNSEEN_AFTER = timedelta(seconds=30)
"""After which an accepted eviction that shows no effect is sent again: its UID makes that harmless."""
_REBORN_PAUSE = timedelta(seconds=10)
"""A pod that came after the isolation tolerates it, and may come back as often as it is removed."""
_FORCE_AGAIN = timedelta(seconds=10)
_NOW = timedelta(0)


@dataclass(frozen=True, slots=True)
class Try:
    """What one pod needs: an effect now, or a wait with its reason and its end if that is known."""

    reason: Reason
    text: str
    effect: Effect | None = None
    until: datetime | None = None
    hopeless: bool = False
    """Nothing that the strategy allows will ever remove it."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What holds for all pods of a drain."""

    operation: NodeOperation
    policy: DrainSettings
    since: datetime
    now: datetime


def try_of(pod: PodView, way: Way, around: Circumstances) -> Try:
    """The next thing for a pod that must go by this way (EVICT, DELETE or FORCE_DELETE)."""
    if pod.terminating_since is not None:
        return _ending(pod, pod.terminating_since, around.now, force=way is Way.FORCE_DELETE)
    if (asked := _checkpoint(pod, around)) is not None:
        return asked
    if (wait := _pause(pod, around)) is not None:
        return wait
    if way is Way.EVICT:
        return Try(Reason.EVICTING, "is being evicted", EvictPod(ref(pod), around.policy.grace))
    effect = DeletePod(ref(pod), around.policy.grace)
    return Try(Reason.EVICTING, "is being deleted", effect)


def forced(pod: PodView, now: datetime) -> Try:
    """Removal without its grace period, again from time to time until it is gone."""
    answer = pod.answer
    if answer is not None and now < answer.at + _FORCE_AGAIN:
        return Try(Reason.PODS_TERMINATING, "is being removed", until=answer.at + _FORCE_AGAIN)
    return Try(Reason.PODS_TERMINATING, "is being removed by force", DeletePod(ref(pod), _NOW))


def ref(pod: PodView) -> PodRef:
    """The pod that is meant, by its UID."""
    return PodRef(pod.namespace, pod.name, pod.uid)


def _ending(pod: PodView, since: datetime, now: datetime, *, force: bool) -> Try:
    over = since + pod.grace
    if not force:
        return Try(Reason.PODS_TERMINATING, f"ends since {since:%H:%M:%S}", until=max(over, now))
    if now < over:
        return Try(Reason.PODS_TERMINATING, f"has until {over:%H:%M:%S} to end", until=over)
    return forced(pod, now)


def _checkpoint(pod: PodView, around: Circumstances) -> Try | None:
    """The request for a checkpoint, or the wait for it; None when the pod may go."""
    policy, name = around.policy.checkpoint, around.operation.name
    if policy is None or pod.phase != "Running" or not all_match(policy.selector, pod.labels):
        return None
    until = around.since + policy.wait
    if pod.annotations.get(CHECKPOINT_DONE) == name or around.now >= until:
        return None
    effect = None
    if pod.annotations.get(CHECKPOINT_REQUEST) != name:
        effect = AskCheckpoint(ref(pod), name)
    text = f"has until {until:%H:%M:%S} to write its checkpoint"
    return Try(Reason.WAITS_FOR_CHECKPOINT, text, effect, until)


def _pause(pod: PodView, around: Circumstances) -> Try | None:
    """The wait before the next try, None when it is time."""
    if pod.answer is None:
        born = pod.created_at
        if born is None or born <= around.since or around.now >= born + _REBORN_PAUSE:
            return None
        return Try(Reason.EVICTING, "came after the isolation", until=born + _REBORN_PAUSE)
    if pod.answer.kind is EvictionKind.SEVERAL_BUDGETS:
        text = f"cannot be evicted: {pod.answer.text or 'several PodDisruptionBudgets select it'}"
        return Try(Reason.POD_CANNOT_GO, text, hopeless=True)
    return _after(pod.answer, around.now)


def _after(answer: EvictionAnswer, now: datetime) -> Try | None:
    pause, reason, text = _PAUSES[answer.kind]
    until = answer.retry_at or answer.at + pause
    if now >= until:
        return None
    return Try(reason, f"{text}: {answer.text}" if answer.text else text, until=until)


_PAUSES = {
    EvictionKind.ACCEPTED: (_UNSEEN_AFTER, Reason.PODS_TERMINATING, "was asked to end"),
    EvictionKind.GONE: (_UNSEEN_AFTER, Reason.PODS_TERMINATING, "is gone, as the API says"),
    EvictionKind.BUDGET: (
        _BUDGET_PAUSE,
        Reason.BLOCKED_BY_DISRUPTION_BUDGET,
        "is held by a PodDisruptionBudget",
    ),
    EvictionKind.THROTTLED: (_OTHER_PAUSE, Reason.EVICTING, "waits, as the API server is busy"),
    EvictionKind.FAILED: (_OTHER_PAUSE, Reason.EVICTING, "could not be removed yet"),
}
