"""NVIDIA's devices on the PCI bus, from /sys: there whether or not a driver is."""

from dataclasses import dataclass
from pathlib import Path

from exporters.nvml_reader.pcie import find_gpus, read_link
from exporters.readings import PcieLink


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A GPU on the bus: `driver` is the module that has it ("nvidia", "vfio-pci"), None if none has."""

    bus_id: str
    device_id: str
    driver: str | None
    link: PcieLink


def read_nvidia_devices(root: Path) -> tuple[PciDevice, ...]:
    """NVIDIA's display devices, by bus id; none where /sys has no PCI bus."""
    return tuple(_device(root, name) for name in find_gpus(root) or ())


def _device(root: Path, name: str) -> PciDevice:
    folder = root / "sys/bus/pci/devices" / name
    driver = folder / "driver"
    return PciDevice(
        bus_id=name.lower(),
        device_id=_read(folder / "device"),
        driver=driver.resolve().name if driver.is_symlink() else None,
        link=read_link(root, name),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
