"""The fake NVIDIA driver for tests: built once a run, and children that find it."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from exporters.cuda_probe.running import GpuProbe, ProbeOptions
from exporters.killable_child import ChildPool
from exporters.nvml_reader.reading import read_driver
from exporters.readings import DriverReading, ProbeReport
from sandbox.fake_driver import HOW_TO_GET, FakeDriver, build, compiler

needs_compiler = pytest.mark.skipif(compiler() is None, reason=f"needs {HOW_TO_GET}")
NO_GPU_FOLDER = "no-gpus"


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """The same folder for all worker processes of this run."""
    base = factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "fake-driver"


@dataclass(frozen=True)
class FakeNode:
    """A machine with the fake driver. `folder` is for its files; a scenario is one more each time."""

    folder: Path
    current: FakeDriver
    old: FakeDriver
    pool: ChildPool = field(default_factory=lambda: ChildPool(os.environ))

    @classmethod
    def build(cls, folder: Path, libraries: Path) -> "FakeNode":
        root = folder / NO_GPU_FOLDER / "sys/bus/pci/devices"
        root.mkdir(parents=True)
        return cls(folder, build(libraries), build(libraries, old=True))

    @property
    def root(self) -> Path:
        return self.folder / NO_GPU_FOLDER

    def add_pci_device(self, address: str = "0000:3b:00.0", pci_class: str = "0x030200") -> None:
        device = self.root / "sys/bus/pci/devices" / address
        device.mkdir()
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text(f"{pci_class}\n")

    def environment(
        self, scenario: Mapping[str, object], *, old: bool = False, without: str | None = None
    ) -> dict[str, str]:
        file = self.folder / f"scenario-{len(list(self.folder.iterdir()))}"
        driver = self.old if old else self.current
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_")}
        return {**inherited, **driver.environment(scenario, file, without=without)}

    def read(
        self,
        scenario: Mapping[str, object],
        *,
        old: bool = False,
        without: str | None = None,
        seconds: float = 20,
    ) -> DriverReading:
        environment = self.environment(scenario, old=old, without=without)
        deadline = timedelta(seconds=seconds)
        return read_driver(self.pool, deadline, root=self.root, environment=environment)

    def probe(
        self,
        scenario: Mapping[str, object],
        *wanted: str,
        old: bool = False,
        without: str | None = None,
        seconds: float = 20,
        bandwidth: bool = False,
        more: Mapping[str, str] | None = None,
    ) -> tuple[ProbeReport, ...]:
        environment = {
            **self.environment(scenario, old=old, without=without),
            **(more or {}),
        }
        options = ProbeOptions(
            memory_mib=1,
            deadline=timedelta(seconds=seconds),
            bandwidth=bandwidth,
            root=self.root,
        )
        return GpuProbe(self.pool, environment, options).run(wanted)


def gpu_uuid(gpu: int = 0, mig_slice: int = 0) -> str:
    """As scenario.h makes them."""
    kind = "MIG" if mig_slice else "GPU"
    return f"{kind}-6e6f6465-6d65-6e64-8000-00000000{mig_slice:02x}{gpu:02x}"


PYTHON = sys.executable
