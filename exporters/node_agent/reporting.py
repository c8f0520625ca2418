"""The way from a round's findings to the board and the metrics: one report a check and round."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from structlog.typing import FilteringBoundLogger

from chassis.contracts import ConditionReason
from exporters.node_agent.board import Board
from exporters.node_agent.metrics import AgentMetrics
from exporters.verdict import NODE, CheckReport, Finding, Memory, Result

Judge = Callable[[Memory | None], tuple[tuple[Finding, ...], Memory | None]]
"""A check with everything but its memory."""


class Reporter:
    """Runs pure checks so that one that raises costs no other its verdict."""

    def __init__(
        self,
        board: Board,
        conditions: Mapping[str, str],
        metrics: AgentMetrics,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
    ) -> None:
        """Args: `conditions` are the checks that run, with the condition that each contributes to."""
        self._board = board
        self._conditions = conditions
        self._metrics = metrics
        self._clock = clock
        self._log = log

    def runs(self, check: str) -> bool:
        """Whether the check is switched on."""
        return check in self._conditions

    def judge(
        self, check: str, judge: Judge, started: float, *, position: int | None = None
    ) -> None:
        """Do one check of a round that began at `started` (of time.monotonic), and report."""
        if not self.runs(check):
            return
        try:
            findings, memory = judge(self._board.memory(check))
        except Exception as error:  # noqa: BLE001 - costs this check its verdict, no other
            self._log.exception("check_failed", check=check)
            text = f"the check itself failed ({type(error).__name__})"
            self.no_verdict((check,), ConditionReason.OTHER, text)
            return
        report = CheckReport(check, self._conditions[check], findings, self._clock())
        self.report(report, time.monotonic() - started, memory=memory, position=position)

    def report(
        self,
        report: CheckReport,
        seconds: float | None,
        *,
        memory: Memory | None = None,
        position: int | None = None,
    ) -> None:
        """Take a report that was made elsewhere."""
        self._board.submit(report, memory, position)
        self._metrics.observe(report, seconds)

    def no_verdict(self, checks: Sequence[str], reason: ConditionReason, text: str) -> None:
        """Checks that could not be done."""
        finding = Finding(NODE, Result.INCONCLUSIVE, reason, text)
        for check in filter(self.runs, checks):
            report = CheckReport(check, self._conditions[check], (finding,), self._clock())
            self.report(report, None)

    def drop(self, checks: Sequence[str]) -> None:
        """Checks that mean nothing on this node: their series end."""
        self._metrics.forget(checks)
