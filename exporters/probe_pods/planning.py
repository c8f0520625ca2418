"""What to do now: which nodes get a probe pod, which probe pods are withdrawn. Pure.

Three promises: not more than the cap of periodic probes at once, never a second probe pod for a node, and no periodic
probe on a node that an operation has isolated.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache

from exporters.probe_pods.model import PodStage, PodView, ProbeNode, Purpose


class Course(StrEnum):
    """Why a node gets a probe pod now, or does not."""

    DUE = "due"
    PROOF_REQUESTED = "proof_requested"
    NOT_DUE = "not_due"
    IN_FLIGHT = "in_flight"
    """Its probe pod has not gone yet."""
    CAP_REACHED = "cap_reached"
    UNDER_REMEDIATION = "under_remediation"
    PROOF_ANSWERED = "proof_answered"
    """The operation was told a moment ago that there is no verdict; it is tried again later."""
    OTHER_OWNER = "other_owner"
    NOT_READY = "not_ready"
    NO_GPU = "no_gpu"
    """The node offers none to pods."""
    GOING = "going"
    """The node is being deleted."""
    SWITCHED_OFF = "switched_off"

    @property
    def creates(self) -> bool:
        return self in {Course.DUE, Course.PROOF_REQUESTED}


class WithdrawReason(StrEnum):
    """Why a probe pod is deleted before it has ended."""

    PENDING_TOO_LONG = "pending_too_long"
    CANNOT_START = "cannot_start"
    """Its image cannot be pulled."""
    OVERDUE = "overdue"
    """It should have been ended by its deadline long ago."""
    NODE_GONE = "node_gone"
    NODE_REBOOTED = "node_rebooted"
    OTHER_OWNER = "other_owner"
    UNDER_REMEDIATION = "under_remediation"
    PROOF_REQUESTED = "proof_requested"
    """A periodic probe makes room for the proof."""
    NO_MORE_REQUESTED = "no_more_requested"
    SWITCHED_OFF = "switched_off"


@dataclass(frozen=True, slots=True)
class PlanPolicy:
    """How often and how many. `max_share` is of all nodes that are ours, above 0 and at most 1."""

    period: timedelta
    max_share: float
    pending_timeout: timedelta
    proof_retry: timedelta
    overdue: timedelta = timedelta(seconds=30)
    """After its deadline, the time that a kubelet gets to end a pod."""
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Decision:
    """A probe that is to be made: of which node and why."""

    node: ProbeNode
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, most urgent first, and why the other nodes are left alone."""

    create: tuple[Decision, ...]
    withdraw: tuple[tuple[PodView, WithdrawReason], ...]
    courses: Mapping[str, Course]
    in_flight: int
    """Periodic probes that had not gone when the plan was made."""
    cap: int


def cap_of(nodes: int, max_share: float) -> int:
    """How many periodic probes may be in flight: the share of the nodes, rounded down, but one at least."""
    return max(1, int(nodes * max_share))


def slot_start(name: str, period: timedelta, now: datetime) -> datetime:
    """When the node's current turn began; turns of all nodes are spread over the period by their names."""
    since = (now.timestamp() - _share(name) * period.total_seconds()) % period.total_seconds()
    return now - timedelta(seconds=since)


@lru_cache(maxsize=1 << 14)
def _share(name: str) -> float:
    """A number from 0 to below 1 that stays with the name."""
    digest = hashlib.sha256(name.encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:6], "big") / (1 << 48)


