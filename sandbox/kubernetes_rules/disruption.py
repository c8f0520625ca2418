"""PodDisruptionBudgets: their status from the pods, and whether an eviction may happen now. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sandbox.kubernetes_rules.deletion import rfc3339
from sandbox.kubernetes_rules.selectors import structured
from sandbox.kubernetes_rules.statuses import (
    Refusal,
    eviction_impossible,
    eviction_refused,
    too_many_requests,
)

_DISRUPTION_TIMEOUT = timedelta(minutes=2)
_ENDED = frozenset({"Succeeded", "Failed"})
_MOST_DISRUPTED = 2000
_STILL_PROCESSED_RETRY = 10
_ALLOWED = "DisruptionAllowed"

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Eviction:
    """`refusal` None: the pod may go; `budget` is then the budget to be stored first, None when none changes."""

    refusal: Refusal | None = None
    budget: dict[str, Any] | None = None


def covers(budget: Object, pod: Object) -> bool:
    """Same namespace and selected; an empty selector takes every pod there, a missing one none."""
    meta, other = budget["metadata"], pod["metadata"]
    selector = structured((budget.get("spec") or {}).get("selector"))
    return meta.get("namespace") == other.get("namespace") and selector.matches(other.get("labels"))


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(e.get("type") == "Ready" and e.get("status") == "True" for e in conditions)


def budget_status(
    budget: Object,
    pods: Iterable[Object],
    now: datetime,
    *,
    expected: int | None = None,
) -> dict[str, Any]:
    """The status that the disruption controller would write.

    `expected` is the number of pods that the pods' controllers want (their `replicas`); without it, for a percentage or
    maxUnavailable, the number of pods that there are.
    """
    spec, before = budget.get("spec") or {}, budget.get("status") or {}
    found = [e for e in pods if covers(budget, e) and _phase(e) not in _ENDED]
    disrupted = _still_disrupted(before.get("disruptedPods") or {}, found, now)
    healthy = sum(1 for each in found if _counts_as_healthy(each, disrupted))
    total = len(found) if expected is None or not _needs_scale(spec) else expected
    desired = desired_healthy(spec, total)
    allowed = max(healthy - desired, 0) if total > 0 else 0
    status: dict[str, Any] = {
        "observedGeneration": budget["metadata"].get("generation", 1),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": total,
        "conditions": _conditions(before, allowed, budget, now),
    }
    return {**status, "disruptedPods": disrupted} if disrupted else status


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _counts_as_healthy(pod: Object, disrupted: Mapping[str, str]) -> bool:
    meta = pod["metadata"]
    going = meta.get("deletionTimestamp") or meta["name"] in disrupted
    return not going and is_ready(pod)


def _still_disrupted(
    disrupted: Mapping[str, str], pods: Sequence[Object], now: datetime
) -> dict[str, str]:
    """Evictions that are granted but not seen yet; after two minutes the pod counts again."""
    present = {e["metadata"]["name"] for e in pods if not e["metadata"].get("deletionTimestamp")}
    return {
        name: since
        for name, since in disrupted.items()
        if name in present and now - datetime.fromisoformat(since) <= _DISRUPTION_TIMEOUT
    }


def _needs_scale(spec: Mapping[str, Any]) -> bool:
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def desired_healthy(spec: Mapping[str, Any], expected: int) -> int:
    """How many must stay; percentages are rounded up, both of those that stay and of those that may go."""
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is not None:
        return max(expected - _share(most, expected), 0)
    return 0 if least is None else _share(least, expected)


def _share(value: Any, whole: int) -> int:
    if isinstance(value, str):
        return -(-int(value.removesuffix("%")) * whole // 100)
    return int(value)


def _conditions(
    before: Mapping[str, Any], allowed: int, budget: Object, now: datetime
) -> list[dict[str, Any]]:
    others = [e for e in before.get("conditions") or () if e.get("type") != _ALLOWED]
    earlier = [e for e in before.get("conditions") or () if e.get("type") == _ALLOWED]
    status = "True" if allowed > 0 else "False"
    same = bool(earlier) and earlier[0].get("status") == status
    since = earlier[0]["lastTransitionTime"] if same else rfc3339(now)
    condition = {
        "type": _ALLOWED,
        "status": status,
        "observedGeneration": budget["metadata"].get("generation", 1),
        "lastTransitionTime": since,
        "reason": "SufficientPods" if allowed > 0 else "InsufficientPods",
        "message": "",
    }
    return [*others, condition]


def eviction(pod: Object, budgets: Iterable[Object], now: datetime) -> Eviction:
    """Whether this pod may be evicted, as the API server decides it: from the budgets' stored status alone."""
    if _goes_freely(pod):
        return Eviction()
    covering = [each for each in budgets if covers(each, pod)]
    if not covering:
        return Eviction()
    if len(covering) > 1:
        return Eviction(eviction_impossible())
    budget = covering[0]
    status = budget.get("status") or {}
    if not is_ready(pod) and _may_go_unready(budget, status):
        return Eviction()
    refusal = _refusal(budget, status)
    return Eviction(refusal) if refusal else Eviction(None, _charged(budget, pod, now))


def _goes_freely(pod: Object) -> bool:
    ended = _phase(pod) in _ENDED | {"Pending"}
    return ended or bool(pod["metadata"].get("deletionTimestamp"))


def _may_go_unready(budget: Object, status: Mapping[str, Any]) -> bool:
    policy = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") or "IfHealthyBudget"
    healthy, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    return policy == "AlwaysAllow" or (healthy >= desired > 0)


def _refusal(budget: Object, status: Mapping[str, Any]) -> Refusal | None:
    name = budget["metadata"]["name"]
    observed = status.get("observedGeneration") or 0
    if observed < (budget["metadata"].get("generation") or 0):
        why = f"The disruption budget {name} is still being processed by the server."
        return eviction_refused(why, _STILL_PROCESSED_RETRY)
    if len(status.get("disruptedPods") or {}) > _MOST_DISRUPTED:
        return too_many_requests()
    if (status.get("disruptionsAllowed") or 0) > 0:
        return None
    desired, healthy = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
    why = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return eviction_refused(why)


def _charged(budget: Object, pod: Object, now: datetime) -> dict[str, Any]:
    """The budget with one disruption fewer, and the pod noted until the controller sees it go."""
    fresh = deepcopy(dict(budget))
    status = fresh["status"]
    status["disruptionsAllowed"] -= 1
    noted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: rfc3339(now)}
    status["disruptedPods"] = noted
    status["conditions"] = _conditions(status, status["disruptionsAllowed"], budget, now)
    return fresh
