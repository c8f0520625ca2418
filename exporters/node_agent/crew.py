"""Everything that runs by one configuration: rounds, prober, writer, watch. A reload makes a new crew.

Composition only; what is remembered goes from one crew to the next through the state file.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError, PermanentError
from chassis.kube_client import NODES, KubeClient
from chassis.kube_watch import Change, KubeCache, WatchMetrics
from exporters.checks import d_state, gpu_lost, nfs, pcie_speed, xid
from exporters.condition_writer import ConditionWriter, NodeView, view_of
from exporters.config.node_agent import NodeAgentSettings, ProbeMode
from exporters.cuda_probe.running import GpuProbe, ProbeOptions
from exporters.custom_checks import CustomMonitor, load_monitors
from exporters.host_reader import AskSettings, KernelLog, read_boot_id, read_boot_time
from exporters.killable_child import ChildPool
from exporters.node_agent.board import Board, Boot
from exporters.node_agent.choices import catalogue, condition_of_checks, policies
from exporters.node_agent.goal import NodeGoal
from exporters.node_agent.gpu_metrics import GpuFacts
from exporters.node_agent.gpu_rounds import (
    DRIVER_CHECKS,
    DriverDesk,
    DriverRound,
    KernelRound,
    Presence,
)
from exporters.node_agent.host_rounds import CustomRound, MountRound, ProcessRound
from exporters.node_agent.kernel_feed import KernelFeed
from exporters.node_agent.loops import Loop, Pace, Round, Watchdog
from exporters.node_agent.metrics import AgentMetrics
from exporters.node_agent.probe_log import ProbeLog
from exporters.node_agent.prober import Prober, Tools
from exporters.node_agent.reporting import Reporter
from exporters.node_agent.state_file import Saved, read_state, write_state
from exporters.pod_resources import PodResources

_SAVE_EVERY = 15.0
_GRACE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Given:
    """What a crew is handed by the process: the node's name, children, time, log and metrics."""

    node: str
    pool: ChildPool
    environment: Mapping[str, str]
    clock: Callable[[], datetime]
    log: FilteringBoundLogger
    metrics: AgentMetrics
    watch_metrics: WatchMetrics
    version: str