def plan(
    nodes: Iterable[ProbeNode], pods: Iterable[PodView], policy: PlanPolicy, now: datetime
) -> Plan:
    """Decide for all nodes and pods as they are known now."""
    by_name = {node.name: node for node in nodes}
    all_pods = tuple(pods)
    withdraw = tuple(
        (pod, reason)
        for pod in all_pods
        if (reason := _why_withdraw(pod, by_name.get(pod.node), policy, now)) is not None
    )
    taken = {pod.node for pod in all_pods}
    in_flight = sum(pod.purpose is Purpose.PERIODIC for pod in all_pods)
    cap = cap_of(sum(node.is_ours for node in by_name.values()), policy.max_share)
    courses = {
        name: _course(node, policy, now) if name not in taken else Course.IN_FLIGHT
        for name, node in by_name.items()
    }
    due = sorted(
        (by_name[name] for name, course in courses.items() if course is Course.DUE),
        key=lambda node: _turn(node, policy, now),
    )
    room = max(0, cap - in_flight)
    courses |= {node.name: Course.CAP_REACHED for node in due[room:]}
    proofs = [
        Decision(by_name[name], Purpose.PROOF)
        for name, course in courses.items()
        if course is Course.PROOF_REQUESTED
    ]
    periodic = (Decision(node, Purpose.PERIODIC) for node in due[:room])
    return Plan((*proofs, *periodic), withdraw, courses, in_flight, cap)


def _turn(node: ProbeNode, policy: PlanPolicy, now: datetime) -> tuple[float, datetime, str]:
    """Who waited longest comes first: those never probed in this boot, then by their last probe."""
    probed = node.probed.timestamp() if node.probed else 0.0
    return probed, slot_start(node.name, policy.period, now), node.name


def _course(node: ProbeNode, policy: PlanPolicy, now: datetime) -> Course:  # noqa: PLR0911 - a decision list
    if not policy.enabled:
        return Course.SWITCHED_OFF
    if not node.is_ours:
        return Course.OTHER_OWNER
    if node.is_deleting:
        return Course.GOING
    if not node.is_ready:
        return Course.NOT_READY
    if node.allocatable < 1:
        return Course.NO_GPU
    if node.request:
        told = node.answered is not None and now - node.answered < policy.proof_retry
        return Course.PROOF_ANSWERED if told else Course.PROOF_REQUESTED
    if node.isolated_by:
        return Course.UNDER_REMEDIATION
    return Course.DUE if _is_due(node, policy, now) else Course.NOT_DUE


def _is_due(node: ProbeNode, policy: PlanPolicy, now: datetime) -> bool:
    return node.probed is None or node.probed < slot_start(node.name, policy.period, now)


def _why_withdraw(
    pod: PodView, node: ProbeNode | None, policy: PlanPolicy, now: datetime
) -> WithdrawReason | None:
    if pod.is_deleting or pod.stage is PodStage.ENDED:
        return None
    return _node_forbids(pod, node, policy) or _hangs(pod, policy, now)


def _node_forbids(  # noqa: PLR0911 - a decision list
    pod: PodView, node: ProbeNode | None, policy: PlanPolicy
) -> WithdrawReason | None:
    if not policy.enabled:
        return WithdrawReason.SWITCHED_OFF
    if node is None or node.uid != pod.node_uid:
        return WithdrawReason.NODE_GONE
    if not node.is_ours:
        return WithdrawReason.OTHER_OWNER
    if node.boot_id != pod.boot_id:
        return WithdrawReason.NODE_REBOOTED
    if pod.purpose is Purpose.PROOF:
        asked = node.request == pod.operation
        return None if asked else WithdrawReason.NO_MORE_REQUESTED
    if node.request:
        return WithdrawReason.PROOF_REQUESTED
    return WithdrawReason.UNDER_REMEDIATION if node.isolated_by else None


def _hangs(pod: PodView, policy: PlanPolicy, now: datetime) -> WithdrawReason | None:
    if pod.stage in {PodStage.WAITING, PodStage.STARTING}:
        if pod.trouble is not None:
            return WithdrawReason.CANNOT_START
        if now - pod.created >= policy.pending_timeout and pod.stage is PodStage.WAITING:
            return WithdrawReason.PENDING_TOO_LONG
    if pod.deadline is not None and now - pod.deadline >= policy.overdue:
        return WithdrawReason.OVERDUE
    return None
