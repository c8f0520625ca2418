"""The one line in which a repair says how it ended, as it stands in its pod's termination message.

Pure. It is for people; what follows from an end is decided by the exit code alone.
"""

import json
from dataclasses import dataclass


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