class Crew:
    """Made, then started, then stopped; never started twice."""

    def __init__(self, settings: NodeAgentSettings, given: Given) -> None:
        """Read configuration files, boot and state; nothing runs yet.

        Raises:
            ConfigError: A monitor or the catalogue cannot be used.
            TemporaryError: The host does not tell its boot.
            PermanentError: The credentials of the API cannot be used.
        """
        self._settings = settings
        self._given = given
        self._monitors = load_monitors(settings.custom.monitors, settings.custom.base)
        self._catalogue = catalogue(settings)
        boot = Boot(read_boot_id(settings.host.root), read_boot_time(settings.host.root))
        saved = self._read_state()
        self._policies = policies(settings, self._monitors)
        self.board = Board(self._policies, boot, saved, given.clock)
        self._presence = Presence(given.metrics, given.log, self._wake)
        self.reporter = Reporter(
            self.board, condition_of_checks(self._policies), given.metrics, given.clock, given.log
        )
        self._probes = ProbeLog(
            (pcie_speed.SPEC.name, xid.SPEC.name), saved.probes if saved else {}
        )
        self._desk = DriverDesk(given.pool, settings.host.root, settings.gpus.driver_deadline)
        self._feed = self._new_feed(boot)
        self._driver_round = self._new_driver_round()
        self._loops = self._new_loops()
        self._watchdog = Watchdog(self._loops, self._tick, given.log)
        self._client = KubeClient(
            settings.kubernetes, given.log, user_agent=f"nodemend-node-agent/{given.version}"
        )
        self._goal = NodeGoal(
            mode=settings.probe_mode,
            board=self.board,
            presence=self._presence,
            metrics=given.metrics,
            clock=given.clock,
            log=given.log,
        )
        self._writer = self._new_writer()
        self._prober = self._new_prober() if settings.probe_mode is ProbeMode.IN_PLACE else None
        self._nodes = self._new_watch()
        self._saved_version, self._saved_at = -1, 0.0

    # Parts.

    def _new_feed(self, boot: Boot) -> KernelFeed:
        names = (gpu_lost.SPEC.name, xid.SPEC.name, nfs.SPEC.name)
        readers = {
            name
            for name in names
            if self.reporter.runs(name)
            or (name == gpu_lost.SPEC.name and any(map(self.reporter.runs, DRIVER_CHECKS)))
        }
        log = KernelLog(self._settings.host.kernel_log)
        return KernelFeed(log, boot.id, boot.time, tuple(sorted(readers)), self.board.positions)

    def _new_driver_round(self) -> DriverRound:
        settings = self._settings
        made = DriverRound(
            self._desk, self._feed, self._probes, self.board, self.reporter, self._presence
        )
        made.root = settings.host.root
        made.settings = gpu_lost.Settings(settings.gpus.expected, settings.gpus.missing_rounds)
        return made

    def _new_loops(self) -> list[Loop]:
        every, settings = self._settings.intervals, self._settings
        slow = settings.gpus.driver_deadline + settings.probe.deadline + _GRACE
        loops: list[Loop] = []
        driver = self._loop(self._driver_round, every.driver, slow)
        if self._driver_round.checks or settings.probe_mode is ProbeMode.IN_PLACE:
            loops.append(driver)
        if self.reporter.runs(xid.SPEC.name):
            loops.append(self._loop(self._new_kernel_round(driver), every.kernel_log, _GRACE))
        if self.reporter.runs(d_state.SPEC.name):
            loops.append(self._loop(self._new_process_round(), every.processes, _GRACE))
        if self.reporter.runs(nfs.SPEC.name):
            loops.append(self._loop(self._new_mount_round(), every.mounts, _GRACE))
        for monitor in self._monitors:
            custom = self._new_custom_round(monitor)
            loops.append(self._loop(custom, custom.pace, custom.patience))
        return loops

    def _loop(self, doing: Round, interval: timedelta, patience: timedelta) -> Loop:
        return Loop(doing, Pace(interval, patience), self.reporter.no_verdict, self._given.log)

    def _new_kernel_round(self, driver: Loop) -> KernelRound:
        made = KernelRound(
            self._desk,
            self._feed,
            self._probes,
            self.reporter,
            self._presence,
            self._catalogue,
        )
        made.metrics = self._given.metrics
        made.on_news = driver.wake
        return made

    def _new_process_round(self) -> ProcessRound:
        settings = self._settings
        wanted = d_state.Settings(settings.d_state.samples, settings.intervals.processes)
        root, clock = settings.host.root, self._given.clock
        return ProcessRound(root, wanted, self._desk, self.board, self.reporter, clock)

    def _new_mount_round(self) -> MountRound:
        mounts, host = self._settings.mounts, self._settings.host
        asking = AskSettings(
            host.mount_prefix, mounts.deadline, mounts.most_at_once, mounts.file_systems
        )
        return MountRound(host.root, asking, self._given.pool, self._feed, self.reporter)

    def _new_custom_round(self, monitor: CustomMonitor) -> CustomRound:
        given = self._given
        for remark in monitor.remarks:
            given.log.warning("custom_monitor_remark", remark=remark)
        return CustomRound(
            monitor, given.pool, self.reporter, given.metrics, given.clock, given.log
        )

    def _new_writer(self) -> ConditionWriter:
        given = self._given
        writer = ConditionWriter(
            self._client,
            given.node,
            self._goal,
            heartbeat=self._settings.heartbeat,
            clock=given.clock,
            log=given.log,
            count=given.metrics.patched,
            before_write=self._save,
        )
        self.board.tell(writer.wake)
        return writer

    def _new_prober(self) -> Prober:
        given, wanted, root = self._given, self._settings.probe, self._settings.host.root
        options = ProbeOptions(
            wanted.memory_mib, wanted.deadline, wanted.measure_link, wanted.library, root
        )
        tools = Tools(
            desk=self._desk,
            pool=given.pool,
            probe=GpuProbe(given.pool, given.environment, options),
            kubelet=PodResources(wanted.pod_resources_socket, wanted.resource_prefixes),
            log=self._probes,
            board=self.board,
            reporter=self.reporter,
            presence=self._presence,
            metrics=given.metrics,
        )
        return Prober(
            tools,
            wanted,
            node=given.node,
            clock=given.clock,
            may_probe=self._goal.may_probe,
            request=self._goal.request,
            answered=self._answered,
            log=given.log,
        )

    def _new_watch(self) -> KubeCache[NodeView]:
        given = self._given
        return KubeCache(
            self._client,
            NODES,
            log=given.log,
            clock=given.clock,
            keep=view_of,
            field_selector=f"metadata.name={given.node}",
            on_change=self._node_changed,
            metrics=given.watch_metrics,
        )

    # Life.

    def start(self) -> None:
        self._given.metrics.keep_only(
            check for each in self._policies.values() for check in each.checks
        )
        for loop in self._loops:
            loop.start()
        self._watchdog.start()
        self._writer.start()
        self._nodes.start()
        if self._prober is not None:
            self._prober.start()

    def stop(self) -> None:
        """End all threads, at most a few seconds; a child that hangs ends with its thread, at the latest with us."""
        for loop in self._loops:
            loop.ask_to_stop()
        self._watchdog.stop()
        if self._prober is not None:
            self._prober.stop()
        self._nodes.stop()
        self._writer.stop()
        until = time.monotonic() + 1
        for loop in self._loops:
            loop.join(max(0.0, until - time.monotonic()))
        self._save()
        self._feed.close()
        self._client.close()

    def discard(self) -> None:
        """Let go of a crew that was never started."""
        self._feed.close()
        self._client.close()

    def why_not_ready(self) -> str | None:
        """Which rounds have not been done once."""
        missing = [loop.doing.name for loop in self._loops if not loop.rounds]
        return f"not yet done: {', '.join(missing)}" if missing else None

    def why_not_told(self) -> str | None:
        return None if self.board.has_met_the_node else "the API has not shown this node yet"

    def facts(self) -> GpuFacts:
        """For the metrics."""
        probes = self._prober is not None
        return GpuFacts(
            reading=self._desk.good,
            expected=self._driver_round.expected(),
            coverage=self._probes.coverage() if probes else {},
            stuck=self._given.pool.stuck,
            probe_deadline=self._settings.probe.deadline if probes else None,
        )

    # What happens.

    def _node_changed(self, change: Change[NodeView]) -> None:
        self._writer.see(change.new)
        if self._prober is not None:
            self._prober.wake()

    def _answered(self, answer: Any) -> None:
        self._goal.answered(answer)
        self._writer.wake()

    def _wake(self) -> None:
        self._writer.wake()
        if self._prober is not None:
            self._prober.wake()

    def _tick(self) -> None:
        if time.monotonic() - self._saved_at >= _SAVE_EVERY:
            self._save()

    # State.

    def _read_state(self) -> Saved | None:
        try:
            return read_state(self._settings.state_file)
        except PermanentError as error:
            self._given.log.warning("state_file_unusable", error=str(error))
        except NodemendError as error:
            self._given.log.warning("state_file_not_read", error=str(error))
        return None

    def _save(self) -> None:
        """Write the state file if there is something new. A disk that is full must not keep verdicts from the node."""
        version = self.board.version
        self._saved_at = time.monotonic()
        if version == self._saved_version:
            return
        metrics = self._given.metrics
        try:
            write_state(self._settings.state_file, self.board.saved(self._probes.coverage()))
        except NodemendError as error:
            metrics.state_saved.labels(metrics.node).set(0)
            self._given.log.warning("state_not_saved", error=str(error))
            return
        self._saved_version = version
        metrics.state_saved.labels(metrics.node).set(1)
