"""In the parent: runs the child that asks NVML, and turns how it ended into a DriverReading. Judges nothing."""

import re
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from exporters.killable_child import ChildEnd, ChildPool, EndKind
from exporters.readings import DriverReading, DriverStatus, NvmlError

CHILD_KEY = "nvml"
_TIMEOUT = 10
_UNKNOWN = 999
"""NVML_ERROR_TIMEOUT and NVML_ERROR_UNKNOWN, for what the child could not say itself."""
_READING = TypeAdapter(DriverReading)
_CALL = re.compile(rb"^nvml\w+$", re.MULTILINE)


def child_command(root: Path) -> tuple[str, ...]:
    """The child, with `root`/sys as the host's. Not through `exporters`: that would load every service's imports."""
    return (sys.executable, "-m", "exporters.nvml_reader.child", "--root", str(root))


def read_driver(
    pool: ChildPool,
    deadline: timedelta,
    *,
    root: Path = Path("/"),
    command: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> DriverReading:
    """Ask NVML once. At most `deadline` and the pool's time for reaping pass; a hung driver is an answer too."""
    argv = child_command(root) if command is None else command
    return parse_reading(pool.run(CHILD_KEY, argv, deadline, environment=environment))


def parse_reading(end: ChildEnd) -> DriverReading:
    """What the child's end tells. The call it hung in is the last line that it wrote to stderr."""
    if end.kind in {EndKind.STUCK, EndKind.BUSY}:
        return DriverReading(DriverStatus.STUCK, NvmlError(_TIMEOUT, last_call(end.stderr)))
    if end.kind is EndKind.KILLED:
        return DriverReading(DriverStatus.TIMED_OUT, NvmlError(_TIMEOUT, last_call(end.stderr)))
    try:
        return _READING.validate_json(end.stdout)
    except ValidationError:
        return DriverReading(DriverStatus.FAILED, NvmlError(_UNKNOWN, _what_happened(end)))


def last_call(stderr: bytes) -> str:
    """The name of the call that the child made last, "" if it made none."""
    names = _CALL.findall(stderr)
    return names[-1].decode() if names else ""


def _what_happened(end: ChildEnd) -> str:
    """For a child that gave no reading: what it said last, or how it ended."""
    lines = end.stderr.decode("utf-8", "replace").strip().splitlines()
    return (lines[-1] if lines else f"the child ended with {end.exit_code}")[:200]
