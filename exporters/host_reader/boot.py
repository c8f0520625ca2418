"""Which boot of the machine this is, and when it began."""

from datetime import UTC, datetime
from pathlib import Path

from chassis.errors import TemporaryError


def read_boot_id(root: Path) -> str:
    """The kernel's boot id.

    Raises:
        TemporaryError: It cannot be read; without it no verdict may be kept.
    """
    path = root / "proc/sys/kernel/random/boot_id"
    try:
        boot_id = path.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise TemporaryError(f"cannot read {path}: {error}") from error
    if not boot_id:
        raise TemporaryError(f"{path} is empty")
    return boot_id


def read_boot_time(root: Path) -> datetime:
    """When the machine started, by its present clock: it moves when the clock is set.

    Raises:
        TemporaryError: /proc/stat does not tell.
    """
    path = root / "proc/stat"
    try:
        for line in path.read_bytes().splitlines():
            name, _, seconds = line.partition(b" ")
            if name == b"btime":
                return datetime.fromtimestamp(int(seconds), UTC)
    except (OSError, ValueError, OverflowError) as error:
        raise TemporaryError(f"cannot read the time of boot from {path}: {error}") from error
    raise TemporaryError(f"{path} has no line btime")
