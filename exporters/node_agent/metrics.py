"""The agent's own metrics. All carry the label `node`; none is about another node. Nothing here decides anything."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from exporters.commands.running import PREFIX
from exporters.condition_writer import PatchResult
from exporters.readings import ProbeEnd, ProbeReport
from exporters.verdict import CheckReport, Result
from exporters.xids import XidEvent

PROBE = "cuda"
STATES = ("ok", "problem", "unknown")
RUN_RESULTS = ("pass", "fail", "skipped_busy", "pending", "preempted", "timeout", "error")
"""All results that a probe may have, those of the other probe mode included: rules fit both."""


class AgentMetrics:
    """Counters and states of one agent; made once a process."""

    def __init__(self, registry: CollectorRegistry, node: str) -> None:
        self.node = node
        self._registry = registry
        self._check_metrics()
        self._gpu_metrics()
        self.patches = self._counter(
            "condition_patches", "Patches of this node's status, by how they ended.", "result"
        )
        for result in PatchResult:
            self.patches.labels(node, str(result))
        self.custom_problems = self._counter(
            "custom_problems",
            "Temporary problems that rules of the user's own have found.",
            "source",
            "reason",
        )
        self.state_saved = self._gauge(
            "state_last_saved_successful", "Whether the state file could be written."
        )
        self.state_saved.labels(node).set(1)
        self.supported = self._gauge(
            "gpu_checks_supported", "Whether there are GPUs here to check: 0 for a node without."
        )

    def _check_metrics(self) -> None:
        self.state = self._gauge(
            "node_check_state", "What the last round of a check gave.", "check", "state"
        )
        self.duration = self._gauge(
            "node_check_duration_seconds", "How long the last round took.", "check"
        )
        self.completed = self._gauge(
            "node_check_last_completed_timestamp_seconds",
            "When a round of the check last gave a verdict.",
            "check",
        )

    def _gpu_metrics(self) -> None:
        self.xids = self._counter(
            "gpu_xid_events", "XIDs by code.", "gpu_uuid", "pci_bus_id", "xid"
        )
        self.xid_time = self._gauge(
            "gpu_xid_last_timestamp_seconds",
            "When the code was last seen.",
            "gpu_uuid",
            "pci_bus_id",
            "xid",
        )
        self.all_xids = self._counter(
            "gpu_xids", "XIDs of any code; 0 from the start.", "gpu_uuid", "pci_bus_id"
        )
        self.probe_runs = self._counter(
            "gpu_probe_runs", "Probes of a GPU, by how they ended.", "probe", "result"
        )
        for result in RUN_RESULTS:
            self.probe_runs.labels(self.node, PROBE, result)
        self.probe_refused = self._gauge(
            "gpu_probe_refused", "Whether another prober owns this node's GPURuntimeError."
        )
        self.probe_refused.labels(self.node).set(0)

    def _gauge(self, name: str, says: str, *labels: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", says, ("node", *labels), registry=self._registry)

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", says, ("node", *labels), registry=self._registry)

    def keep_only(self, checks: Iterable[str]) -> None:
        """Let the series of other checks end, and those of these begin."""
        for metric in (self.state, self.duration, self.completed):
            metric.clear()
        for check in checks:
            self._set_state(check, "unknown")

    def observe(self, report: CheckReport, seconds: float | None) -> None:
        """A round has ended; `seconds` None: it has not come back."""
        results = {finding.result for finding in report.findings}
        state = "unknown" if Result.INCONCLUSIVE in results or not results else "ok"
        self._set_state(report.check, "problem" if Result.PROBLEM in results else state)
        if seconds is not None:
            self.duration.labels(self.node, report.check).set(seconds)
        if results - {Result.INCONCLUSIVE}:
            moment = report.completed_at.timestamp()
            self.completed.labels(self.node, report.check).set(moment)

    def _set_state(self, check: str, state: str) -> None:
        for each in STATES:
            self.state.labels(self.node, check, each).set(each == state)

    def forget(self, checks: Iterable[str]) -> None:
        """Checks that do not apply to this node."""
        for check in checks:
            for state in STATES:
                self.state.remove(self.node, check, state)
            for metric in (self.duration, self.completed):
                metric.remove(self.node, check)

    def saw_gpu(self, uuid: str, bus: str) -> None:
        self.all_xids.labels(self.node, uuid, bus)

    def saw_xid(self, event: XidEvent, uuid: str) -> None:
        code = str(event.code)
        self.all_xids.labels(self.node, uuid, event.bus_id).inc()
        self.xids.labels(self.node, uuid, event.bus_id, code).inc()
        self.xid_time.labels(self.node, uuid, event.bus_id, code).set(event.at.timestamp())

    def ran_probe(self, report: ProbeReport, *, busy: bool) -> None:
        self.probe_runs.labels(self.node, PROBE, run_result(report, busy=busy)).inc()

    def patched(self, result: PatchResult) -> None:
        self.patches.labels(self.node, str(result)).inc()


def run_result(report: ProbeReport, *, busy: bool) -> str:
    """How a run counts."""
    if busy:
        return "skipped_busy"
    if report.end is ProbeEnd.PASSED:
        return "pass"
    if report.end is ProbeEnd.PROBLEM:
        return "fail"
    return "timeout" if report.reason == "Timeout" else "error"
