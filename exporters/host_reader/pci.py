"""NVIDIA's devices on the PCI bus, from /sys: there whether or not a driver is."""

from dataclasses import dataclass
from pathlib import Path

from exporters.readings import PcieLink

_NVIDIA = "0x10de"
_DISPLAY_CLASSES = (
    "0x0300",
    "0x0302",
)  # VGA and 3D controllers; audio and bridges of a card are no GPU
_GENERATIONS = {
    "2.5": 1,
    "5.0": 2,
    "5": 2,
    "8.0": 3,
    "8": 3,
    "16.0": 4,
    "16": 4,
    "32.0": 5,
    "32": 5,
    "64.0": 6,
    "64": 6,
}
_WIDEST = 32  # a bridge without a real link tells 63 or 255


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A GPU on the bus: `driver` is the module that has it ("nvidia", "vfio-pci"), None if none has."""

    bus_id: str
    device_id: str
    driver: str | None
    link: PcieLink


def read_nvidia_devices(root: Path) -> tuple[PciDevice, ...]:
    """NVIDIA's display devices, by bus id; none where /sys has no PCI bus."""
    folder = root / "sys/bus/pci/devices"
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return ()
    return tuple(_device(folder / name) for name in names if _is_gpu(folder / name))


def _is_gpu(device: Path) -> bool:
    return _read(device / "vendor") == _NVIDIA and _read(device / "class").startswith(
        _DISPLAY_CLASSES
    )


def _device(device: Path) -> PciDevice:
    driver = device / "driver"
    return PciDevice(
        bus_id=device.name.lower(),
        device_id=_read(device / "device"),
        driver=driver.resolve().name if driver.is_symlink() else None,
        link=_link(device),
    )


def _link(device: Path) -> PcieLink:
    """The link with the lesser of what the device and the port above it can do."""
    # The bus folder holds links into the tree of devices, where the port is the folder above.
    port = device.resolve().parent
    return PcieLink(
        _width(device / "current_link_width"),
        _lesser(_width(device / "max_link_width"), _width(port / "max_link_width")),
        _generation(device / "current_link_speed"),
        _lesser(_generation(device / "max_link_speed"), _generation(port / "max_link_speed")),
    )


def _lesser(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _width(path: Path) -> int | None:
    text = _read(path)
    width = int(text) if text.isascii() and text.isdigit() else 0
    return width if 0 < width <= _WIDEST else None


def _generation(path: Path) -> int | None:
    """The generation of a speed such as `16.0 GT/s PCIe`; None for `Unknown`."""
    return _GENERATIONS.get(_read(path).partition(" ")[0])


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
