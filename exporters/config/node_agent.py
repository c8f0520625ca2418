"""The configuration of `exporters node-agent`: which checks run how often, where the host is, how GPUs are probed."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from chassis.config import Duration, Settings
from chassis.config.fields import FOLDER
from chassis.kube_client import KubeSettings
from chassis.serving import ServingSettings
from exporters.custom_checks import load_monitors
from exporters.xid_catalogue import load_catalogue
from exporters.xids import XidAction

LogLevel = Literal["debug", "info", "warning", "error"]
CheckName = Literal[
    "gpu_lost",
    "recovery_action",
    "gpu_pages",
    "pcie_width",
    "pcie_speed",
    "xid",
    "d_state",
    "nfs",
]
_Count = Annotated[int, Field(ge=0, le=256, strict=True)]
_SHORTEST = timedelta(seconds=1)


def _long_enough(value: timedelta) -> timedelta:
    if value < _SHORTEST:
        raise ValueError("must be at least 1s")
    return value


def _beside_configuration(path: Path, info: ValidationInfo) -> Path:
    return Path((info.context or {}).get(FOLDER, "")) / path


def _yaml_off(value: object) -> object:
    """YAML reads a bare `off` as false."""
    return ProbeMode.OFF if value is False else value


Interval = Annotated[Duration, AfterValidator(_long_enough)]
ConfiguredFile = Annotated[Path, AfterValidator(_beside_configuration)]
"""A path, relative to the folder of the configuration file."""


class ProbeMode(StrEnum):
    """Who owns GPURuntimeError on this node."""

    IN_PLACE = "in_place"
    """This agent, which probes idle GPUs itself."""
    SCHEDULED = "scheduled"
    """gpu-monitor, which probes through scheduled pods."""
    OFF = "off"
    """Nobody."""


class HostSettings(Settings):
    """Where the host is: below `root` are its proc, sys and dev.

    `mounts_below` stands before the path of a mount of the host; the default is proc/1/root below `root`. `kmsg` is the
    kernel's log; the default is dev/kmsg below `root`.
    """

    root: Path = Path("/")
    mounts_below: Path | None = None
    kmsg: Path | None = None

    @property
    def mount_prefix(self) -> str:
        found = self.root / "proc/1/root" if self.mounts_below is None else self.mounts_below
        return "" if found == Path("/") else str(found)

    @property
    def kernel_log(self) -> Path:
        return self.root / "dev/kmsg" if self.kmsg is None else self.kmsg


class IntervalSettings(Settings):
    """How often each source is read; all checks on a source have its pace."""

    driver: Interval = timedelta(minutes=1)
    kernel_log: Interval = timedelta(seconds=10)
    processes: Interval = timedelta(minutes=1)
    mounts: Interval = timedelta(minutes=1)


class GpuSettings(Settings):
    """`expected` GPUs of this node: more are fine, fewer are a loss; without it, as many as were ever seen together.

    `driver_deadline` is how long NVML may take for all of them.
    """

    expected: _Count | None = None
    missing_rounds: Annotated[int, Field(ge=1, le=100)] = 3
    driver_deadline: Interval = timedelta(seconds=30)


class XidSettings(Settings):
    """`catalogue_file` in place of the shipped one; `actions` override single codes."""

    catalogue_file: ConfiguredFile | None = None
    actions: Mapping[Annotated[int, Field(ge=0, le=65535)], XidAction] = {}

    @model_validator(mode="after")
    def _catalogue_can_be_used(self) -> "XidSettings":
        if self.catalogue_file is not None:
            load_catalogue(self.catalogue_file)
        return self


class DStateSettings(Settings):
    """In how many samples in a row a process must wait."""

    samples: Annotated[int, Field(ge=2, le=1000)] = 5


class MountSettings(Settings):
    """How mounts are asked."""

    deadline: Interval = timedelta(seconds=5)
    most_at_once: Annotated[int, Field(ge=1, le=512)] = 32
    file_systems: tuple[str, ...] = ("nfs", "nfs4")


class CustomSettings(Settings):
    """Monitors of the user's own, in node-problem-detector's format; relative programs start at `base`."""

    monitors: tuple[ConfiguredFile, ...] = ()
    base: ConfiguredFile = Path()

    @model_validator(mode="after")
    def _monitors_can_be_used(self) -> "CustomSettings":
        load_monitors(self.monitors, self.base)
        return self


class ProbeSettings(Settings):
    """The probe in place: how often each idle GPU is used, and when one counts as idle."""

    period: Interval = timedelta(minutes=10)
    deadline: Interval = timedelta(seconds=30)
    memory_mib: Annotated[int, Field(ge=1, le=8192)] = 64
    idle_memory_mib: Annotated[int, Field(ge=0)] = 1024
    measure_link: bool = True
    confirm_after: Interval = timedelta(seconds=5)
    retry_request: Interval = timedelta(seconds=30)
    pod_resources_socket: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    resource_prefixes: tuple[str, ...] = ("nvidia.com/",)
    library: str = "libcuda.so.1"


class NodeAgentSettings(Settings):
    """The whole file. Every key has a default."""

    serving: ServingSettings = ServingSettings(listen=":8080", threads=4)
    kubernetes: KubeSettings = KubeSettings()
    log_level: LogLevel = "info"
    state_file: Path = Path("/var/lib/nodemend/node-agent.json")
    heartbeat: Annotated[Duration, AfterValidator(_long_enough)] = timedelta(minutes=5)
    host: HostSettings = HostSettings()
    intervals: IntervalSettings = IntervalSettings()
    disabled_checks: tuple[CheckName, ...] = ()
    gpus: GpuSettings = GpuSettings()
    xid: XidSettings = XidSettings()
    d_state: DStateSettings = DStateSettings()
    mounts: MountSettings = MountSettings()
    custom: CustomSettings = CustomSettings()
    probe_mode: Annotated[ProbeMode, BeforeValidator(_yaml_off)] = ProbeMode.IN_PLACE
    probe: ProbeSettings = ProbeSettings()
