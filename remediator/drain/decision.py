"""The next step of a drain as a whole: effects now, who is waited for, and what the deadline does.

Pure. A pod that cannot go holds up no other one; every wait ends at the deadline.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from remediator.cluster import DrainStep, EvictionKind, PodView, PodWait
from remediator.config import DrainSettings, OnDeadline
from remediator.drain.pods import PodPlan, Way, plan_of
from remediator.drain.tries import Circumstances, Try, forced, try_of
from remediator.operation import NodeOperation, Reason

_LAST_WAIT = timedelta(minutes=1)
"""How long pods that the deadline's policy removes may still take, beyond their grace."""
_NAMED = 5


@dataclass(frozen=True, slots=True)
class _Case:
    """A pod that must go, and what is done about it now."""

    pod: PodView
    plan: PodPlan
    now: Try


def next_drain(
    operation: NodeOperation, pods: Sequence[PodView], policy: DrainSettings, now: datetime
) -> DrainStep:
    """What to do now so that the node becomes empty.

    The drain began when the operation's phase did. Kept pods are never removed, not even at the
    deadline: with them it ends there with `stuck` POD_CANNOT_GO, unless the policy is to proceed.
    """
    around = Circumstances(operation, policy, operation.status.since or now, now)
    leaving = [(pod, plan) for pod in pods if (plan := plan_of(pod, policy)).way is not Way.STAYS]
    leaving.sort(key=lambda each: (each[0].namespace, each[0].name, each[0].uid))
    if not leaving:
        return DrainStep(done=True, text="nothing more must leave")
    deadline = around.since + policy.deadline
    if now >= deadline:
        return _at_deadline(leaving, around, deadline)
    cases = [_Case(pod, plan, _now(pod, plan, around)) for pod, plan in leaving]
    if policy.on_deadline is OnDeadline.ESCALATE and all(case.now.hopeless for case in cases):
        return _stuck(Reason.POD_CANNOT_GO, cases)
    return _step(cases, deadline, now)


def _now(pod: PodView, plan: PodPlan, around: Circumstances) -> Try:
    if pod.terminating_since is None:
        if plan.way is Way.KEPT:
            return Try(Reason.POD_CANNOT_GO, plan.text)
        if plan.way is Way.WAIT:
            return Try(Reason.PODS_TERMINATING, plan.text)
    return try_of(pod, plan.way, around)


def _at_deadline(
    leaving: Sequence[tuple[PodView, PodPlan]], around: Circumstances, deadline: datetime
) -> DrainStep:
    how = around.policy.on_deadline
    if how is OnDeadline.PROCEED:
        names = _names(pod for pod, _ in leaving)
        return DrainStep(done=True, text=f"the deadline has passed; still there: {names}")
    cases = [_Case(pod, plan, _late(pod, plan, around)) for pod, plan in leaving]
    if how is OnDeadline.ESCALATE:
        return _stuck(Reason.DRAIN_DEADLINE, cases)
    if any(case.now.hopeless for case in cases):
        return _stuck(Reason.POD_CANNOT_GO, cases)
    last = deadline + _LAST_WAIT
    if how is OnDeadline.DELETE:
        last += max(_grace(case.pod, around.policy) for case in cases)
    if around.now >= last:
        return _stuck(Reason.DRAIN_DEADLINE, cases)
    return _step(cases, last, around.now)


def _late(pod: PodView, plan: PodPlan, around: Circumstances) -> Try:
    """What the deadline does about a pod, where its policy is to remove them."""
    if plan.way is Way.KEPT:
        gone = pod.terminating_since is not None
        return try_of(pod, Way.DELETE, around) if gone else _never(plan)
    if around.policy.on_deadline is OnDeadline.FORCE_DELETE:
        return forced(pod, around.now)
    bare = Circumstances(
        around.operation,
        around.policy.model_copy(update={"checkpoint": None}),
        around.since,
        around.now,
    )
    way = Way.FORCE_DELETE if plan.way is Way.FORCE_DELETE else Way.DELETE
    return try_of(_unanswered(pod), way, bare)


def _never(plan: PodPlan) -> Try:
    return Try(Reason.POD_CANNOT_GO, plan.text, hopeless=True)


def _unanswered(pod: PodView) -> PodView:
    """The pod as if no eviction had been refused: no PodDisruptionBudget holds a delete."""
    if pod.answer is None or pod.answer.kind not in _HELD_BY_BUDGET:
        return pod
    return replace(pod, answer=None)


def _grace(pod: PodView, policy: DrainSettings) -> timedelta:
    return pod.grace if policy.grace is None else policy.grace


def _step(cases: Sequence[_Case], deadline: datetime, now: datetime) -> DrainStep:
    ends = [case.now.until for case in cases if case.now.until is not None and case.now.until > now]
    return DrainStep(
        effects=tuple(case.now.effect for case in cases if case.now.effect is not None),
        waiting=_waiting(cases),
        text=_text(cases),
        wake_at=min([*ends, deadline]),
    )


def _stuck(reason: Reason, cases: Sequence[_Case]) -> DrainStep:
    return DrainStep(waiting=_waiting(cases), stuck=reason, text=_text(cases))


def _waiting(cases: Sequence[_Case]) -> tuple[PodWait, ...]:
    return tuple(PodWait(case.pod.key, case.now.reason, case.now.text) for case in cases)


def _text(cases: Sequence[_Case]) -> str:
    """One sentence; the pods that are in the worst way come first."""
    worst = sorted(cases, key=lambda case: case.now.reason not in _WORST)
    told = "; ".join(f"{case.pod.key} {case.now.text}" for case in worst[:_NAMED])
    more = f"; and {len(cases) - _NAMED} more" if len(cases) > _NAMED else ""
    number = "1 pod" if len(cases) == 1 else f"{len(cases)} pods"
    return f"{number} must leave: {told}{more}"


def _names(pods: Iterable[PodView]) -> str:
    names = [pod.key for pod in pods]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


_HELD_BY_BUDGET = frozenset({EvictionKind.BUDGET, EvictionKind.SEVERAL_BUDGETS})
_WORST = frozenset({Reason.POD_CANNOT_GO, Reason.BLOCKED_BY_DISRUPTION_BUDGET})
