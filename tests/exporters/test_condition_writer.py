"""What is written to a node: ours alone, only when it changed, and slowly otherwise."""

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.contracts import PROBE_OWNER_ANNOTATION
from chassis.kube_client import KubeClient, KubeSettings
from chassis.kube_watch import Backoff
from chassis.telemetry import get_logger
from exporters.condition_writer import (
    OWNED_ANNOTATION,
    ConditionWriter,
    NodeView,
    PatchResult,
    Wanted,
    next_heartbeat,
    plan_patch,
    view_of,
)
from exporters.verdict import ConditionState, Status
from sandbox.kubernetes_server import SandboxKubernetes
from tests.exporters.agent_peers import NODE_NAME, OwnNode
from tests.journeys.service import wait_until

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
BEFORE = NOW - timedelta(hours=1)
KUBELETS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def a_state(kind: str = "GPUIsLost", status: Status = Status.FALSE, **changes: Any) -> ConditionState:  # fmt: skip
    return replace(ConditionState(kind, status, "Healthy", "", BEFORE), **changes)


def a_view(*states: ConditionState, owned: str = "", **annotations: str) -> NodeView:
    told = {OWNED_ANNOTATION: owned} if owned else {}
    return NodeView("n1", "uid-1", "7", {**told, **annotations}, {s.type: s for s in states}, {})


def wanted(*states: ConditionState, **rest: Any) -> Wanted:
    return Wanted({state.type: state for state in states}, **rest)


def plan(goal: Wanted, view: NodeView, *, heartbeat: bool = False) -> Any:
    return plan_patch(goal, view, view.conditions, now=NOW, heartbeat=heartbeat)


def types(body: Any) -> list[tuple[str, bool]]:
    """Each entry's type, and whether it is a removal."""
    return [(each["type"], "$patch" in each) for each in body["status"]["conditions"]]


# The plan.


def test_nothing_is_written_while_nothing_changes() -> None:
    assert plan(wanted(a_state()), a_view(a_state(), owned="GPUIsLost")) is None


def test_a_change_is_written_with_its_own_time_of_transition() -> None:
    lost = a_state(status=Status.TRUE, reason="GPUFallenOffBus", message="GPU-1", last_transition=NOW)  # fmt: skip

    body = plan(wanted(lost), a_view(a_state(), owned="GPUIsLost"))

    assert body == {
        "metadata": {"uid": "uid-1"},
        "status": {
            "conditions": [
                {
                    "type": "GPUIsLost",
                    "status": "True",
                    "reason": "GPUFallenOffBus",
                    "message": "GPU-1",
                    "lastHeartbeatTime": "2026-11-30T12:00:00Z",
                    "lastTransitionTime": "2026-11-30T12:00:00Z",
                }
            ]
        },
    }


def test_a_heartbeat_writes_all_of_ours_and_leaves_the_time_of_transition() -> None:
    states = (a_state("A"), a_state("B"))

    body = plan(wanted(*states), a_view(*states, a_state("C"), owned="A,B"), heartbeat=True)

    assert types(body) == [("A", False), ("B", False)]
    assert {each["lastTransitionTime"] for each in body["status"]["conditions"]} == {"2026-11-30T11:00:00Z"}  # fmt: skip


def test_a_type_that_we_owned_and_no_longer_write_is_removed_with_the_note_of_it() -> None:
    body = plan(wanted(a_state("A")), a_view(a_state("A"), a_state("Old"), owned="A,Old"))

    assert types(body) == [("Old", True)]
    assert body["metadata"]["annotations"] == {OWNED_ANNOTATION: "A"}


def test_a_type_that_is_not_decided_yet_is_left_and_stays_ours() -> None:
    goal = wanted(a_state("A"), undecided=frozenset({"GPUIsLost"}))

    assert plan(goal, a_view(a_state("A"), a_state(), owned="A,GPUIsLost")) is None


def test_a_type_that_was_handed_over_stays_on_the_node_and_is_no_longer_ours() -> None:
    goal = wanted(a_state("A"), handed_over=frozenset({"GPURuntimeError"}))

    body = plan(goal, a_view(a_state("A"), a_state("GPURuntimeError"), owned="A,GPURuntimeError"))

    assert body == {"metadata": {"uid": "uid-1", "annotations": {OWNED_ANNOTATION: "A"}}}


def test_claiming_the_probe_is_bound_to_the_node_as_it_was_seen() -> None:
    goal = wanted(annotations={PROBE_OWNER_ANNOTATION: "node-agent"})

    body = plan(goal, a_view())

    assert body["metadata"]["resourceVersion"] == "7"


