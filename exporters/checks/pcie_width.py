"""PCIeLinkDegraded by width: a GPU that runs on fewer lanes than it and its slot have.

Pure. The driver's figures, or those of the PCI bus where the driver does not tell; the lesser maximum counts, so that
a wide card in a narrow slot is no fault. Width, unlike speed, is not lowered to save power.
"""

from collections.abc import Mapping

from chassis.contracts import ConditionReason, ConditionType
from exporters.driver_answers import completed
from exporters.readings import DriverReading, PcieLink
from exporters.verdict import CheckSpec, Damping, Finding, Memory, Result

SPEC = CheckSpec("pcie_width", ConditionType.PCIE_LINK_DEGRADED, Damping(fail=3, ok=2))


def check(
    reading: DriverReading, links: Mapping[str, PcieLink], boot_id: str, memory: Memory | None
) -> tuple[tuple[Finding, ...], Memory]:
    """Judge one reading; `links` are those of the PCI bus, by bus id."""
    judged = []
    for gpu in reading.gpus:
        width, widest = _width(gpu.link, links.get(gpu.pci_bus_id))
        if width is not None and widest is not None:
            judged.append(_finding(gpu.uuid, width, widest))
    return completed(judged, reading, boot_id, memory, "no GPU tells the width of its link")


def _width(link: PcieLink, bus: PcieLink | None) -> tuple[int | None, int | None]:
    width = link.width or (bus.width if bus else None)
    maxima = [each for each in (link.width_max, bus.width_max if bus else None) if each]
    return width, min(maxima, default=None)


def _finding(uuid: str, width: int, widest: int) -> Finding:
    if width >= widest:
        return Finding(uuid, Result.OK, ConditionReason.HEALTHY)
    text = f"{width} of {widest} lanes"
    return Finding(uuid, Result.PROBLEM, ConditionReason.LINK_WIDTH_REDUCED, text)
