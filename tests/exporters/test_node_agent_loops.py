"""Rounds of checks: each at its own pace, none held up by another, none that fails in silence."""

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

from prometheus_client import CollectorRegistry

from chassis.contracts import ConditionReason, ConditionType
from chassis.telemetry import get_logger
from exporters.checks import policy_of
from exporters.node_agent.board import Board, Boot
from exporters.node_agent.loops import Loop, Pace, Watchdog
from exporters.node_agent.metrics import AgentMetrics
from exporters.node_agent.reporting import Reporter
from exporters.verdict import NODE, Finding, Result
from tests.exporters.check_builders import BOOT, NOW
from tests.journeys.service import wait_until

LOG = get_logger("test")
PACE = Pace(timedelta(milliseconds=50), timedelta(milliseconds=200))


class Doing:
    """A round that does what the test says."""

    name = "doing"
    checks = ("one", "two")

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act

    def run(self) -> None:
        self._act()


class Failures:
    def __init__(self) -> None:
        self.told: list[tuple[tuple[str, ...], ConditionReason, str]] = []

    def __call__(self, checks: Sequence[str], reason: ConditionReason, text: str) -> None:
        self.told.append((tuple(checks), reason, text))


def test_a_round_that_raises_is_told_and_done_again() -> None:
    failures = Failures()

    def fail() -> None:
        raise KeyError("anything")

    loop = Loop(Doing(fail), PACE, failures, LOG)
    loop.start()
    wait_until("two failures", lambda: len(failures.told) >= 2, 10)
    loop.ask_to_stop()
    loop.join(5)

    assert failures.told[0] == (("one", "two"), ConditionReason.OTHER, "the check itself failed (KeyError)")  # fmt: skip


def test_a_round_that_does_not_come_back_is_told_again_and_again_and_holds_up_no_other() -> None:
    failures = Failures()
    release, others = threading.Event(), [0]

    def hang() -> None:
        release.wait(30)

    def count() -> None:
        others[0] += 1

    hung = Loop(Doing(hang), PACE, failures, LOG)
    other = Loop(Doing(count), PACE, Failures(), LOG)
    ticks: list[int] = []
    watchdog = Watchdog([hung, other], lambda: ticks.append(1), LOG)
    for each in (hung, other, watchdog):
        each.start()
    wait_until("being told twice", lambda: len(failures.told) >= 2, 10)
    assert others[0] > 3
    assert failures.told[0][:2] == (("one", "two"), ConditionReason.TIMEOUT)

    release.set()
    wait_until("its return", lambda: hung.rounds > 1, 10)
    watchdog.stop()
    assert ticks
    for loop in (hung, other):
        loop.ask_to_stop()
        loop.join(5)


def test_a_round_can_be_had_sooner_but_not_in_a_tight_loop() -> None:
    done: list[int] = []
    slow = Pace(timedelta(hours=1), timedelta(hours=1))
    loop = Loop(Doing(lambda: done.append(1)), slow, Failures(), LOG)
    loop.start()
    wait_until("the first", lambda: bool(done), 10)

    for _ in range(50):
        loop.wake()
    wait_until("the second", lambda: len(done) == 2, 10)

    loop.ask_to_stop()
    loop.join(5)
    assert len(done) <= 3


def a_reporter() -> tuple[Reporter, Board, AgentMetrics]:
    kinds = (ConditionType.GPU_IS_LOST, ConditionType.GPU_PENDING_PAGE)
    checks = {"gpu_lost": kinds[0], "gpu_pages": kinds[1]}
    policies = {kind: policy_of(kind, checks) for kind in kinds}
    board = Board({str(k): v for k, v in policies.items()}, Boot(BOOT, NOW), None, lambda: NOW)
    metrics = AgentMetrics(CollectorRegistry(), "n1")
    return Reporter(board, dict(checks), metrics, lambda: NOW, LOG), board, metrics


def fine(memory: object) -> tuple[tuple[Finding, ...], dict[str, str]]:
    return (Finding(NODE, Result.OK, "Healthy"),), {"boot_id": BOOT}


def broken(memory: object) -> tuple[tuple[Finding, ...], dict[str, str]]:
    raise ValueError("odd data")


def test_a_check_that_raises_costs_no_other_its_verdict() -> None:
    reporter, board, _ = a_reporter()

    reporter.judge("gpu_lost", broken, 0.0, position=9)
    reporter.judge("gpu_pages", fine, 0.0, position=9)

    told = {kind: (s.status, s.reason) for kind, s in board.conditions().items()}
    assert told == {"GPUIsLost": ("Unknown", "Other"), "GPUPendingPage": ("False", "Healthy")}
    assert board.positions == {"gpu_pages": 9}


def test_only_a_round_with_a_verdict_makes_a_check_look_fresh() -> None:
    reporter, _, metrics = a_reporter()

    reporter.judge("gpu_pages", fine, 0.0)
    done = _sample(metrics, "node_check_last_completed_timestamp_seconds", check="gpu_pages")
    reporter.no_verdict(("gpu_pages", "gpu_lost"), ConditionReason.TIMEOUT, "")

    assert done == NOW.timestamp()
    assert _sample(metrics, "node_check_last_completed_timestamp_seconds", check="gpu_lost") is None
    assert _sample(metrics, "node_check_state", check="gpu_pages", state="unknown") == 1
    assert _sample(metrics, "node_check_state", check="gpu_pages", state="ok") == 0


def test_the_state_goes_back_when_the_problem_is_over() -> None:
    reporter, _, metrics = a_reporter()
    bad = Finding(NODE, Result.PROBLEM, "RowRemapPending")

    reporter.judge("gpu_pages", lambda _: ((bad,), {}), 0.0)
    assert _sample(metrics, "node_check_state", check="gpu_pages", state="problem") == 1
    reporter.judge("gpu_pages", fine, 0.0)

    assert _sample(metrics, "node_check_state", check="gpu_pages", state="problem") == 0
    reporter.drop(("gpu_pages",))
    assert _sample(metrics, "node_check_state", check="gpu_pages", state="ok") is None


def test_a_check_that_is_switched_off_is_not_done() -> None:
    reporter, board, _ = a_reporter()

    reporter.judge("nfs", broken, 0.0)
    reporter.no_verdict(("nfs",), ConditionReason.OTHER, "")

    assert {state.reason for state in board.conditions().values()} == {"NotYetChecked"}


def _sample(metrics: AgentMetrics, name: str, **labels: str) -> float | None:
    return metrics._registry.get_sample_value(f"nodemend_{name}", {"node": "n1", **labels})
