"""GitHub's JSON as the dataclasses of ports; whatever has another shape is refused in one way.

It must not send anything. Fields as in https://docs.github.com/en/rest/issues
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from alerts2gh.incident import IssueState
from alerts2gh.ports import TrackedComment, TrackedIssue

GHOST = "ghost"  # GitHub's own stand-in for a deleted account


class UnexpectedShapeError(ValueError):
    """An answer that is JSON but not what the endpoint promises; the text names the field."""


def issue(document: Any, asked: str, etag: str = "") -> TrackedIssue:
    """Read an issue.

    `asked` is the repository (owner/name) to fall back on when the answer names none.
    """
    fields = _mapping(document, "issue")
    return TrackedIssue(
        number=_integer(fields, "number"),
        url=_text(fields, "html_url"),
        repository=_repository(fields, asked),
        title=_text(fields, "title"),
        body=_optional(fields, "body") or "",
        state=_state(fields),
        state_reason=_optional(fields, "state_reason"),
        author=_login(fields.get("user")) or GHOST,
        closed_by=_login(fields.get("closed_by")),
        closed_at=_moment(fields, "closed_at") if fields.get("closed_at") else None,
        created_at=_moment(fields, "created_at"),
        updated_at=_moment(fields, "updated_at"),
        labels=label_names(fields.get("labels", [])),
        assignees=logins(fields.get("assignees", [])),
        locked=fields.get("locked") is True,
        etag=etag,
    )


def issues(document: Any, asked: str) -> tuple[TrackedIssue, ...]:
    """Read a page of the list; it also holds pull requests, which are left out."""
    items = _sequence(document, "list of issues")
    return tuple(
        issue(each, asked) for each in items if "pull_request" not in _mapping(each, "issue")
    )


def comment(document: Any) -> TrackedComment:
    fields = _mapping(document, "comment")
    return TrackedComment(
        id=_integer(fields, "id"),
        url=_text(fields, "html_url"),
        author=_login(fields.get("user")) or GHOST,
        body=_optional(fields, "body") or "",
        created_at=_moment(fields, "created_at"),
    )


def comments(document: Any) -> tuple[TrackedComment, ...]:
    return tuple(comment(each) for each in _sequence(document, "list of comments"))


def label_names(document: Any) -> tuple[str, ...]:
    """Labels come as objects, in old answers as plain names."""
    items = _sequence(document, "list of labels")
    return tuple(each if isinstance(each, str) else _text(each, "name") for each in items)


def logins(document: Any) -> tuple[str, ...]:
    return tuple(_text(each, "login") for each in _sequence(document, "list of users"))


def login(document: Any) -> str:
    return _text(document, "login")


def app_login(document: Any) -> str:
    """The author name of what an App writes: its slug, marked as GitHub marks it."""
    return f"{_text(document, 'slug')}[bot]"


def milestones(document: Any) -> tuple[tuple[str, int], ...]:
    """Titles and numbers of a page of milestones."""
    items = _sequence(document, "list of milestones")
    return tuple((_text(each, "title"), _integer(each, "number")) for each in items)


def file_text(document: Any) -> str:
    """The text of a file from the contents API; bytes that are not UTF-8 become U+FFFD."""
    if isinstance(document, list):
        raise UnexpectedShapeError("it is a directory, not a file")
    if _optional(_mapping(document, "file"), "encoding") != "base64":
        raise UnexpectedShapeError("GitHub did not send the content: larger than 1 MB, or no file")
    try:
        return base64.b64decode(_text(document, "content")).decode("utf-8", errors="replace")
    except binascii.Error as error:
        raise UnexpectedShapeError("content is not base64") from error


def expiring_token(document: Any) -> tuple[str, datetime]:
    """An installation token and when it ends."""
    fields = _mapping(document, "token")
    return _text(fields, "token"), _moment(fields, "expires_at")


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UnexpectedShapeError(f"expected {what}, got {type(value).__name__}")
    return value


def _sequence(value: Any, what: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise UnexpectedShapeError(f"expected {what}, got {type(value).__name__}")
    return value


def _text(fields: Any, key: str) -> str:
    value = _mapping(fields, f"an object with {key}").get(key)
    if not isinstance(value, str):
        raise UnexpectedShapeError(f"{key} is missing or no text")
    return value


def _optional(fields: Mapping[str, Any], key: str) -> str | None:
    return None if fields.get(key) is None else _text(fields, key)


def _integer(fields: Any, key: str) -> int:
    value = _mapping(fields, f"an object with {key}").get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnexpectedShapeError(f"{key} is missing or no whole number")
    return value


def _moment(fields: Mapping[str, Any], key: str) -> datetime:
    try:
        moment = datetime.fromisoformat(_text(fields, key))
    except ValueError as error:
        raise UnexpectedShapeError(f"{key} is not a date and time") from error
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _state(fields: Mapping[str, Any]) -> IssueState:
    try:
        return IssueState(_text(fields, "state"))
    except ValueError as error:
        raise UnexpectedShapeError("state is neither open nor closed") from error


def _login(user: Any) -> str | None:
    return None if user is None else _text(user, "login")


def _repository(fields: Mapping[str, Any], asked: str) -> str:
    """Where the issue is now.

    After a transfer or a rename this differs from where it was asked for.
    """
    segments = urlsplit(_optional(fields, "repository_url") or "").path.rsplit("/", 2)
    if len(segments) != 3:  # noqa: PLR2004 -- …/owner/name
        return asked
    return f"{unquote(segments[1])}/{unquote(segments[2])}"
