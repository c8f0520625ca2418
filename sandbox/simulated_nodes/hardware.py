"""What a simulated node is made of: GPU models, the shape of a node, fleets of mixed ones. Pure.

The product names are those that NVIDIA's GPU feature discovery puts into the label `nvidia.com/gpu.product`.
"""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A model of GPU: memory in MiB, PCIe lanes and generation, PCI device id, CUDA compute capability."""

    product: str
    family: str
    memory_mib: int
    compute: tuple[int, int]
    pci_device: str
    generation: int = 4
    lanes: int = 16

    @property
    def remaps_rows(self) -> bool:
        """Whether bad memory is remapped by row (Ampere and later) instead of retired by page."""
        return self.compute >= (8, 0)


A100 = GpuModel("NVIDIA-A100-SXM4-80GB", "ampere", 81920, (8, 0), "0x20b2")
H100 = GpuModel("NVIDIA-H100-80GB-HBM3", "hopper", 81559, (9, 0), "0x2330", generation=5)
A30 = GpuModel("NVIDIA-A30", "ampere", 24576, (8, 0), "0x20b7")
L40S = GpuModel("NVIDIA-L40S", "ada-lovelace", 46068, (8, 9), "0x26b9")
T4 = GpuModel("Tesla-T4", "turing", 15360, (7, 5), "0x1eb8", generation=3)
V100_16 = GpuModel("Tesla-V100-SXM2-16GB", "volta", 16384, (7, 0), "0x1db1", generation=3)
V100_32 = GpuModel("Tesla-V100-SXM2-32GB", "volta", 32768, (7, 0), "0x1db5", generation=3)
RTX_2080_TI = GpuModel(
    "NVIDIA-GeForce-RTX-2080-Ti", "turing", 11264, (7, 5), "0x1e07", generation=3
)

MODELS: Mapping[str, GpuModel] = MappingProxyType(
    {each.product: each for each in (A100, H100, A30, L40S, T4, V100_16, V100_32, RTX_2080_TI)}
)


@dataclass(frozen=True, slots=True)
class NfsMount:
    """A network file system that the node mounts at its start."""

    mount_point: str = "/mnt/data"
    source: str = "nfs.example:/export/data"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node to simulate. `gpu` None: a node without GPUs. Memory in GiB.

    `labels` win over those that the node makes itself.
    """

    name: str
    gpu: GpuModel | None = None
    gpu_count: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cpus: int = 64
    memory_gib: int = 512
    address: str = "192.0.2.1"
    kernel: str = "6.1.0-18-amd64"
    os_image: str = "Debian GNU/Linux 12 (bookworm)"
    driver: str = "550.54.15"
    cuda: str = "12.4"
    kubelet: str = "v1.36.2"
    runtime: str = "containerd://2.0.2"
    mounts: tuple[NfsMount, ...] = (NfsMount(),)
    max_pods: int = 110

    def __post_init__(self) -> None:
        if (self.gpu is None) != (self.gpu_count == 0) or self.gpu_count < 0:
            raise ValueError(
                f"node {self.name}: gpu and gpu_count must come together;"
                f" got {self.gpu and self.gpu.product} x {self.gpu_count}"
            )


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU in a node. `pci_bus_id` as sysfs writes it."""

    index: int
    uuid: str
    model: GpuModel
    pci_bus_id: str


def gpus_of(spec: NodeSpec) -> tuple[Gpu, ...]:
    """The GPUs of a node; the same name gives the same UUIDs each time."""
    if spec.gpu is None:
        return ()
    return tuple(
        Gpu(index, f"GPU-{_uuid(spec.name, str(index))}", spec.gpu, f"0000:{0x10 + index:02x}:00.0")
        for index in range(spec.gpu_count)
    )


def machine_id(name: str) -> str:
    """The machine id of a node, which outlives its reboots."""
    return _uuid(name, "machine").replace("-", "")


def _uuid(*parts: str) -> str:
    return str(uuid.UUID(bytes=hashlib.sha256("\0".join(parts).encode()).digest()[:16]))


@dataclass(frozen=True, slots=True)
class FleetPart:
    """A kind of node in a fleet: GPU model and count, and how often it comes."""

    gpu: GpuModel | None
    gpu_count: int
    weight: int = 1


MIXED: tuple[FleetPart, ...] = (
    FleetPart(V100_16, 8, 3),
    FleetPart(V100_32, 8, 3),
    FleetPart(RTX_2080_TI, 8, 2),
    FleetPart(A100, 8, 4),
    FleetPart(A30, 6, 2),
    FleetPart(H100, 8, 2),
    FleetPart(T4, 4, 1),
    FleetPart(L40S, 4, 1),
    FleetPart(None, 0, 2),
)


def mixed_fleet(
    count: int, *, prefix: str = "sim", parts: Sequence[FleetPart] = MIXED, nodes_a_rack: int = 8
) -> tuple[NodeSpec, ...]:
    """`count` nodes of all kinds in turn; each carries its rack and zone as labels."""
    kinds = [part for part in parts for _ in range(part.weight)]
    width = max(4, len(str(count)))
    return tuple(
        NodeSpec(
            f"{prefix}-{number:0{width}}",
            kinds[number % len(kinds)].gpu,
            kinds[number % len(kinds)].gpu_count,
            labels=_places(number // nodes_a_rack),
            address=_address(number),
        )
        for number in range(count)
    )


def _address(number: int) -> str:
    host = number + 256  # the first is 10.0.1.0, which no one takes for a network
    return f"10.{host >> 16 & 255}.{host >> 8 & 255}.{host & 255}"


def _places(rack: int) -> dict[str, str]:
    return {
        "topology.kubernetes.io/zone": f"zone-{rack % 3}",
        "nodemend.dev/rack": f"rack-{rack:03}",
    }
