"""Probes the GPUs of this node in place: idle ones, one at a time, at this node's own time; all of them when asked.

What is idle, and what a report means, is decided in `probe_rules`; here is the order of looking, probing and looking again.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from structlog.typing import FilteringBoundLogger

from chassis.contracts import ConditionReason, ProbeResult
from chassis.errors import NodemendError
from exporters.checks import gpu_lost
from exporters.config.node_agent import ProbeSettings
from exporters.cuda_probe.devices import Target, no_probe, plan_probes
from exporters.cuda_probe.running import GpuProbe
from exporters.driver_answers import unread_driver
from exporters.killable_child import ChildPool
from exporters.node_agent.answering import answer_to
from exporters.node_agent.board import Board
from exporters.node_agent.gpu_rounds import DriverDesk, Presence
from exporters.node_agent.metrics import AgentMetrics
from exporters.node_agent.probe_log import ProbeLog
from exporters.node_agent.probe_rules import (
    SPEC,
    Probed,
    finding_of,
    missing_gpus,
    next_run,
    taken,
    was_taken,
    why_busy,
)
from exporters.node_agent.reporting import Reporter
from exporters.nvml_reader.reading import CHILD_KEY
from exporters.pod_resources import DeviceUse, PodResources
from exporters.readings import DriverReading, DriverStatus, ProbeEnd
from exporters.verdict import NODE, CheckReport, Finding, Result

_MIB = 1 << 20
_MOST_WAIT = 30.0


@dataclass(frozen=True, slots=True)
class Tools:
    """What the prober works with."""

    desk: DriverDesk
    pool: ChildPool
    probe: GpuProbe
    kubelet: PodResources
    log: ProbeLog
    board: Board
    reporter: Reporter
    presence: Presence
    metrics: AgentMetrics


class Prober:
    """A thread that probes. `may_probe` says whether this agent owns the node's GPURuntimeError."""

    def __init__(  # noqa: PLR0913 - composition, all by name
        self,
        tools: Tools,
        settings: ProbeSettings,
        *,
        node: str,
        clock: Callable[[], datetime],
        may_probe: Callable[[], bool],
        request: Callable[[], str | None],
        answered: Callable[[ProbeResult], None],
        log: FilteringBoundLogger,
    ) -> None:
        self._tools = tools
        self._settings = settings
        self._node = node
        self._clock = clock
        self._may_probe = may_probe
        self._request = request
        self._answered = answered
        self._log = log
        self._due = next_run(clock(), settings.period, node)
        self._retry = 0.0
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prober", daemon=True)
        self._complaint = ""

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """A request may have come or gone."""
        self._wake.set()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - a dead thread would look like a healthy node
                self._log.exception("prober_failed")
                text = f"the probe itself failed ({type(error).__name__})"
                self._tools.reporter.no_verdict((SPEC.name,), ConditionReason.OTHER, text)
            self._wake.wait(self._seconds_to_wait())
            self._wake.clear()

    def _is_mine(self) -> bool:
        """Whether there is something to probe, and nobody else does; if not, whoever changes that wakes us."""
        return self._tools.presence.there is True and self._may_probe()

    def _seconds_to_wait(self) -> float:
        if not self._is_mine():
            return _MOST_WAIT
        left = (self._due - self._clock()).total_seconds()
        return max(0.05, min(left, _MOST_WAIT, self._until_retry()))

    def _turn(self) -> None:
        if not self._is_mine():
            return
        now = self._clock()
        operation = self._request()
        if operation and time.monotonic() >= self._retry:
            self._serve(operation)
        elif now >= self._due or self._due - now > self._settings.period:  # a clock set back
            self._probe_all()
            self._due = next_run(self._clock(), self._settings.period, self._node)

    def _until_retry(self) -> float:
        if not self._request():
            return _MOST_WAIT
        return max(0.0, self._retry - time.monotonic())

    def _serve(self, operation: str) -> None:
        """Probe all GPUs for an operation and answer it; without a verdict for all of them, again a little later."""
        driver, probed = self._probe_all()
        memory = self._tools.board.peek(gpu_lost.SPEC.name)
        missing, lost = missing_gpus(memory, driver)
        if driver.status is not DriverStatus.READ:
            missing |= {NODE}
        reports = [each.report for each in probed]
        boot = self._tools.board.boot.id
        answer = answer_to(operation, boot, self._clock(), reports, missing=missing, lost=lost)
        self._retry = time.monotonic() + self._settings.retry_request.total_seconds()
        self._log.info("probe_answered", operation=operation, result=str(answer.result))
        self._answered(answer)

    def _probe_all(self) -> tuple[DriverReading, list[Probed]]:
        started = time.monotonic()
        driver = self._tools.desk.read()
        unread = self._unread(driver)
        if unread is not None:
            self._report((unread,), started)
            return driver, []
        plan = plan_probes(driver)
        probed = [Probed(report) for report in plan.reports]
        for target in plan.targets:
            if self._stopping.is_set():
                return driver, probed
            probed.append(self._look_twice(target))
        self._report(tuple(map(finding_of, probed)), started)
        self._tools.log.keep_only({each.report.uuid for each in probed})
        return driver, probed

    def _unread(self, driver: DriverReading) -> Finding | None:
        """A driver that hangs beyond the reach of signals is a fault by itself; else it only gives no verdict."""
        finding = unread_driver(driver)
        if finding is None or CHILD_KEY not in self._tools.pool.stuck_keys:
            return finding
        text, reason = finding.message, ConditionReason.CUDA_TIMEOUT
        return Finding(NODE, Result.PROBLEM, reason, text, definite=True)

    def _report(self, findings: tuple[Finding, ...], started: float) -> None:
        report = CheckReport(SPEC.name, SPEC.condition, findings, self._clock())
        self._tools.reporter.report(report, time.monotonic() - started)

    def _look_twice(self, target: Target) -> Probed:
        """Probe one device, and once more if there seems to be a problem."""
        first = self._probe(target)
        if first.report.end is not ProbeEnd.PROBLEM or first.definite:
            return first
        self._stopping.wait(self._settings.confirm_after.total_seconds())
        second = self._probe(target)
        confirmed = second.report.end is ProbeEnd.PROBLEM
        return replace(second, definite=True) if confirmed else first

    def _probe(self, target: Target) -> Probed:
        tools = self._tools
        with tools.desk.lock:  # NVML answers one of us at a time
            probed = self._probe_if_idle(target)
        if not probed.busy:
            tools.log.add(probed.report, self._clock())
        tools.metrics.ran_probe(
            probed.report, busy=probed.busy and probed.report.reason == ConditionReason.GPU_BUSY
        )
        return probed

    def _probe_if_idle(self, target: Target) -> Probed:
        driver = self._tools.desk.read()
        whole = target.gpu.uuid if target.gpu else target.uuid
        gpu = next((each for each in driver.gpus if each.uuid == whole), None)
        if gpu is None:
            return self._left_out(target, ConditionReason.OTHER, "NVML does not tell of it now")
        use = self._use()
        if isinstance(use, str):
            return self._left_out(target, ConditionReason.OTHER, use)
        why = why_busy(gpu, driver, use, self._settings.idle_memory_mib * _MIB)
        if why is not None:
            return self._left_out(target, ConditionReason.GPU_BUSY, why)
        report = self._tools.probe.probe(replace(target, gpu=gpu), driver)
        if report.end is not ProbeEnd.PROBLEM:
            return Probed(report)
        after = self._use()
        if isinstance(after, str) or was_taken(gpu, driver, use, after):
            return Probed(taken(report))
        stuck = f"gpu-probe {target.uuid}" in self._tools.pool.stuck_keys
        wrong = report.reason == ConditionReason.CUDA_RESULT_MISMATCH
        return Probed(report, definite=stuck or wrong)

    def _left_out(self, target: Target, reason: ConditionReason, why: str) -> Probed:
        return Probed(no_probe(target.uuid, target.model, reason, why), busy=True)

    def _use(self) -> DeviceUse | str:
        """What the kubelet has given, or why that is not known: then every GPU counts as used."""
        try:
            use = self._tools.kubelet.read()
        except NodemendError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                self._log.warning("kubelet_devices_unknown", error=str(error))
            return str(error)
        self._complaint = ""
        return use
