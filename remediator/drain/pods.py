"""What is to become of one pod, whatever the others do.

Pure. Policy only; when it happens is `decision`'s.
"""

from dataclasses import dataclass
from enum import StrEnum

from chassis.alertmanager import all_match
from remediator.cluster import PodView
from remediator.config import DrainSettings, DrainStrategy, EmptyDirPolicy, UnmanagedPolicy
from remediator.operation import OPERATION_UID_LABEL


class Way(StrEnum):
    """How a pod leaves, or why it need not or cannot."""

    STAYS = "stays"
    """It is no business of the drain: static, of a DaemonSet, finished, our own, or exempt."""
    EVICT = "evict"
    DELETE = "delete"
    FORCE_DELETE = "force_delete"
    WAIT = "wait"
    """It is left to end by itself."""
    KEPT = "kept"
    """The policy forbids that we remove it, whatever the deadline says."""


@dataclass(frozen=True, slots=True)
class PodPlan:
    """A pod's way and the reason in words."""

    way: Way
    text: str = ""


_WAYS = {
    DrainStrategy.NONE: PodPlan(Way.STAYS, "the playbook leaves it"),
    DrainStrategy.EVICT: PodPlan(Way.EVICT),
    DrainStrategy.DELETE: PodPlan(Way.DELETE),
    DrainStrategy.FORCE_DELETE: PodPlan(Way.FORCE_DELETE),
    DrainStrategy.WAIT_FOR_COMPLETION: PodPlan(Way.WAIT, "runs to its end"),
}


def plan_of(pod: PodView, policy: DrainSettings) -> PodPlan:
    """How this pod is to leave."""
    if exempt := _exempt(pod, policy):
        return PodPlan(Way.STAYS, exempt)
    plan = _WAYS[_strategy(pod, policy)]
    if plan.way in {Way.STAYS, Way.WAIT}:
        return plan
    if kept := _kept(pod, policy):
        return PodPlan(Way.KEPT, kept)
    return plan


def _exempt(pod: PodView, policy: DrainSettings) -> str:
    if pod.mirror:
        return "a static pod"
    if pod.daemon_set:
        return "of a DaemonSet"
    if pod.finished:
        return "finished"
    if OPERATION_UID_LABEL in pod.labels:
        return "a repair"
    if policy.gpu_pods_only and not pod.gpus:
        return "uses no GPU"
    return ""


def _strategy(pod: PodView, policy: DrainSettings) -> DrainStrategy:
    for rule in policy.rules:
        if rule.namespace in {"", pod.namespace} and all_match(rule.selector, pod.labels):
            return rule.strategy
    return policy.strategy


def _kept(pod: PodView, policy: DrainSettings) -> str:
    if not pod.owner_kind and policy.unmanaged is UnmanagedPolicy.KEEP:
        return "nothing would create it again (unmanaged: keep)"
    if pod.empty_dir and policy.empty_dir is EmptyDirPolicy.KEEP:
        return "its emptyDir would be lost (empty_dir: keep)"
    return ""
