"""In the child: probes the one device that it is shown, and writes JSON lines to stdout.

`{"step": …}` before each step, at last `{"outcome": …}`; with `--list` the devices that CUDA sees. Run as
`python -m exporters.cuda_probe.child`, with CUDA_VISIBLE_DEVICES naming the device. The exit status says nothing.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from exporters.cuda_probe.binding import LIBRARY, Cuda
from exporters.cuda_probe.steps import Job, Probe, Step
from exporters.readings import PcieLink


def main(argv: Sequence[str]) -> None:
    """Probe, or list; what goes wrong is part of the answer."""
    arguments = _parser().parse_args(argv)
    job = Job(
        seed=int.from_bytes(os.urandom(4), "little"),
        memory_mib=arguments.memory_mib,
        library=arguments.library,
        bandwidth=arguments.bandwidth,
        link_sampler=partial(_link_sampler, arguments.root),
    )
    outcome = _Listing(job).run() if arguments.list else Probe(job, _announce).run()
    _write({"outcome": outcome.record()})


class _Listing(Probe):
    """Counts the devices instead of using one."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _announce)

    def _run(self) -> None:
        with self._step(Step.LOAD_LIBRARY):
            cuda = Cuda(self.job.library)
        with self._step(Step.INIT):
            cuda.init()
        with self._step(Step.FIND):
            for ordinal in range(cuda.device_count()):
                device = cuda.device(ordinal)
                _write({"device": ordinal, "uuid": cuda.uuid(device), "model": cuda.model(device)})
        self._finish()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpu-probe child")
    parser.add_argument("--memory-mib", type=int, default=64)
    parser.add_argument("--library", default=LIBRARY)
    parser.add_argument("--bandwidth", action="store_true")
    parser.add_argument("--root", type=Path, default=Path("/"))
    parser.add_argument("--list", action="store_true")
    return parser


def _link_sampler(root: Path, pci_bus_id: str) -> Callable[[], PcieLink | None]:
    """Reads the link by NVML where its package is there, else as sysfs tells."""
    from exporters.nvml_reader import pcie  # noqa: PLC0415 -- loaded only for a bandwidth run

    def by_sysfs() -> PcieLink:
        return pcie.read_link(root, pcie.sysfs_address(pci_bus_id))

    try:
        from exporters.nvml_reader import child  # noqa: PLC0415 -- as above
    except ImportError:
        return by_sysfs
    by_nvml = child.link_sampler(root, pci_bus_id)
    return lambda: by_nvml() or by_sysfs()


def _announce(step: Step) -> None:
    _write({"step": step})


def _write(record: dict[str, Any]) -> None:
    os.write(1, json.dumps(record).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
    # Not by sys.exit: what the library does when a process ends is the driver's code again, and may hang.
    os._exit(0)
