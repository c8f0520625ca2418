"""Names that GitHub gives rules for: repositories, logins, labels; and the allow-list of repositories.

It checks and cleans text only; whether a thing of that name exists is for the tracker to find out.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

MAX_LABEL_LENGTH = 50
MAX_LABELS = 100
"""GitHub answers 422 to a longer label name and to more labels on one issue."""

_OWNER = r"[A-Za-z0-9][A-Za-z0-9_-]{0,38}"
_REPOSITORY = re.compile(rf"{_OWNER}/[A-Za-z0-9._-]{{1,100}}")
_ALLOWED = re.compile(rf"{_OWNER}/[A-Za-z0-9._*?-]{{1,100}}")
_LOGIN = re.compile(rf"{_OWNER}(\[bot\])?")
_FAR_BEYOND_A_LABEL = 1000


def is_repository_name(text: str) -> bool:
    """Whether it is OWNER/REPO as GitHub writes it."""
    return bool(_REPOSITORY.fullmatch(text)) and text.partition("/")[2] not in {".", ".."}


def clean_label(text: str) -> str:
    """Bring a text under GitHub's rules for label names; the empty text when nothing is left.

    Commas and control characters become a space, invisible format characters go, white space
    collapses, and at most 50 characters stay.
    """
    text = text[:_FAR_BEYOND_A_LABEL]
    if not text.isprintable() or "," in text:
        text = "".join(map(_label_character, text))
    return " ".join(text.split())[:MAX_LABEL_LENGTH].rstrip()


def _label_character(character: str) -> str:
    if character == ",":
        return " "
    if character.isprintable():
        return character
    return "" if unicodedata.category(character) == "Cf" else " "


class AllowList:
    """The repositories that may be written to; GitHub ignores case in names, so does this."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._pattern = re.compile("|".join(map(_as_pattern, entries)) or "(?!)", re.IGNORECASE)

    def allows(self, full_name: str) -> bool:
        """Whether an entry fits OWNER/REPO."""
        return is_repository_name(full_name) and bool(self._pattern.fullmatch(full_name))


def _as_pattern(entry: str) -> str:
    return re.escape(entry).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")


def _repository_name(value: str) -> str:
    if not is_repository_name(value):
        raise ValueError("write OWNER/REPO, like example-org/gpu-ops")
    return value


def _allowed_repository(value: str) -> str:
    owner, _, _ = value.partition("/")
    if "*" in owner or "?" in owner:
        raise ValueError("the owner must be named; write OWNER/* for all repositories of an owner")
    if not _ALLOWED.fullmatch(value):
        raise ValueError("write OWNER/REPO or OWNER/*; in the repository * and ? are wildcards")
    return value


def _login(value: str) -> str:
    if value.startswith("@"):
        raise ValueError("write the login without @")
    if not _LOGIN.fullmatch(value):
        raise ValueError("not a GitHub login; use letters, digits and hyphens")
    return value


def _label_name(value: str) -> str:
    if value != clean_label(value) or not value:
        raise ValueError(
            f"GitHub takes no such label; write 1 to {MAX_LABEL_LENGTH} characters without commas,"
            " control characters or white space around"
        )
    return value


RepositoryName = Annotated[str, AfterValidator(_repository_name)]
AllowedRepository = Annotated[str, AfterValidator(_allowed_repository)]
Login = Annotated[str, AfterValidator(_login)]
LabelName = Annotated[str, AfterValidator(_label_name)]
