"""Any text as the value of a label in Prometheus' text format."""

import re
from functools import lru_cache

_RAW = re.compile('[\\\\"\n\x00\ud800-\udfff]')
_ESCAPES = {"\\": r"\\", '"': r"\"", "\n": r"\n"}


def label_value(text: object) -> str:
    r"""A text inside the quotes of a label: escaped, with U+FFFD for what is no UTF-8.

    The text format knows the escapes \\, \" and \n. NUL ends the input for Prometheus' lexer, so it is replaced, too.
    """
    plain = text if isinstance(text, str) else ""
    return _RAW.sub(_escaped, plain)


def _escaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0], "\ufffd")


shared_value = lru_cache(maxsize=4096)(label_value)  # types and reasons recur on every node
