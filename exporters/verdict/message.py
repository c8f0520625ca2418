"""The message of a condition: for people only, bounded, never read back.

Pure. Entries are kept whole or dropped whole, and how many were dropped is said.
"""

import re
from collections.abc import Iterable

MAX_BYTES = 1024
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def bounded_message(entries: Iterable[str], tail: str = "", limit: int = MAX_BYTES) -> str:
    """The entries, sorted and joined by commas, and `tail`, in at most `limit` bytes of UTF-8.

    What does not fit is counted as `+N more`.
    """
    texts = sorted({clean(entry) for entry in entries})
    for kept in range(len(texts), -1, -1):
        parts = texts[:kept] + ([f"+{len(texts) - kept} more"] if kept < len(texts) else [])
        message = ", ".join(parts) + tail
        if len(message.encode()) <= limit:
            return message
    return cut(tail, limit)


def clean(text: str) -> str:
    """One printable line: control characters, line breaks and half surrogates become a space."""
    return _UNPRINTABLE.sub(" ", text).strip()


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, never half a character."""
    return text.encode()[:limit].decode(errors="ignore")