_KINDS = st.sampled_from([*KUBELETS, "A", "B", "C", "KernelDeadlock"])


@given(
    ours=st.sets(_KINDS), on_node=st.sets(_KINDS), owned=st.sets(_KINDS), heartbeat=st.booleans()
)
def test_whatever_the_annotation_says_no_type_of_others_is_named(
    ours: set[str], on_node: set[str], owned: set[str], heartbeat: bool
) -> None:
    view = a_view(*map(a_state, on_node), owned=",".join(owned))

    body = plan(wanted(*map(a_state, ours)), view, heartbeat=heartbeat) or {}

    named = {each["type"] for each in body.get("status", {}).get("conditions", ())}
    assert not named & set(KUBELETS)
    assert named <= ours | owned


@given(st.text(max_size=3000))
def test_a_message_has_at_most_1024_bytes_and_no_half_character(text: str) -> None:
    clean = text.encode("utf-8", "replace").decode()
    body = plan(wanted(a_state(message=clean, status=Status.TRUE)), a_view())

    told = body["status"]["conditions"][0]["message"]
    assert len(told.encode()) <= 1024
    assert clean.startswith(told)


def test_odd_conditions_of_others_are_read_without_harm() -> None:
    node = {
        "metadata": {"name": "n1", "uid": "u"},
        "status": {
            "conditions": [
                {"type": "X", "status": "Bogus", "lastTransitionTime": "yesterday"},
                {"status": "True"},
                {"type": None},
            ]
        },
    }

    assert {kind: s.status for kind, s in view_of(node).conditions.items()} == {"X": Status.UNKNOWN}


# Pace.


