"""In the child: asks NVML about everything once and prints one JSON line. The only importer of pynvml.

Each call is guarded by itself: a device that is lost, or a function that this driver does not have, costs one field and
never the other devices. Before each call its name goes to stderr, so that the parent of a hung child can say where.
Run as `python -m exporters.nvml_reader.child`, which loads little, or as `exporters read-nvml`.
"""

import argparse
import ctypes
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pynvml  # type: ignore[import-untyped]  # it has no annotations

from exporters.nvml_reader.pcie import find_gpus, limit_link, read_link, sysfs_address
from exporters.readings import (
    DriverReading,
    DriverStatus,
    GpuReading,
    MigDevice,
    NvmlError,
    PcieLink,
)

_UNKNOWN = 999
"""NVML_ERROR_UNKNOWN."""
_NOT_TOLD = frozenset({3, 13, 21, 25, 26})
"""NOT_SUPPORTED, FUNCTION_NOT_FOUND, NO_DATA, ARGUMENT_VERSION_MISMATCH, DEPRECATED: this GPU or driver does not tell."""
_NO_DRIVER = frozenset({9, 12})
"""DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND."""
_NOT_FOUND = 6
_INIT_FLAG_NO_GPUS = 1
"""Initialise with no GPU too: then the count says that there is none."""
_RECOVERY_ACTION_FIELD = 230
_MAX_MIG_DEVICES = 64
_EXCLUSIVE_MODES = frozenset({1, 2, 3})
"""Compute modes EXCLUSIVE_THREAD, PROHIBITED, EXCLUSIVE_PROCESS."""


class CallError(Exception):
    """A call of NVML that failed, with the error to hand on."""

    def __init__(self, error: NvmlError) -> None:
        super().__init__(f"{error.call}: {error.code}")
        self.error = error


def call(name: str, *arguments: object) -> Any:
    """Call pynvml's `name` and say so on stderr first, unbuffered.

    Raises CallError for NVML's own errors, and with code 999 for an answer that pynvml cannot read.
    """
    os.write(2, f"{name}\n".encode())
    try:
        return getattr(pynvml, name)(*arguments)
    except pynvml.NVMLError as error:
        raise CallError(NvmlError(int(error.value), name)) from error
    except (AttributeError, UnicodeError, ValueError, ctypes.ArgumentError) as error:
        raise CallError(NvmlError(_UNKNOWN, name)) from error


class Device:
    """One handle, and the errors of the calls on it so far."""

    def __init__(self, handle: object) -> None:
        self.handle = handle
        self.errors: list[NvmlError] = []

    def ask(self, name: str, *arguments: object) -> Any:
        """What the call gives, None if it fails; a failure other than "does not tell" is noted."""
        try:
            return call(name, self.handle, *arguments)
        except CallError as failure:
            if failure.error.code not in _NOT_TOLD:
                self.errors.append(failure.error)
            return None

    def flag(self, name: str) -> bool | None:
        """A call whose answer is 0 or 1."""
        answer = self.ask(name)
        return None if answer is None else bool(answer)


def read(root: Path) -> DriverReading:
    """All that NVML tells, or the error that it starts with."""
    try:
        call("nvmlInitWithFlags", _INIT_FLAG_NO_GPUS)
        count = int(call("nvmlDeviceGetCount"))
    except CallError as failure:
        absent = failure.error.code in _NO_DRIVER and find_gpus(root) == ()
        status = DriverStatus.NOT_INSTALLED if absent else DriverStatus.FAILED
        return DriverReading(status, None if absent else failure.error)
    gpus: list[GpuReading] = []
    errors: list[tuple[int, NvmlError]] = []
    for index in range(count):
        try:
            gpus.append(_read_gpu(index, root))
        except CallError as failure:
            errors.append((index, failure.error))
    return DriverReading(
        DriverStatus.READ,
        driver_version=_text("nvmlSystemGetDriverVersion"),
        cuda_version=_cuda_version(),
        count=count,
        gpus=tuple(gpus),
        errors=tuple(errors),
    )


def _read_gpu(index: int, root: Path) -> GpuReading:
    """Raises CallError if the device cannot even be named."""
    device = Device(call("nvmlDeviceGetHandleByIndex", index))
    uuid = str(call("nvmlDeviceGetUUID", device.handle))
    pci = device.ask("nvmlDeviceGetPciInfo")
    address = "" if pci is None else sysfs_address(_decoded(pci.busId))
    memory = device.ask("nvmlDeviceGetMemoryInfo")
    utilization = device.ask("nvmlDeviceGetUtilizationRates")
    compute_mode = device.ask("nvmlDeviceGetComputeMode")
    remapped = device.ask("nvmlDeviceGetRemappedRows")
    mig_mode = device.ask("nvmlDeviceGetMigMode")
    mig_enabled = None if mig_mode is None else bool(mig_mode[0])
    return GpuReading(
        index=index,
        uuid=uuid,
        model=str(device.ask("nvmlDeviceGetName") or ""),
        pci_bus_id=address,
        memory_total_bytes=None if memory is None else int(memory.total),
        memory_used_bytes=None if memory is None else int(memory.used),
        retired_pages_pending=device.flag("nvmlDeviceGetRetiredPagesPendingStatus"),
        row_remap_pending=None if remapped is None else bool(remapped[2]),
        row_remap_failed=None if remapped is None else bool(remapped[3]),
        link=limit_link(_link(device), read_link(root, address)),
        utilization=None if utilization is None else int(utilization.gpu),
        recovery_action=_recovery_action(device),
        processes=_processes(device),
        exclusive_process=None if compute_mode is None else compute_mode in _EXCLUSIVE_MODES,
        mig_enabled=mig_enabled,
        mig_devices=_mig_devices(device) if mig_enabled else (),
        errors=tuple(device.errors),
    )


