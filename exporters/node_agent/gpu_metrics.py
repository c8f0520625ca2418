"""Series a GPU, made at each scrape from what is known then: those of a GPU that is gone end with it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from exporters.commands.running import PREFIX
from exporters.node_agent.metrics import PROBE
from exporters.node_agent.probe_log import LAST_RUN, LAST_SUCCESS, SECONDS, SUCCESS
from exporters.readings import DriverReading, GpuReading

_VALUES: Mapping[str, tuple[str, Callable[[GpuReading], float | None]]] = {
    "gpu_pending_pages": (
        "Whether memory pages wait for a reboot to be retired.",
        lambda gpu: gpu.retired_pages_pending,
    ),
    "gpu_row_remap_pending": (
        "Whether memory rows wait for a reset to be remapped.",
        lambda gpu: gpu.row_remap_pending,
    ),
    "gpu_row_remap_failed": (
        "Whether a memory row could not be remapped.",
        lambda gpu: gpu.row_remap_failed,
    ),
    "gpu_pcie_link_width": ("Lanes of the PCIe link now.", lambda gpu: gpu.link.width),
    "gpu_pcie_link_width_max": (
        "Lanes that GPU and slot have.",
        lambda gpu: gpu.link.width_max,
    ),
    "gpu_pcie_link_generation": (
        "PCIe generation now; an idle GPU lowers it.",
        lambda gpu: gpu.link.generation,
    ),
    "gpu_pcie_link_generation_max": (
        "PCIe generation that GPU and slot have.",
        lambda gpu: gpu.link.generation_max,
    ),
    "gpu_recovery_action": (
        "What the driver asks for: 0 is nothing.",
        lambda gpu: gpu.recovery_action,
    ),
}
_PROBED: Mapping[str, tuple[str, str]] = {
    "gpu_probe_success": ("Whether the last conclusive probe passed.", SUCCESS),
    "gpu_probe_duration_seconds": ("How long the last probe took.", SECONDS),
    "gpu_probe_last_run_timestamp_seconds": ("When a probe last ran.", LAST_RUN),
    "gpu_probe_last_success_timestamp_seconds": ("When a probe last passed.", LAST_SUCCESS),
}


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What there is to show. `reading` None: no GPU is known; `expected` is how many should be here."""

    reading: DriverReading | None
    expected: int
    coverage: Mapping[str, Mapping[str, float]]
    stuck: int
    probe_deadline: timedelta | None


class GpuCollector(Collector):
    """Asks for the facts at each scrape."""

    def __init__(self, node: str, facts: Callable[[], GpuFacts | None]) -> None:
        self._node = node
        self._facts = facts

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing: the registry need not ask for the facts before there are any."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        facts = self._facts()
        if facts is None:
            return
        yield self._single("node_check_stuck_workers", _STUCK, facts.stuck)
        reading = facts.reading
        seen = len(reading.gpus) if reading else 0
        yield self._single("gpus_expected", "GPUs that should be on this node.", facts.expected)
        yield self._single("gpus_seen", "GPUs that the driver reaches.", seen)
        if reading is not None:
            yield self._info(reading)
            yield from self._values(reading)
        yield from self._probes(facts)

    def _single(self, name: str, says: str, value: float) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"{PREFIX}_{name}", says, labels=("node",))
        family.add_metric((self._node,), value)
        return family

    def _info(self, reading: DriverReading) -> GaugeMetricFamily:
        labels = ("node", "gpu_uuid", "pci_bus_id", "model", "driver")
        family = GaugeMetricFamily(f"{PREFIX}_gpu_info", "Always 1.", labels=labels)
        for gpu in reading.gpus:
            family.add_metric(
                (self._node, gpu.uuid, gpu.pci_bus_id, gpu.model, reading.driver_version), 1
            )
        return family

    def _values(self, reading: DriverReading) -> Iterator[GaugeMetricFamily]:
        for name, (says, value_of) in _VALUES.items():
            family = GaugeMetricFamily(f"{PREFIX}_{name}", says, labels=("node", "gpu_uuid"))
            for gpu in reading.gpus:
                if (value := value_of(gpu)) is not None:
                    family.add_metric((self._node, gpu.uuid), value)
            yield family

    def _probes(self, facts: GpuFacts) -> Iterator[GaugeMetricFamily]:
        if facts.probe_deadline is None:
            return
        says = "After how long a probe is killed."
        labels = ("node", "probe")
        limit = GaugeMetricFamily(f"{PREFIX}_gpu_probe_timeout_seconds", says, labels=labels)
        limit.add_metric((self._node, PROBE), facts.probe_deadline.total_seconds())
        yield limit
        for name, (text, key) in _PROBED.items():
            family = GaugeMetricFamily(
                f"{PREFIX}_{name}", text, labels=("node", "gpu_uuid", "probe")
            )
            for uuid, known in sorted(facts.coverage.items()):
                if key in known:
                    family.add_metric((self._node, uuid, PROBE), known[key])
            yield family


_STUCK = "Children that hang in the kernel and cannot be killed."
