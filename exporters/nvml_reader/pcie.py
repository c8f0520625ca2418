"""NVIDIA devices and their PCIe links as sysfs tells. Reads under a given root; knows no driver and judges nothing.

Files as in the kernel's Documentation/ABI/testing/sysfs-bus-pci: vendor, class, {current,max}_link_{speed,width}.
"""

import contextlib
from pathlib import Path

from exporters.readings import PcieLink

_NVIDIA = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")
"""VGA controllers and 3D controllers; the last two digits of a class are its interface."""
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6, 128.0: 7}
"""GT/s a lane to PCIe generation."""
_WIDEST = 32
"""A bridge without a real link tells 63 or 255."""


def find_gpus(root: Path) -> tuple[str, ...] | None:
    """The PCI addresses of NVIDIA GPUs below `root`/sys, sorted; None if the bus cannot be read."""
    try:
        devices = sorted((root / "sys/bus/pci/devices").iterdir())
        return tuple(each.name for each in devices if _is_gpu(each))
    except OSError:
        return None


def _is_gpu(device: Path) -> bool:
    return _text(device / "vendor") == _NVIDIA and _text(device / "class").startswith(_GPU_CLASSES)


def read_link(root: Path, pci_bus_id: str) -> PcieLink:
    """The link of one device; its maxima are the lesser of its own and its upstream port's."""
    device = root / "sys/bus/pci/devices" / pci_bus_id
    port = _port_of(device)
    return PcieLink(
        width=_width(device / "current_link_width"),
        width_max=_least(_width(device / "max_link_width"), _width(port / "max_link_width")),
        generation=_generation(device / "current_link_speed"),
        generation_max=_least(
            _generation(device / "max_link_speed"), _generation(port / "max_link_speed")
        ),
    )


def limit_link(link: PcieLink, sysfs: PcieLink) -> PcieLink:
    """`link` as the driver tells, with maxima no higher than sysfs allows: a Gen4 card in a Gen3 slot is not degraded."""
    return PcieLink(
        width=link.width,
        width_max=_least(link.width_max, sysfs.width_max),
        generation=link.generation,
        generation_max=_least(link.generation_max, sysfs.generation_max),
    )


def sysfs_address(bus_id: str) -> str:
    """A bus id of NVML or CUDA ("00000000:3B:00.0") as sysfs writes it ("0000:3b:00.0")."""
    domain, _, rest = bus_id.strip().lower().partition(":")
    with contextlib.suppress(ValueError):
        domain = f"{int(domain, 16):04x}"
    return f"{domain}:{rest}"


def _port_of(device: Path) -> Path:
    """The bridge above: sysfs links each device to its place in the tree, where the port is its parent folder."""
    with contextlib.suppress(OSError, RuntimeError):
        return device.resolve().parent
    return device / "none"


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""


def _width(path: Path) -> int | None:
    text = _text(path)
    width = int(text) if text.isascii() and text.isdigit() else 0
    return width if 0 < width <= _WIDEST else None


def _generation(path: Path) -> int | None:
    """The generation of a speed such as `16.0 GT/s PCIe`; None for `Unknown`."""
    with contextlib.suppress(ValueError):
        return _GENERATIONS.get(float(_text(path).partition(" ")[0]))
    return None


def _least(*values: int | None) -> int | None:
    return min((each for each in values if each is not None), default=None)
