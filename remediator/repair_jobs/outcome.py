"""How a repair ended: what its exit code means, and the one line in which it says so to people.

Pure. What follows from an end is decided by the exit code alone; the codes are those of `repairs/common.sh`, and an
admin's own Job may use them, too.
"""

import json
from dataclasses import dataclass
from enum import StrEnum

from remediator.cluster import (
    EXIT_FAILED,
    EXIT_OTHER_BOOT,
    EXIT_REPEATED,
    EXIT_UNKNOWN,
    JobView,
)
from remediator.config import Repair

_BY_SIGNAL = 128
"""From here on the shell tells that a signal ended it: somewhere in the middle."""


class Ending(StrEnum):
    """What is known of a repair whose Job has failed."""

    OTHER_BOOT = "other_boot"
    """It found another boot than the announced one and did nothing."""
    NOTHING_DONE = "nothing_done"
    """It is certain that it changed nothing."""
    FAILED = "failed"
    """It began, and says itself that it did not work."""
    UNKNOWN = "unknown"
    """It may have happened or not."""


def ending_of(job: JobView, repair: Repair) -> Ending:
    """What the end of a failed Job means.

    Our own scripts end with a code of theirs, or were cut off; of an admin's Job any small code is a failure that it
    tells of itself.
    """
    code = job.exit_code
    if code == EXIT_OTHER_BOOT:
        return Ending.OTHER_BOOT
    if job.did_nothing:
        return Ending.NOTHING_DONE
    if code is None or code in {EXIT_REPEATED, EXIT_UNKNOWN} or code >= _BY_SIGNAL:
        return Ending.UNKNOWN
    ours = repair.template is None
    return Ending.FAILED if code == EXIT_FAILED or not ours else Ending.UNKNOWN


@dataclass(frozen=True, slots=True)
class RepairEnd:
    """`result` is `done`, `other_boot`, `repeated`, `refused`, `misused`, `failed` or `unknown`."""

    repair: str
    result: str
    boot_id: str
    detail: str


def parse_end(text: str) -> RepairEnd | None:
    """The end that a termination message tells; None if it is something else, as an admin's Job may say."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    words = [found.get(key) for key in ("repair", "result", "boot_id", "detail")]
    if not all(isinstance(word, str) for word in words):
        return None
    return RepairEnd(*map(str, words))