def test_5000_agents_write_fewer_than_20_heartbeats_a_second() -> None:
    """All started in the same second, over two hours; no ten seconds of it are worse than twice the average."""
    dice = random.Random(7)
    period, end = timedelta(minutes=5), NOW + timedelta(hours=2)
    buckets: dict[int, int] = {}
    for _ in range(5000):
        due = NOW + period * dice.random()
        while due < end:
            bucket = int((due - NOW).total_seconds() // 10)
            buckets[bucket] = buckets.get(bucket, 0) + 1
            due = next_heartbeat(due, period, dice.random())

    assert sum(buckets.values()) / 7200 < 20
    assert max(buckets.values()) / 10 < 2 * 5000 / 300


@given(st.floats(0, 1))
def test_a_heartbeat_comes_within_a_fifth_of_its_period(dice: float) -> None:
    wait = next_heartbeat(NOW, timedelta(minutes=5), dice) - NOW

    assert timedelta(minutes=4) <= wait <= timedelta(minutes=6)


# The writer, on the embedded API.


class Goal:
    """Wants what the test says."""

    def __init__(self) -> None:
        self.now = Wanted()
        self.met: list[str] = []
        self.wrote_at: list[str] = []

    def meet(self, view: NodeView) -> None:
        self.met.append(view.uid)

    def wanted(self, view: NodeView) -> Wanted | None:
        assert view.name == NODE_NAME
        return self.now

    def wrote(self, view: NodeView) -> None:
        self.wrote_at.append(view.version)


class Writing:
    """A writer of one node, and the counts of its patches."""

    def __init__(self, cluster: SandboxKubernetes, folder: Path, heartbeat: timedelta) -> None:
        self.cluster = cluster
        kubeconfig = cluster.kubeconfig(folder / "kubeconfig")
        self.node = OwnNode(kubeconfig)
        self.node.create()
        self.goal = Goal()
        self.results: list[PatchResult] = []
        log = get_logger("test")
        self.client = KubeClient(KubeSettings(kubeconfig=kubeconfig, timeout=timedelta(seconds=2)), log)  # fmt: skip
        self.writer = ConditionWriter(
            self.client,
            NODE_NAME,
            self.goal,
            heartbeat=heartbeat,
            clock=lambda: datetime.now(UTC),
            log=log,
            count=self.results.append,
            coalesce=timedelta(milliseconds=100),
            backoff=Backoff(first=timedelta(milliseconds=50), limit=timedelta(milliseconds=200)),
        )
        self.writer.start()
        self.see()

    def see(self) -> None:
        self.writer.see(view_of(self.cluster.object("nodes", NODE_NAME) or {}))

    def want(self, *states: ConditionState) -> None:
        self.goal.now = wanted(*states)
        self.writer.wake()

    def patches(self) -> int:
        return len(self.cluster.log(keep=lambda entry: entry.verb == "patch" and entry.code == 200))

    def close(self) -> None:
        self.writer.stop()
        self.client.close()
        self.node.close()


@pytest.fixture
def cluster() -> Iterator[SandboxKubernetes]:
    with SandboxKubernetes(controllers=False, scheduler=False) as running:
        yield running


@pytest.fixture
def writing(cluster: SandboxKubernetes, tmp_path: Path) -> Iterator[Writing]:
    one = Writing(cluster, tmp_path, timedelta(hours=1))
    yield one
    one.close()


TRUE = a_state(status=Status.TRUE, reason="GPUIsLost")


def test_changes_that_come_together_are_one_patch(writing: Writing) -> None:
    before = writing.patches()

    for kind in ("A", "B", "C"):
        writing.want(*(a_state(each) for each in ("A", "B", "C") if each <= kind))
    wait_until("all", lambda: writing.node.conditions().keys() == {"A", "B", "C"})

    assert writing.patches() == before + 1


@pytest.mark.parametrize(
    ("code", "reason", "result"),
    [
        (503, "", PatchResult.UNAVAILABLE),
        (429, "TooManyRequests", PatchResult.THROTTLED),
        (409, "Conflict", PatchResult.CONFLICT),
        (403, "Forbidden", PatchResult.REFUSED),
    ],
)
def test_a_verdict_waits_for_a_better_moment_and_is_then_written(
    writing: Writing, code: int, reason: str, result: PatchResult
) -> None:
    writing.cluster.control.fail(3, code, reason=reason, verbs=["patch"])

    writing.want(TRUE)
    wait_until("the verdict", lambda: writing.node.told("GPUIsLost") == ("True", "GPUIsLost"))

    wait_until("the count", lambda: writing.results == [result] * 3 + [PatchResult.OK])


def test_an_outage_loses_only_what_was_overtaken(writing: Writing) -> None:
    writing.cluster.stop()
    writing.want(TRUE)
    wait_until("failures", lambda: PatchResult.UNAVAILABLE in writing.results)
    writing.want(replace(TRUE, reason="GPUFallenOffBus"))
    writing.cluster.start()

    wait_until("the last", lambda: writing.node.told("GPUIsLost") == ("True", "GPUFallenOffBus"))


def test_a_patch_whose_answer_was_lost_is_sent_again_without_harm(writing: Writing) -> None:
    writing.cluster.control.reset(after=True, verbs=["patch"])

    writing.want(TRUE)
    wait_until("the second", lambda: writing.results[-1:] == [PatchResult.OK])

    assert writing.node.told("GPUIsLost") == ("True", "GPUIsLost")


def test_another_node_under_the_same_name_is_not_given_the_old_ones_verdicts(
    writing: Writing,
) -> None:
    """The watch has not told yet: the API itself must refuse the patch."""
    writing.want(a_state())
    wait_until("the first", lambda: writing.node.told("GPUIsLost") is not None)
    old = writing.goal.met[-1]
    writing.node.remove()
    writing.node.create()

    met = len(writing.goal.met)
    writing.want(TRUE)

    wait_until("the other node", lambda: len(writing.goal.met) > met)
    assert PatchResult.CONFLICT in writing.results
    assert writing.goal.met[-1] != old


def test_a_node_that_is_gone_is_left_in_peace_until_it_is_seen_again(writing: Writing) -> None:
    writing.node.remove()
    writing.want(TRUE)
    wait_until("the count", lambda: writing.results == [PatchResult.GONE])

    writing.node.create()
    writing.see()
    wait_until("the verdict", lambda: writing.node.told("GPUIsLost") == ("True", "GPUIsLost"))


def test_a_restart_of_many_writes_nothing_at_once_that_already_holds(
    cluster: SandboxKubernetes, tmp_path: Path
) -> None:
    first = Writing(cluster, tmp_path, timedelta(hours=1))
    first.want(TRUE)
    wait_until("the verdict", lambda: first.results == [PatchResult.OK])
    first.writer.stop()
    before = first.patches()

    second = ConditionWriter(
        first.client,
        NODE_NAME,
        first.goal,
        heartbeat=timedelta(hours=1),
        clock=lambda: datetime.now(UTC),
        log=get_logger("test"),
        count=first.results.append,
        coalesce=timedelta(milliseconds=50),
        dice=lambda: 0.5,
    )
    second.start()
    second.see(view_of(cluster.object("nodes", NODE_NAME) or {}))
    assert not threading.Event().wait(0.5)
    second.stop()

    assert first.patches() == before
    first.close()
