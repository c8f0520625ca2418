"""Who owns a path, by a CODEOWNERS file as GitHub reads it.

The rules: https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners
The last line that fits decides, and one without owners takes the ownership away. Patterns are those of gitignore
without negation, character ranges and an escaped `#`; a line that uses one of those is skipped.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

MAX_SIZE = 3_000_000
"""GitHub does not load a larger file."""

_WORD = re.compile(r"(?:\\.|[^\s\\])+")
_SPECIAL = re.compile(r"\*\*|\*|\?|\\(.)|(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class OwnedLine:
    """The line that decided: its number and pattern, and its owners as written, perhaps none."""

    number: int
    pattern: str
    owners: tuple[str, ...]


def clean_path(text: str) -> str | None:
    """Make a path relative to the repository's root; None for one that leaves it or is empty."""
    parts = [part for part in text.strip().replace("\\", "/").split("/") if part not in {"", "."}]
    return "/".join(parts) if parts and ".." not in parts else None


def owners_of(text: str, path: str) -> OwnedLine | None:
    """Find the last line of a CODEOWNERS file that fits `path` (relative, with `/`)."""
    if len(text) > MAX_SIZE:
        return None
    for number, line in reversed(list(enumerate(text.splitlines(), start=1))):
        owned = _parsed(number, line)
        if owned and _matcher(owned.pattern).fullmatch(path):
            return owned
    return None


def _parsed(number: int, line: str) -> OwnedLine | None:
    words = _WORD.findall(line.lstrip("\ufeff"))
    if not words or words[0].startswith(("#", "!", "\\#")) or re.search(r"[\[\]]", words[0]):
        return None
    comment = next((at for at, word in enumerate(words) if word.startswith("#")), len(words))
    return OwnedLine(number, words[0], tuple(words[1:comment]))


@lru_cache(maxsize=4096)
def _matcher(pattern: str) -> re.Pattern[str]:
    """Translate a pattern.

    A slash anywhere but at the end ties it to the root. A name also fits all below a folder of that name, except
    that a final `*` fits only what lies directly there.
    """
    body = pattern.rstrip("/")
    anchored = "/" in body
    parts = body.strip("/").split("/") if body else ["**"]
    start = "" if anchored else "(?:.*/)?"
    inside = "/.+" if pattern.endswith("/") and body else "" if parts[-1] == "*" else "(?:/.+)?"
    return re.compile(start + _joined(parts) + inside, re.DOTALL)


def _joined(parts: list[str]) -> str:
    written = ""
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        if part == "**":
            written += ".+" if last else "(?:[^/]+/)*"
        else:
            written += _segment(part) + ("" if last else "/")
    return written


def _segment(part: str) -> str:
    def translated(found: re.Match[str]) -> str:
        sign = found[0]
        if sign in {"*", "**"}:
            return "[^/]*"
        return "[^/]" if sign == "?" else re.escape(found[1] or found[2])

    return _SPECIAL.sub(translated, part)
