"""Addresses in Alertmanager's own pages: the group, and a silence with its matchers filled in.

Must not guess: a matcher that is left out makes a silence wider, so without room for all of them there is no link.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote

LINK_LIMIT = 4_000

_CLASSIC_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def group_url(external_url: str, labels: Mapping[str, str]) -> str:
    """Address the list of alerts with these labels; empty when there is nothing to link to."""
    return _page(external_url, "alerts", labels)


def silence_url(external_url: str, labels: Mapping[str, str]) -> str:
    """Address the form for a new silence of alerts with these labels; empty when there is none."""
    return _page(external_url, "silences/new", labels)


def _page(external_url: str, page: str, labels: Mapping[str, str]) -> str:
    if not external_url or not labels:
        return ""
    chosen = "{" + ", ".join(_matcher(*pair) for pair in sorted(labels.items())) + "}"
    try:
        encoded = quote(chosen, safe="")
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8, and matches nothing
        return ""
    url = f"{external_url.rstrip('/')}/#/{page}?filter={encoded}"
    return url if len(url) <= LINK_LIMIT else ""


def _matcher(name: str, value: str) -> str:
    shown = name if _CLASSIC_NAME.fullmatch(name) else _quoted(name)
    return f"{shown}={_quoted(value)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