def _link(device: Device) -> PcieLink:
    """NVML's maximum is that of device and system; the GPU's own is the lesser where the system's is not told."""
    generations = (
        device.ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        device.ask("nvmlDeviceGetGpuMaxPcieLinkGeneration"),
    )
    return PcieLink(
        width=device.ask("nvmlDeviceGetCurrPcieLinkWidth"),
        width_max=device.ask("nvmlDeviceGetMaxPcieLinkWidth"),
        generation=device.ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        generation_max=min((each for each in generations if each is not None), default=None),
    )


def _recovery_action(device: Device) -> int | None:
    fields = device.ask("nvmlDeviceGetFieldValues", [_RECOVERY_ACTION_FIELD])
    if fields is None or fields[0].nvmlReturn in _NOT_TOLD:
        return None
    if fields[0].nvmlReturn != 0:
        device.errors.append(NvmlError(int(fields[0].nvmlReturn), "nvmlDeviceGetFieldValues"))
        return None
    return int(fields[0].value.uiVal)


def _processes(device: Device) -> tuple[int, ...] | None:
    """The PIDs that compute, directly or through MPS; None if that cannot be known."""
    direct = device.ask("nvmlDeviceGetComputeRunningProcesses_v3")
    if direct is None and not _failed(device, "nvmlDeviceGetComputeRunningProcesses_v3"):
        direct = device.ask("nvmlDeviceGetComputeRunningProcesses_v2")  # drivers before 510
    if direct is None:
        return None
    served = device.ask("nvmlDeviceGetMPSComputeRunningProcesses_v3") or []
    return tuple(sorted({int(each.pid) for each in (*direct, *served)}))


def _failed(device: Device, name: str) -> bool:
    return any(each.call == name for each in device.errors)


def _mig_devices(device: Device) -> tuple[MigDevice, ...]:
    found = []
    most = device.ask("nvmlDeviceGetMaxMigDeviceCount")
    for index in range(min(most or 0, _MAX_MIG_DEVICES)):
        try:
            part = call("nvmlDeviceGetMigDeviceHandleByIndex", device.handle, index)
            uuid = str(call("nvmlDeviceGetUUID", part))
        except CallError as failure:
            if failure.error.code != _NOT_FOUND:  # an index without a slice
                device.errors.append(failure.error)
            continue
        slice_ = Device(part)
        name = str(slice_.ask("nvmlDeviceGetName") or "")
        attributes = slice_.ask("nvmlDeviceGetAttributes_v2")
        memory = None if attributes is None else int(attributes.memorySizeMB) << 20
        found.append(MigDevice(uuid, name.rpartition("MIG ")[2], memory))
        device.errors += slice_.errors
    return tuple(found)


def _text(name: str) -> str:
    try:
        return str(call(name))
    except CallError:
        return ""


def _cuda_version() -> str:
    """NVML tells 1000 * major + 10 * minor."""
    try:
        number = int(call("nvmlSystemGetCudaDriverVersion_v2"))
    except CallError:
        return ""
    return f"{number // 1000}.{number % 1000 // 10}"


def _decoded(text: str | bytes) -> str:
    return text.decode("ascii", "replace") if isinstance(text, bytes) else text


def link_sampler(root: Path, pci_bus_id: str) -> Callable[[], PcieLink | None]:
    """What reads the PCIe link of one GPU, for a process that copies to it meanwhile; it gives None where NVML fails."""
    try:
        call("nvmlInitWithFlags", _INIT_FLAG_NO_GPUS)
        device = Device(call("nvmlDeviceGetHandleByPciBusId", pci_bus_id.encode()))
    except CallError:
        return lambda: None
    sysfs = read_link(root, sysfs_address(pci_bus_id))
    return lambda: limit_link(_link(device), sysfs)


def main(argv: Sequence[str]) -> int:
    """Print the reading as one JSON line; the exit status is 0 whatever NVML says."""
    parser = argparse.ArgumentParser(
        prog="exporters read-nvml",
        description="Print what NVIDIA's management library tells about the GPUs of this node, as one line of JSON.",
    )
    parser.add_argument("--root", type=Path, default=Path("/"), help="where sys/ of the host is")
    line = json.dumps(asdict(read(parser.parse_args(argv).root)))
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    # Not by sys.exit: what the libraries do when a process ends is the driver's code again, and may hang.
    os._exit(main(sys.argv[1:]))
