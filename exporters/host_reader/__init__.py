"""Reads the host (/proc, /sys, mounts, the kernel log) into plain data, below a root that can be elsewhere.

No judgement here: what is healthy is decided by the checks.
"""

from exporters.host_reader.boot import read_boot_id, read_boot_time
from exporters.host_reader.kernel_log import KernelLog
from exporters.host_reader.mounts import AskSettings, Mount, ask_mounts, list_mounts
from exporters.host_reader.pci import PciDevice, read_nvidia_devices
from exporters.host_reader.processes import read_processes

__all__ = [
    "AskSettings",
    "KernelLog",
    "Mount",
    "PciDevice",
    "ask_mounts",
    "list_mounts",
    "read_boot_id",
    "read_boot_time",
    "read_nvidia_devices",
    "read_processes",
]
