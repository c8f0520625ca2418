"""GitHub's size limits, and how a text is made to keep them.

It must not know what a text means: what may be left out is decided by whoever calls.
"""

import unicodedata

TITLE_LIMIT = 256
BODY_LIMIT = 65_536
"""What GitHub takes as the body of an issue or a comment; above it answers 422 with `is too long`."""

_JOINERS = frozenset("\u200d\ufe0e\ufe0f")
_MARKS = frozenset({"Mn", "Me", "Mc"})
_LONGEST_CLUSTER = 32  # a cluster longer than this is an attack on the reader, and is cut anywhere


def utf16_length(text: str) -> int:
    """Count UTF-16 units: never less than the characters GitHub counts, however it counts them."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, limit: int) -> str:
    """Shorten to `limit` UTF-16 units, the last of them an ellipsis; an accent stays with its letter."""
    if utf16_length(text) <= limit:
        return text
    units = text.encode("utf-16-le", "surrogatepass")[: max(0, limit - 1) * 2]
    kept = len(units.decode("utf-16-le", "ignore"))
    for back in range(min(kept, _LONGEST_CLUSTER)):
        if not _splits_cluster(text, kept - back):
            kept -= back
            break
    return text[:kept].rstrip() + "…" if limit > 0 else ""


def _splits_cluster(text: str, at: int) -> bool:
    following = text[at]
    return (
        following in _JOINERS
        or text[at - 1] == "\u200d"
        or "\U0001f3fb" <= following <= "\U0001f3ff"
        or unicodedata.category(following) in _MARKS
    )
