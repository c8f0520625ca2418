"""What the edges of an agent have read, as plain data for the checks to judge.

Pure and without judgement: None means that this machine, driver or device does not tell; an error is kept as what
it was. Nothing here decides what is healthy.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class DriverStatus(StrEnum):
    """Whether NVIDIA's management library (NVML) could be asked."""

    READ = "read"
    NOT_INSTALLED = "not_installed"
    """No NVIDIA device and no driver: nothing to check on this node."""
    FAILED = "failed"
    """It answered with an error, see `error`."""
    TIMED_OUT = "timed_out"
    """It did not answer in time; the child was killed."""
    STUCK = "stuck"
    """It did not answer, and the child that asked cannot be killed."""


@dataclass(frozen=True, slots=True)
class NvmlError:
    """An error of NVML: its code (nvmlReturn_t) and the call that had it."""

    code: int
    call: str


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A slice of a GPU in MIG mode, with a UUID of its own (`MIG-…`)."""

    uuid: str
    profile: str
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class PcieLink:
    """A PCIe link: lanes and generation as they are now and as they could be.

    The maxima are already the lesser of what the device and the port above it can do, where that is known.
    """

    width: int | None
    width_max: int | None
    generation: int | None
    generation_max: int | None


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU as NVML tells about it. `errors` are those of single calls; the fields they were to fill are None.

    `utilization` is in percent. `recovery_action` is NVML's field 230: 0 none, 1 GPU reset, 2 node reboot, 3 drain
    P2P, 4 drain and reset, 5 recover IMEX, 6 bus reset, 7 system reboot. `processes` are the PIDs that compute on it.
    """

    index: int
    uuid: str
    model: str
    pci_bus_id: str
    """As sysfs writes it, in lower case: 0000:3b:00.0."""
    errors: tuple[NvmlError, ...] = ()
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    retired_pages_pending: bool | None = None
    row_remap_pending: bool | None = None
    row_remap_failed: bool | None = None
    link: PcieLink = PcieLink(None, None, None, None)
    utilization: int | None = None
    recovery_action: int | None = None
    processes: tuple[int, ...] | None = None
    exclusive_process: bool | None = None
    """Whether its compute mode lets only one process, or none, compute."""
    mig_enabled: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class DriverReading:
    """What one round of asking NVML gave. `count` is the number of devices that NVML knows of.

    A device whose handle could not be had is missing from `gpus`; why is in `errors`, by its index.
    """

    status: DriverStatus
    error: NvmlError | None = None
    driver_version: str = ""
    cuda_version: str = ""
    count: int | None = None
    gpus: tuple[GpuReading, ...] = ()
    errors: tuple[tuple[int, NvmlError], ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """A process as /proc tells: `start_ticks` (field 22 of stat) makes a PID unmistakable within a boot."""

    pid: int
    start_ticks: int
    state: str
    command: str
    kernel_thread: bool
    wait_channel: str = ""
    holds_gpu: bool = False


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """All processes at one moment, or why they could not be read."""

    processes: tuple[ProcessSample, ...]
    unreadable: str | None = None


class MountAnswer(StrEnum):
    """What asking a mounted file system for its size gave."""

    ANSWERED = "answered"
    TIMED_OUT = "timed_out"
    STALE = "stale"
    FAILED = "failed"
    STILL_WAITING = "still_waiting"
    """The child of an earlier round has not come back; no second one was started."""
    NOT_ASKED = "not_asked"
    """There were as many waiting children as allowed."""


@dataclass(frozen=True, slots=True)
class MountSample:
    """An NFS mount of the host, and how it answered."""

    mount_point: str
    source: str
    answer: MountAnswer
    detail: str = ""


@dataclass(frozen=True, slots=True)
class MountReading:
    """All NFS mounts at one moment, or why they could not be listed."""

    mounts: tuple[MountSample, ...]
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class KernelMessage:
    """A record of /dev/kmsg from the kernel itself; `sequence` counts up within a boot."""

    sequence: int
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class KernelLogReading:
    """What the kernel said since the last reading. `lost` means that records were overwritten before they were read."""

    boot_id: str
    messages: tuple[KernelMessage, ...]
    next_sequence: int
    lost: bool = False
    unreadable: str | None = None


class ProbeEnd(StrEnum):
    """How a run of the GPU probe on one device ended."""

    PASSED = "pass"
    PROBLEM = "problem"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What the GPU probe found on one device: the same data as its JSON line.

    `step` is where it stopped (init, context, allocate, copy_in, launch, copy_out, compare, …), `error_code` and
    `error_name` the CUDA driver's, `reason` one of chassis.contracts' for GPURuntimeError. `link` was read while data
    was being copied.
    """

    uuid: str
    model: str
    end: ProbeEnd
    reason: str
    step: str
    error_code: int | None
    error_name: str
    seconds: float
    message: str = ""
    link: PcieLink | None = None
    bandwidth_bytes_per_second: float | None = None
