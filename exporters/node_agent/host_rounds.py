"""The rounds that read the rest of the host: processes, mounts, and rules of the user's own."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from exporters.checks import d_state, nfs
from exporters.custom_checks import (
    CustomMonitor,
    CustomRule,
    RuleKind,
    events_of,
    reports_of,
    run_rules,
)
from exporters.host_reader import AskSettings, ask_mounts, read_processes
from exporters.killable_child import ChildPool
from exporters.node_agent.board import Board
from exporters.node_agent.gpu_rounds import DriverDesk
from exporters.node_agent.kernel_feed import KernelFeed
from exporters.node_agent.metrics import AgentMetrics
from exporters.node_agent.reporting import Reporter


class ProcessRound:
    """Processes that wait in the kernel."""

    name = "processes"

    def __init__(
        self,
        root: Path,
        settings: d_state.Settings,
        desk: DriverDesk,
        board: Board,
        reporter: Reporter,
        clock: Callable[[], datetime],
    ) -> None:
        self.checks: Sequence[str] = (d_state.SPEC.name,)
        self._root = root
        self._settings = settings
        self._desk = desk
        self._boot = board.boot.id
        self._reporter = reporter
        self._clock = clock

    def run(self) -> None:
        started = time.monotonic()
        users = {pid for gpu in self._desk.latest.gpus for pid in gpu.processes or ()}
        reading = read_processes(self._root, users)
        self._reporter.judge(
            d_state.SPEC.name,
            lambda memory: d_state.check(
                reading, self._boot, self._settings, self._clock(), memory
            ),
            started,
        )


class MountRound:
    """Network file systems that do not answer."""

    name = "mounts"

    def __init__(
        self,
        root: Path,
        settings: AskSettings,
        pool: ChildPool,
        feed: KernelFeed,
        reporter: Reporter,
    ) -> None:
        self.checks: Sequence[str] = (nfs.SPEC.name,)
        self._root = root
        self._settings = settings
        self._pool = pool
        self._feed = feed
        self._reporter = reporter

    def run(self) -> None:
        started = time.monotonic()
        reading = ask_mounts(self._root, self._pool, self._settings)
        kernel = self._feed.take(nfs.SPEC.name)
        self._reporter.judge(
            nfs.SPEC.name,
            lambda memory: nfs.check(reading, kernel, memory),
            started,
            position=kernel.next_sequence,
        )


class CustomRound:
    """The rules of one file, each at its own interval."""

    def __init__(
        self,
        monitor: CustomMonitor,
        pool: ChildPool,
        reporter: Reporter,
        metrics: AgentMetrics,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
    ) -> None:
        self.name = f"custom/{monitor.source}"
        self.checks: Sequence[str] = tuple(
            f"custom/{monitor.source}/{rule.name}"
            for rule in monitor.rules
            if rule.kind is RuleKind.PERMANENT
        )
        self._monitor = monitor
        self._pool = pool
        self._reporter = reporter
        self._metrics = metrics
        self._clock = clock
        self._log = log
        self._ran: dict[str, float] = {}
        for rule in monitor.rules:
            if rule.kind is RuleKind.TEMPORARY:
                metrics.custom_problems.labels(metrics.node, monitor.source, rule.reason)

    @property
    def pace(self) -> timedelta:
        """How often to look for rules that are due: the shortest of their intervals."""
        return min(rule.interval for rule in self._monitor.rules)

    @property
    def patience(self) -> timedelta:
        """How long all of them may take one after the other, children that must be reaped included."""
        allowed = (rule.timeout + timedelta(seconds=5) for rule in self._monitor.rules)
        return sum(allowed, self.pace)

    def run(self) -> None:
        now = time.monotonic()
        due = [rule for rule in self._monitor.rules if self._is_due(rule, now)]
        self._ran |= {rule.name: now for rule in due}
        outcomes = run_rules(self._monitor, due, self._pool, self._clock)
        for report in reports_of(outcomes):
            self._reporter.report(report, time.monotonic() - now)
        for event in events_of(outcomes):
            self._metrics.custom_problems.labels(
                self._metrics.node, event.source, event.reason
            ).inc()
            self._log.warning(
                "custom_problem", source=event.source, reason=event.reason, text=event.message
            )

    def _is_due(self, rule: CustomRule, now: float) -> bool:
        last = self._ran.get(rule.name)
        # Half a pace early is on time: rounds do not start to the millisecond.
        return last is None or now - last >= (rule.interval - self.pace / 2).total_seconds()
