"""The rounds that read the GPUs: NVML and the PCI bus in one, the kernel's log in the other."""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from exporters.checks import (
    gpu_lost,
    gpu_pages,
    pcie_speed,
    pcie_width,
    recovery_action,
    xid,
)
from exporters.host_reader import read_nvidia_devices
from exporters.killable_child import ChildPool
from exporters.node_agent.board import Board
from exporters.node_agent.kernel_feed import KernelFeed
from exporters.node_agent.metrics import AgentMetrics
from exporters.node_agent.probe_log import ProbeLog
from exporters.node_agent.reporting import Reporter
from exporters.nvml_reader.reading import read_driver
from exporters.readings import DriverReading, DriverStatus, KernelLogReading, KernelMessage
from exporters.xids import XidCatalogue, enumerated, fallen_off_bus, xid_events

_UNREAD = DriverReading(DriverStatus.FAILED)


class DriverDesk:
    """Asks NVML, one at a time, and holds its last answers. `lock` is for whoever uses GPUs otherwise."""

    def __init__(self, pool: ChildPool, root: Path, deadline: timedelta) -> None:
        self.lock = threading.RLock()
        self._pool = pool
        self._root = root
        self._deadline = deadline
        self.latest = _UNREAD
        self.good: DriverReading | None = None
        """The last one that NVML answered: what metrics show."""

    def read(self) -> DriverReading:
        with self.lock:
            reading = read_driver(self._pool, self._deadline, root=self._root)
        self.latest = reading
        if reading.status is DriverStatus.READ:
            self.good = reading
        elif reading.status is DriverStatus.NOT_INSTALLED:
            self.good = None
        return reading


class Presence:
    """Whether this node has GPUs to check: None while that is not known."""

    def __init__(
        self, metrics: AgentMetrics, log: FilteringBoundLogger, told: Callable[[], None]
    ) -> None:
        self.there: bool | None = None
        self._metrics = metrics
        self._log = log
        self._told = told

    def note(self, reading: DriverReading, expected: int, on_bus: int) -> None:
        """Judge from a reading, the GPUs that should be there, and those on the PCI bus."""
        if expected or on_bus or reading.count:
            self._set(there=True)
        elif reading.status in {DriverStatus.READ, DriverStatus.NOT_INSTALLED}:
            self._set(there=False)

    def _set(self, *, there: bool) -> None:
        if there is self.there:
            return
        self.there = there
        self._metrics.supported.labels(self._metrics.node).set(there)
        if not there:
            self._log.info("gpu_checks_not_supported", why="no NVIDIA GPU and no driver")
        self._told()


class DriverRound:
    """All checks on what NVML and the PCI bus tell."""

    name = "driver"

    def __init__(
        self,
        desk: DriverDesk,
        feed: KernelFeed,
        probes: ProbeLog,
        board: Board,
        reporter: Reporter,
        presence: Presence,
    ) -> None:
        self.checks: Sequence[str] = tuple(filter(reporter.runs, DRIVER_CHECKS))
        self._desk = desk
        self._feed = feed
        self._probes = probes
        self._board = board
        self._reporter = reporter
        self._presence = presence
        self.settings = gpu_lost.Settings()
        self.root = Path("/")

    def run(self) -> None:
        started = time.monotonic()
        reading = self._desk.read()
        kernel = self._feed.take(gpu_lost.SPEC.name)
        devices = read_nvidia_devices(self.root)
        self._presence.note(reading, self.expected(), len(devices))
        if self._presence.there is False:
            self._reporter.drop(self.checks)
            return
        boot, judge = self._board.boot.id, self._reporter.judge
        links = {device.bus_id: device.link for device in devices}
        probes = self._probes.take(pcie_speed.SPEC.name)
        judge(
            gpu_lost.SPEC.name,
            lambda memory: gpu_lost.check(reading, kernel.messages, boot, self.settings, memory),
            started,
            position=kernel.next_sequence,
        )
        judge(
            recovery_action.SPEC.name,
            lambda memory: recovery_action.check(reading, boot, memory),
            started,
        )
        judge(gpu_pages.SPEC.name, lambda memory: gpu_pages.check(reading, boot, memory), started)
        judge(
            pcie_width.SPEC.name,
            lambda memory: pcie_width.check(reading, links, boot, memory),
            started,
        )
        judge(
            pcie_speed.SPEC.name,
            lambda memory: pcie_speed.check(reading, probes, boot, memory),
            started,
        )

    def expected(self) -> int:
        """How many GPUs should be here."""
        if self.settings.expected is not None:
            return self.settings.expected
        return len((self._board.peek(gpu_lost.SPEC.name) or {}).get("inventory", ()))


DRIVER_CHECKS = (
    gpu_lost.SPEC.name,
    recovery_action.SPEC.name,
    gpu_pages.SPEC.name,
    pcie_width.SPEC.name,
    pcie_speed.SPEC.name,
)


class KernelRound:
    """XIDs. It waits for nothing but the kernel's log, so that it speaks when NVML hangs."""

    name = "kernel_log"

    def __init__(
        self,
        desk: DriverDesk,
        feed: KernelFeed,
        probes: ProbeLog,
        reporter: Reporter,
        presence: Presence,
        catalogue: XidCatalogue,
    ) -> None:
        self.checks: Sequence[str] = tuple(filter(reporter.runs, (xid.SPEC.name,)))
        self._desk = desk
        self._feed = feed
        self._probes = probes
        self._reporter = reporter
        self._presence = presence
        self._catalogue = catalogue
        self.metrics: AgentMetrics | None = None
        self.on_news: Callable[[], None] = _nobody

    def run(self) -> None:
        started = time.monotonic()
        kernel = self._feed.take(xid.SPEC.name)
        self._count(kernel)
        if _is_news(kernel.messages):
            self.on_news()
        if self._presence.there is False:
            self._reporter.drop(self.checks)
            return
        probes = self._probes.take(xid.SPEC.name)
        self._reporter.judge(
            xid.SPEC.name,
            lambda memory: xid.check(kernel, self._desk.latest, probes, self._catalogue, memory),
            started,
            position=kernel.next_sequence,
        )

    def _count(self, kernel: KernelLogReading) -> None:
        if self.metrics is None:
            return
        good = self._desk.good
        uuids = {gpu.pci_bus_id: gpu.uuid for gpu in (good.gpus if good else ())}
        for bus, uuid in uuids.items():
            self.metrics.saw_gpu(uuid, bus)
        for event in xid_events(kernel.messages):
            self.metrics.saw_xid(event, uuids.get(event.bus_id, ""))


def _is_news(messages: tuple[KernelMessage, ...]) -> bool:
    """Whether NVML should be asked at once."""
    return bool(xid_events(messages) or fallen_off_bus(messages) or enumerated(messages))


def _nobody() -> None:
    """For a round that nobody listens to."""
