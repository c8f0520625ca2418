"""The files under a simulated machine's `/` that agents and repair scripts read: /proc, /sys, /dev/kmsg, /etc.

All below one folder, made only when somebody needs it. `dev/kmsg` is an ordinary file in the format of the device
(priority,sequence,microseconds,flags;text). It must not decide which faults there are.
"""

import shutil
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from sandbox.simulated_nodes.faults import Fault, FaultKind
from sandbox.simulated_nodes.hardware import Gpu, NodeSpec, machine_id

_SPEED = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}
_PROCESSES = ((1, "systemd", "S"), (2, "kthreadd", "S"), (417, "kubelet", "S"))
_FIRST_STUCK_PID = 31000
_KERNEL_THREAD_FLAG = 0x00200000


class RootTree:
    """The folder of one machine."""

    def __init__(self, folder: Path, spec: NodeSpec, gpus: Sequence[Gpu]) -> None:
        self._folder = folder
        self._spec = spec
        self._gpus = gpus
        self._sequence = 0
        self.is_made = False

    def make(self, boot_id: str, faults: Iterable[Fault], taken_off: Collection[str] = ()) -> Path:
        """Write the whole tree unless it is there, and return its folder."""
        if not self.is_made:
            self.is_made = True
            _write(self._folder / "etc/machine-id", machine_id(self._spec.name) + "\n")
            _write(self._folder / "etc/hostname", self._spec.name + "\n")
            _write(self._folder / "etc/os-release", f'PRETTY_NAME="{self._spec.os_image}"\n')
            shown = tuple(faults)
            self.boot(boot_id, shown)
            self.show(shown, taken_off=taken_off)
        return self._folder

    def boot(self, boot_id: str, faults: Sequence[Fault]) -> None:
        """Write what a boot makes anew: boot id, processes, mounts, devices, an empty kernel log and an empty /run."""
        if not self.is_made:
            return
        for name in ("proc", "sys", "run"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
        _write(self._folder / "proc/sys/kernel/random/boot_id", boot_id + "\n")
        _write(self._folder / "proc/sys/kernel/osrelease", self._spec.kernel + "\n")
        _write(self._folder / "proc/sysrq-trigger", "")
        self._sequence = 0
        _write(self._folder / "dev/kmsg", "")
        self.log(f"Linux version {self._spec.kernel}")
        for fault in faults:
            self._log_fault(fault)
        self.show(faults)

    def show(
        self,
        faults: Iterable[Fault],
        *,
        newly: Fault | None = None,
        taken_off: Collection[str] = (),
    ) -> None:
        """Write what the faults change, without the mounts that were taken off; the kernel logs the fault that is new."""
        if not self.is_made:
            return
        shown = tuple(faults)
        self._show_processes(shown)
        self._show_mounts(taken_off)
        self._show_gpus(shown)
        if newly is not None:
            self._log_fault(newly)

    def log(self, text: str, level: int = 6) -> None:
        """Add a record of the kernel to its log."""
        path = self._folder / "dev/kmsg"
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{level},{self._sequence},{1_000_000 + self._sequence * 1000},-;{text}\n")
        self._sequence += 1

    def _log_fault(self, fault: Fault) -> None:
        if fault.kind is FaultKind.XID:
            bus = self._gpus[fault.gpu].pci_bus_id.removesuffix(".0")
            self.log(f"NVRM: Xid (PCI:{bus}): {fault.xid}, pid=4242, name=python3, simulated", 4)
        if fault.kind is FaultKind.NFS_HUNG:
            server = self._spec.mounts[0].source.partition(":")[0] if self._spec.mounts else "nfs"
            self.log(f"nfs: server {server} not responding, still trying", 4)

    def _show_processes(self, faults: Sequence[Fault]) -> None:
        stuck = [fault for fault in faults if fault.kind is FaultKind.D_STATE]
        for folder in (self._folder / "proc").glob("31[0-9][0-9][0-9]"):
            shutil.rmtree(folder)
        for pid, command, state in _PROCESSES:
            self._process(pid, command, state)
        for number, fault in enumerate(stuck):
            self._process(_FIRST_STUCK_PID + number, fault.command, "D", "rpc_wait_bit_killable")

    def _process(self, pid: int, command: str, state: str, channel: str = "") -> None:
        folder = self._folder / "proc" / str(pid)
        kernel = command == "kthreadd"
        fields = [state, int(pid == _PROCESSES[-1][0]), pid, pid, 0, -1]
        fields += [_KERNEL_THREAD_FLAG if kernel else 0, *[0] * 12, 100 + pid, *[0] * 30]
        _write(folder / "stat", f"{pid} ({command}) {' '.join(map(str, fields))}\n")
        _write(folder / "status", f"Name:\t{command}\nState:\t{state}\nPid:\t{pid}\n")
        _write(folder / "comm", command + "\n")
        _write(folder / "cmdline", "" if kernel else f"/usr/bin/{command}\0")
        _write(folder / "wchan", channel or "0")

    def _show_mounts(self, taken_off: Collection[str]) -> None:
        lines = [
            "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw",
            "22 21 0:20 / /proc rw,nosuid - proc proc rw",
        ]
        for number, mount in enumerate(self._spec.mounts):
            self._folder.joinpath(mount.mount_point.lstrip("/")).mkdir(parents=True, exist_ok=True)
            if mount.mount_point in taken_off:
                continue
            lines.append(
                f"{40 + number} 21 0:{50 + number} / {mount.mount_point} rw,relatime shared:{9 + number}"
                f" - nfs4 {mount.source} rw,vers=4.2,hard,timeo=600,retrans=2"
            )
        _write(self._folder / "proc/1/mountinfo", "\n".join(lines) + "\n")

    def _show_gpus(self, faults: Sequence[Fault]) -> None:
        for gpu in self._gpus:
            mine = [fault for fault in faults if fault.gpu == gpu.index]
            folder = self._folder / "sys/bus/pci/devices" / gpu.pci_bus_id
            if any(fault.kind is FaultKind.GPU_LOST for fault in mine):
                shutil.rmtree(folder, ignore_errors=True)
                continue
            widths = [f.width for f in mine if f.kind is FaultKind.PCIE_WIDTH_REDUCED]
            for name, value in _pci_files(gpu, min(widths, default=gpu.model.lanes)).items():
                _write(folder / name, value + "\n")


def _pci_files(gpu: Gpu, width: int) -> dict[str, str]:
    speed = _SPEED[gpu.model.generation]
    return {
        "vendor": "0x10de",
        "device": gpu.model.pci_device,
        "class": "0x030200",
        "current_link_width": str(width),
        "max_link_width": str(gpu.model.lanes),
        "current_link_speed": speed,
        "max_link_speed": speed,
    }


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
