"""Which probe pods are created and withdrawn: a table of single nodes, and properties of whole clusters over time."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporters.probe_pods import (
    Course,
    Outcome,
    PodStage,
    PodView,
    ProbeNode,
    Purpose,
    WithdrawReason,
    cap_of,
    plan,
    slot_start,
)
from tests.exporters.probe_builders import HOUR, NOW, POLICY, a_pod_view, a_probe_node, ago

PROOF = {"purpose": Purpose.PROOF, "operation": "op-1"}

COURSES: dict[str, tuple[dict[str, Any], Course]] = {
    "a node that was never probed in this boot is due": ({}, Course.DUE),
    "a node that was probed in its turn is not due": ({"probed": NOW}, Course.NOT_DUE),
    "a node whose turn has come again is due": ({"probed": ago(hours=1, seconds=1)}, Course.DUE),
    "a node that another prober owns is left alone": ({"is_ours": False}, Course.OTHER_OWNER),
    "another owner goes before a request": (
        {"is_ours": False, "request": "op-1"},
        Course.OTHER_OWNER,
    ),
    "a node that is being deleted is left alone": ({"is_deleting": True}, Course.GOING),
    "a silent kubelet runs no probe": ({"is_ready": False}, Course.NOT_READY),
    "a silent kubelet runs no proof either": (
        {"is_ready": False, "request": "op-1"},
        Course.NOT_READY,
    ),
    "a node that offers no GPU cannot be probed": ({"allocatable": 0}, Course.NO_GPU),
    "an isolated node is not probed by the clock": (
        {"isolated_by": "op-1"},
        Course.UNDER_REMEDIATION,
    ),
    "an isolated node is probed on request": (
        {"isolated_by": "op-1", "request": "op-1"},
        Course.PROOF_REQUESTED,
    ),
    "a request does not wait for the node's turn": (
        {"probed": NOW, "request": "op-1"},
        Course.PROOF_REQUESTED,
    ),
    "an answer without a verdict is not tried again at once": (
        {"request": "op-1", "answered": ago(seconds=59)},
        Course.PROOF_ANSWERED,
    ),
    "an answer without a verdict is tried again later": (
        {"request": "op-1", "answered": ago(seconds=60)},
        Course.PROOF_REQUESTED,
    ),
}


@pytest.mark.parametrize(("changes", "course"), COURSES.values(), ids=COURSES.keys())
def test_a_node_gets_a_probe_or_a_reason_why_not(changes: dict[str, Any], course: Course) -> None:
    node = a_probe_node(**changes)

    found = plan([node], [], POLICY, NOW)

    assert found.courses == {"n1": course}
    assert [each.node for each in found.create] == ([node] if course.creates else [])


WITHDRAWALS: dict[str, tuple[dict[str, Any], dict[str, Any], WithdrawReason | None]] = {
    "a probe that runs is left alone": ({}, {}, None),
    "a probe that waits is given its time": (
        {"stage": PodStage.WAITING, "created": ago(seconds=59)},
        {},
        None,
    ),
    "a probe that waits too long is withdrawn": (
        {"stage": PodStage.WAITING, "created": ago(seconds=60)},
        {},
        WithdrawReason.PENDING_TOO_LONG,
    ),
    "a proof that waits too long is withdrawn, too": (
        {"stage": PodStage.WAITING, "created": ago(seconds=60), **PROOF},
        {"request": "op-1"},
        WithdrawReason.PENDING_TOO_LONG,
    ),
    "a slow start on its node holds no autoscaler": (
        {"stage": PodStage.STARTING, "created": ago(seconds=90)},
        {},
        None,
    ),
    "an image that cannot be pulled is not waited for": (
        {"stage": PodStage.STARTING, "trouble": Outcome.IMAGE_PULL_FAILED},
        {},
        WithdrawReason.CANNOT_START,
    ),
    "a kubelet gets time to end what is over": ({"deadline": ago(seconds=29)}, {}, None),
    "a probe that nobody ends is withdrawn": (
        {"deadline": ago(seconds=30)},
        {},
        WithdrawReason.OVERDUE,
    ),
    "a node of the same name is another node": (
        {"node_uid": "uid-of-before"},
        {},
        WithdrawReason.NODE_GONE,
    ),
    "a probe of before the reboot says nothing": (
        {"boot_id": "boot-0"},
        {},
        WithdrawReason.NODE_REBOOTED,
    ),
    "a probe makes room for another owner": ({}, {"is_ours": False}, WithdrawReason.OTHER_OWNER),
    "a probe makes room for an operation": (
        {},
        {"isolated_by": "op-1"},
        WithdrawReason.UNDER_REMEDIATION,
    ),
    "a probe makes room for a proof": (
        {},
        {"isolated_by": "op-1", "request": "op-1"},
        WithdrawReason.PROOF_REQUESTED,
    ),
    "a proof runs on an isolated node": (PROOF, {"isolated_by": "op-1", "request": "op-1"}, None),
    "a proof for nobody is withdrawn": (PROOF, {}, WithdrawReason.NO_MORE_REQUESTED),
    "a proof for another operation is withdrawn": (
        PROOF,
        {"request": "op-2"},
        WithdrawReason.NO_MORE_REQUESTED,
    ),
    "a probe that has ended is not withdrawn": (
        {"stage": PodStage.ENDED, "node_uid": "uid-of-before"},
        {},
        None,
    ),
    "a probe that is going is not withdrawn again": (
        {"is_deleting": True, "deadline": ago(hours=1)},
        {},
        None,
    ),
}


@pytest.mark.parametrize(("pod", "node", "reason"), WITHDRAWALS.values(), ids=WITHDRAWALS.keys())
def test_a_probe_pod_stays_or_is_withdrawn_for_a_reason(
    pod: dict[str, Any], node: dict[str, Any], reason: WithdrawReason | None
) -> None:
    seen = a_pod_view(**pod)

    found = plan([a_probe_node(**node)], [seen], POLICY, NOW)

    assert found.withdraw == (() if reason is None else ((seen, reason),))
    assert found.create == ()
    assert found.courses["n1"] is Course.IN_FLIGHT


def test_a_probe_pod_of_a_node_that_is_gone_is_withdrawn() -> None:
    found = plan([], [a_pod_view()], POLICY, NOW)

    assert [reason for _, reason in found.withdraw] == [WithdrawReason.NODE_GONE]


def test_switched_off_it_withdraws_all_and_creates_nothing() -> None:
    nodes = [a_probe_node("n1"), a_probe_node("n2", request="op-1")]

    found = plan(nodes, [a_pod_view()], replace(POLICY, enabled=False), NOW)

    assert [reason for _, reason in found.withdraw] == [WithdrawReason.SWITCHED_OFF]
    assert found.create == ()


@pytest.mark.parametrize(
    ("nodes", "share", "cap"), [(0, 0.05, 1), (1, 0.05, 1), (39, 0.05, 1), (40, 0.05, 2), (5000, 0.05, 250), (3, 1, 3)]
)  # fmt: skip
def test_the_cap_is_a_share_rounded_down_but_one_at_least(
    nodes: int, share: float, cap: int
) -> None:
    assert cap_of(nodes, share) == cap


def test_who_waited_longest_comes_first_and_proofs_before_all() -> None:
    nodes = [
        a_probe_node("late", probed=ago(hours=2)),
        a_probe_node("later", probed=ago(hours=3)),
        a_probe_node("never"),
        a_probe_node("asked", probed=NOW, request="op-1"),
    ]

    found = plan(nodes, [], replace(POLICY, max_share=0.5), NOW)

    assert [each.node.name for each in found.create] == ["asked", "never", "later"]
    assert found.courses["late"] is Course.CAP_REACHED


def test_ended_pods_that_were_not_cleaned_up_count_as_in_flight() -> None:
    nodes = [a_probe_node("n1", probed=NOW), a_probe_node("n2")]

    found = plan(nodes, [a_pod_view("n1", stage=PodStage.ENDED)], POLICY, NOW)

    assert found.create == ()
    assert found.courses["n2"] is Course.CAP_REACHED


def test_a_proof_does_not_wait_for_the_cap_and_takes_none_of_it() -> None:
    nodes = [a_probe_node("n1"), a_probe_node("n2", request="op-1", isolated_by="op-1")]
    proof = a_pod_view("n2", purpose=Purpose.PROOF, operation="op-1")

    assert len(plan(nodes, [a_pod_view("n1")], POLICY, NOW).create) == 1
    assert len(plan(nodes, [proof], POLICY, NOW).create) == 1


def test_turns_are_spread_over_the_period() -> None:
    names = [f"node-{number}" for number in range(1000)]
    minutes = [int((NOW - slot_start(name, HOUR, NOW)).total_seconds() // 60) for name in names]

    assert {0 <= each < 60 for each in minutes} == {True}
    assert max(minutes.count(each) for each in range(60)) < 40  # 17 on average


# Whole clusters over time.


class Cluster:
    """Nodes that are probed as the plan says; each probe takes a while, or is refused by the scheduler."""

    def __init__(self, nodes: list[ProbeNode], seconds: int) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.pods: dict[str, PodView] = {}
        self.seconds = seconds
        self.probes: dict[str, list[datetime]] = {node.name: [] for node in nodes}
        self.most = 0

    def step(self, now: datetime) -> None:
        for name, pod in list(self.pods.items()):
            if now - pod.created >= timedelta(seconds=self.seconds):
                del self.pods[name]
                self.nodes[name] = replace(self.nodes[name], probed=now)
        found = plan(self.nodes.values(), self.pods.values(), POLICY, now)
        for each in found.create:
            assert each.node.name not in self.pods, "a second probe pod on a node"
            self.pods[each.node.name] = a_pod_view(each.node.name, created=now)
            self.probes[each.node.name].append(now)
        for pod, _ in found.withdraw:
            del self.pods[pod.node]
        self.most = max(self.most, len(self.pods))


@settings(max_examples=8, deadline=None)
@given(count=st.integers(1, 45), seconds=st.integers(1, 50))
def test_every_free_node_is_probed_once_a_period_and_never_too_many_at_once(
    count: int, seconds: int
) -> None:
    """In the first period twice at most: at once, as nothing is known, and in its turn."""
    cluster = Cluster([a_probe_node(f"n{number}") for number in range(count)], seconds)
    step = timedelta(seconds=30)
    for number in range(3 * 120 + 1):
        cluster.step(NOW + number * step)

    assert cluster.most <= cap_of(count, POLICY.max_share)
    for times in cluster.probes.values():
        later = [each for each in times if each >= NOW + HOUR]
        assert 1 <= len([each for each in later if each < NOW + 2 * HOUR]) <= 2
        assert 3 <= len(times) <= 4
        assert len(later) in {2, 3}


a_node_strategy = st.builds(
    a_probe_node,
    name=st.sampled_from([f"n{number}" for number in range(8)]),
    boot_id=st.sampled_from(["boot-1", "boot-2"]),
    is_ready=st.booleans(),
    allocatable=st.integers(0, 2),
    is_ours=st.booleans(),
    is_deleting=st.booleans(),
    isolated_by=st.sampled_from(["", "op-1"]),
    request=st.sampled_from(["", "op-1", "op-2"]),
    answered=st.none() | st.just(ago(seconds=5)),
    probed=st.none() | st.just(NOW) | st.just(ago(hours=3)),
)
a_pod_strategy = st.builds(
    a_pod_view,
    node=st.sampled_from([f"n{number}" for number in range(8)]),
    boot_id=st.sampled_from(["boot-1", "boot-2"]),
    purpose=st.sampled_from(list(Purpose)),
    operation=st.sampled_from(["", "op-1"]),
    stage=st.sampled_from(list(PodStage)),
    created=st.sampled_from([NOW, ago(minutes=5)]),
    trouble=st.none() | st.sampled_from(list(Outcome)),
    is_deleting=st.booleans(),
    deadline=st.none() | st.just(ago(minutes=5)),
)


@settings(max_examples=200, deadline=None)
@given(
    nodes=st.lists(a_node_strategy, max_size=8, unique_by=lambda node: node.name),
    pods=st.lists(a_pod_strategy, max_size=8, unique_by=lambda pod: pod.node),
    share=st.floats(0.01, 1),
)
def test_whatever_there_is_the_promises_of_the_plan_hold(
    nodes: list[ProbeNode], pods: list[PodView], share: float
) -> None:
    found = plan(nodes, pods, replace(POLICY, max_share=share), NOW)

    taken = {pod.node for pod in pods}
    periodic = [each for each in found.create if each.purpose is Purpose.PERIODIC]
    assert not {each.node.name for each in found.create} & taken
    assert len({each.node.name for each in found.create}) == len(found.create)
    assert not periodic or len(periodic) + found.in_flight <= found.cap
    assert found.cap == cap_of(sum(node.is_ours for node in nodes), share)
    assert not any(each.node.isolated_by for each in periodic)
    assert all(each.node.is_ours and each.node.is_ready for each in found.create)
    assert all(each.node.request for each in found.create if each.purpose is Purpose.PROOF)
    assert set(found.courses) == {node.name for node in nodes}
    assert all(not pod.is_deleting for pod, _ in found.withdraw)
    assert plan(reversed(nodes), reversed(pods), replace(POLICY, max_share=share), NOW).courses == found.courses  # fmt: skip
