"""`exporters gpu-probe`: probes the GPUs of this machine and prints a line of JSON for each. Composition only."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TextIO

from chassis.config import parse_duration
from chassis.errors import NodemendError
from exporters.cuda_probe.binding import LIBRARY
from exporters.cuda_probe.lines import exit_status, format_report
from exporters.cuda_probe.running import GpuProbe, ProbeOptions
from exporters.killable_child import ChildPool

_MOST_MIB = 8192
"""The words are counted in 32 bits, and nobody needs more to see a fault."""


def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Probe as `argv` says; 0 all passed, 1 a problem, 2 no verdict for some.

    As the entry of a sub-command, it takes what it is not given from the process.
    """
    arguments = _parser().parse_args(argv)
    surroundings = dict(os.environ if environment is None else environment)
    options = ProbeOptions(
        memory_mib=arguments.memory_mib,
        deadline=arguments.deadline,
        bandwidth=arguments.bandwidth,
        library=arguments.library,
        root=arguments.root,
    )
    probe = GpuProbe(ChildPool(surroundings), surroundings, options)
    try:
        reports = probe.run(frozenset(arguments.uuid))
    except NodemendError as error:
        (err or sys.stderr).write(f"gpu-probe: {error}\n")
        return 2
    (out or sys.stdout).writelines(f"{format_report(each)}\n" for each in reports)
    return exit_status(reports)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="exporters gpu-probe",
        description=(
            "Use each NVIDIA GPU of this machine once, through the CUDA driver API, and print a line of JSON for it. "
            "It does not ask whether somebody else uses the GPU."
        ),
        epilog="exit status: 0 all passed, 1 a problem, 2 no verdict for some device",
    )
    parser.add_argument(
        "--uuid",
        action="append",
        default=[],
        metavar="UUID",
        help="only this GPU (its slices, if MIG is on) or MIG device; may be given again",
    )
    parser.add_argument(
        "--bandwidth",
        action="store_true",
        help="copy for another half a second, and tell the rate and the PCIe link under load",
    )
    parser.add_argument(
        "--memory-mib", type=_mebibytes, default=64, metavar="N", help="how much to allocate (64)"
    )
    parser.add_argument(
        "--deadline",
        type=_deadline,
        default=timedelta(seconds=30),
        metavar="DURATION",
        help="after this a device's probe is killed (30s)",
    )
    parser.add_argument("--library", default=LIBRARY, help=f"the CUDA driver's library ({LIBRARY})")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where sys/ of the host is")
    return parser


def _mebibytes(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_MIB):
        raise argparse.ArgumentTypeError(f"write a whole number from 1 to {_MOST_MIB}")
    return int(text)


def _deadline(text: str) -> timedelta:
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not duration:
        raise argparse.ArgumentTypeError("must be longer than 0")
    return duration
