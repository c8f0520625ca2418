"""The hardware and the operating system of a simulated node: boot id, GPUs, faults, mounts.

It knows nothing of Kubernetes. Any thread may call it.
"""

import fnmatch
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from sandbox.simulated_nodes.faults import GPU_FAULTS, Fault, FaultKind, Remedy
from sandbox.simulated_nodes.hardware import Gpu, NodeSpec, gpus_of
from sandbox.simulated_nodes.history import Entry, Happening, History
from sandbox.simulated_nodes.root_tree import RootTree


class Machine:
    """One machine. It starts switched on."""

    def __init__(self, spec: NodeSpec, root: Path, clock: Callable[[], datetime]) -> None:
        self.spec = spec
        self.history = History()
        self.gpus: tuple[Gpu, ...] = gpus_of(spec)
        self._clock = clock
        self._lock = threading.RLock()
        self._faults: tuple[Fault, ...] = ()
        self._boot_id = str(uuid.uuid4())
        self._told_boot_id = self._boot_id
        self._is_on = True
        self._taken_off: frozenset[str] = frozenset()
        self._tree = RootTree(root, spec, self.gpus)
        self._told: Callable[[], None] = _nobody

    # What it is.

    @property
    def boot_id(self) -> str:
        """The true one."""
        with self._lock:
            return self._boot_id

    @property
    def told_boot_id(self) -> str:
        """The one that the kubelet tells the API."""
        with self._lock:
            return self._told_boot_id

    @property
    def is_on(self) -> bool:
        with self._lock:
            return self._is_on

    @property
    def faults(self) -> tuple[Fault, ...]:
        with self._lock:
            return self._faults

    @property
    def root(self) -> Path:
        """The folder that stands for `/` of this machine; it is made when first asked for."""
        with self._lock:
            return self._tree.make(self._boot_id, self._faults, self._taken_off)

    @property
    def root_exists(self) -> bool:
        with self._lock:
            return self._tree.is_made

    def has(self, kind: FaultKind) -> bool:
        return any(fault.kind is kind for fault in self.faults)

    def has_match(self, kind: FaultKind, text: str) -> bool:
        """Whether a fault of this kind is about a pod or an image of this name."""
        return any(f.kind is kind and fnmatch.fnmatchcase(text, f.match) for f in self.faults)

    def healthy_gpus(self) -> tuple[Gpu, ...]:
        """Those that the device plugin offers."""
        lost = {fault.gpu for fault in self.faults if fault.kind is FaultKind.GPU_LOST}
        return tuple(gpu for gpu in self.gpus if gpu.index not in lost)

    def faults_of(self, gpu: Gpu) -> tuple[Fault, ...]:
        return tuple(f for f in self.faults if f.kind in GPU_FAULTS and f.gpu == gpu.index)

    def is_mounted(self, path: str) -> bool:
        """Whether one of its network file systems is mounted there."""
        with self._lock:
            return path in self._mount_points() - self._taken_off

    def hangs(self, path: str) -> bool:
        """Whether whoever touches this path waits for ever: a mount hangs there, and was not taken off."""
        with self._lock:
            hung = {each.mount_point for each in self._faults if each.kind is FaultKind.NFS_HUNG}
            return any(
                path == point or path.startswith(f"{point}/") for point in hung - self._taken_off
            )

    def _mount_points(self) -> frozenset[str]:
        return frozenset(each.mount_point for each in self.spec.mounts)

    # What is done to it.

    def unmount(self, path: str) -> bool:
        """Take a network file system off, hung or not; False if none is mounted there."""
        with self._lock:
            if not self.is_mounted(path):
                return False
            self._taken_off |= {path}
            self._tree.show(self._faults, taken_off=self._taken_off)
            return True

    def mount(self, path: str) -> bool:
        """Mount again; False: it hangs, as the server is what is broken."""
        self.apply(Remedy.REMOUNT, mount_point=path)
        with self._lock:
            broken = any(
                each.kind is FaultKind.NFS_HUNG and each.mount_point == path
                for each in self._faults
            )
            if not broken:
                self._taken_off -= {path}
            self._tree.show(self._faults, taken_off=self._taken_off)
            return not broken

    def tell(self, listener: Callable[[], None]) -> None:
        """Call this whenever the faults have changed; it must not wait for anything."""
        self._told = listener

    def note(self, what: Happening, detail: str = "") -> None:
        """Write down what happened."""
        with self._lock:
            self.history.add(Entry(self._clock(), what, detail, self._boot_id))

    def inject(self, fault: Fault) -> None:
        """Break something.

        Raises:
            ValueError: The node has no such GPU.
        """
        if fault.kind in GPU_FAULTS and fault.gpu not in range(len(self.gpus)):
            raise ValueError(
                f"node {self.spec.name} has {len(self.gpus)} GPUs, none of index {fault.gpu}"
            )
        with self._lock:
            self._faults = (*self._faults, fault)
            self.note(Happening.FAULT_INJECTED, fault.kind)
            self._tree.show(self._faults, newly=fault, taken_off=self._taken_off)
        self._told()

    def clear(self, kind: FaultKind | None = None) -> None:
        """Take away the faults of this kind, or all of them."""
        self._keep(lambda fault: kind is not None and fault.kind is not kind)

    def apply(self, remedy: Remedy, *, gpu: int | None = None, mount_point: str = "") -> None:
        """Do something to the machine that heals those faults that it heals.

        A GPU's index or a mount point limits it to them.
        """
        with self._lock:
            self.note(Happening.REMEDY, " ".join(filter(None, (remedy, mount_point))))
            self._faults = tuple(
                replace(fault, times_needed=fault.times_needed - 1)
                if remedy in fault.remedies and _concerns(fault, gpu, mount_point)
                else fault
                for fault in self._faults
            )
            self._keep(lambda fault: fault.times_needed > 0)

    def _keep(self, stays: Callable[[Fault], bool]) -> None:
        with self._lock:
            gone = [fault for fault in self._faults if not stays(fault)]
            self._faults = tuple(filter(stays, self._faults))
            for fault in gone:
                self.note(Happening.FAULT_CLEARED, fault.kind)
            self._tree.show(self._faults, taken_off=self._taken_off)
        self._told()

    def switch_off(self) -> None:
        """The machine goes down; the log of the kernel goes with it."""
        with self._lock:
            self._is_on = False
            self.note(Happening.WENT_DOWN)

    def boot(self) -> None:
        """The machine comes up under a new boot id, without what a reboot heals."""
        with self._lock:
            self._boot_id = str(uuid.uuid4())
            self._is_on = True
            self._taken_off = frozenset()
            self.note(Happening.BOOTED)
            self.apply(Remedy.REBOOT)
            if not self.has(FaultKind.KEEPS_BOOT_ID):
                self._told_boot_id = self._boot_id
            self._tree.boot(self._boot_id, self._faults)


def _nobody() -> None:
    """For a machine that nobody listens to."""


def _concerns(fault: Fault, gpu: int | None, mount_point: str) -> bool:
    if gpu is not None and fault.kind in GPU_FAULTS and fault.gpu != gpu:
        return False
    return (
        not (mount_point and fault.kind is FaultKind.NFS_HUNG) or fault.mount_point == mount_point
    )
