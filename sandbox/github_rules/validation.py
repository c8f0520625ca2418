"""From a decoded request body to a checked draft, or a 422 as GitHub words it.

Limits: title 256 and body 65,536 characters, label name 50, 100 labels and 10 assignees an issue
(GitHub's documentation and the 422 bodies in public reports). No state is known here: whether a
label, a login or a milestone exists is asked elsewhere.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sandbox.github_rules.refusals import FieldError, invalid, invalid_request

TITLE_LIMIT: Final = 256
BODY_LIMIT: Final = 65_536
LABEL_NAME_LIMIT: Final = 50
LABEL_DESCRIPTION_LIMIT: Final = 100
LABELS_LIMIT: Final = 100
ASSIGNEES_LIMIT: Final = 10

CLOSE_REASONS: Final = ("completed", "not_planned", "duplicate")
STATE_REASONS: Final = (*CLOSE_REASONS, "reopened")
LOCK_REASONS: Final = ("off-topic", "too heated", "resolved", "spam")

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class IssueDraft:
    title: str
    body: str | None = None
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    milestone: int | None = None


@dataclass(frozen=True, slots=True)
class IssueEdit:
    """`given` names the keys of the request: a key that is absent changes nothing."""

    given: frozenset[str]
    title: str = ""
    body: str | None = None
    state: str | None = None
    state_reason: str | None = None
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    milestone: int | None = None


@dataclass(frozen=True, slots=True)
class CommentDraft:
    body: str


@dataclass(frozen=True, slots=True)
class LabelDraft:
    name: str
    color: str
    description: str | None


@dataclass(frozen=True, slots=True)
class MilestoneDraft:
    title: str
    state: str
    description: str | None
    due_on: str | None


def issue_draft(body: Body) -> IssueDraft:
    if "title" not in body:
        raise invalid_request('"title" wasn\'t supplied.')
    return IssueDraft(
        title=_title(body["title"]),
        body=_optional_text(body, "body", "Issue"),
        labels=label_names(body.get("labels")),
        assignees=_assignees(body),
        milestone=_milestone_number(body.get("milestone")),
    )


def issue_edit(body: Body) -> IssueEdit:
    given = frozenset(body) | ({"assignees"} if "assignee" in body else frozenset())
    return IssueEdit(
        given=given,
        title=_title(body["title"]) if "title" in body else "",
        body=_optional_text(body, "body", "Issue"),
        state=_choice(body, "state", ("open", "closed")),
        state_reason=_choice(body, "state_reason", STATE_REASONS),
        labels=label_names(body.get("labels")),
        assignees=_assignees(body),
        milestone=_milestone_number(body.get("milestone")),
    )


def comment_draft(body: Body) -> CommentDraft:
    if "body" not in body:
        raise invalid_request('"body" wasn\'t supplied.')
    text = _optional_text(body, "body", "IssueComment")
    if text is None or not text.strip():
        raise invalid(FieldError("IssueComment", "body", "missing_field"))
    return CommentDraft(text)


def label_draft(body: Body) -> LabelDraft:
    name = body.get("name", body.get("new_name"))
    if name is None:
        raise invalid_request('"name" wasn\'t supplied.')
    color = body.get("color", "ededed")
    if not isinstance(color, str) or not re.fullmatch(r"[0-9a-fA-F]{6}", color):
        raise invalid(FieldError("Label", "color", "invalid"))
    description = _optional_text(body, "description", "Label")
    if description and len(description) > LABEL_DESCRIPTION_LIMIT:
        raise invalid(_too_long("Label", "description", LABEL_DESCRIPTION_LIMIT))
    return LabelDraft(label_name(name), color.lower(), description)


def milestone_draft(body: Body) -> MilestoneDraft:
    title = body.get("title")
    if not isinstance(title, str) or not title.strip():
        raise invalid(FieldError("Milestone", "title", "missing_field"))
    due_on = body.get("due_on")
    if due_on is not None and not re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", str(due_on)):
        raise invalid(FieldError("Milestone", "due_on", "invalid"))
    state = _choice(body, "state", ("open", "closed")) or "open"
    return MilestoneDraft(title, state, _optional_text(body, "description", "Milestone"), due_on)


def label_names(value: Any) -> tuple[str, ...]:
    """Names from `["a", {"name": "b"}]`, in order, each once (labels ignore case)."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise invalid_request(f"For 'properties/labels', {value!r} is not an array.")
    names: dict[str, str] = {}
    for entry in value:
        name = label_name(entry.get("name") if isinstance(entry, dict) else entry)
        names.setdefault(name.lower(), name)
    if len(names) > LABELS_LIMIT:
        message = f"labels cannot be more than {LABELS_LIMIT}"
        raise invalid(FieldError("Issue", "labels", "custom", message))
    return tuple(names.values())


def label_name(value: Any) -> str:
    if not isinstance(value, str):
        raise invalid_request(f"For 'items', {value!r} is not a string.")
    name = value.strip()
    if not name:
        raise invalid(FieldError("Label", "name", "missing_field"))
    if len(name) > LABEL_NAME_LIMIT:
        raise invalid(_too_long("Label", "name", LABEL_NAME_LIMIT))
    _refuse_nul(name, "Label", "name")
    return name


def assignee_names(value: Any) -> tuple[str, ...]:
    """Logins, in order, each once (logins ignore case); more than ten are refused."""
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(entry, str) for entry in values):
        raise invalid_request(f"For 'properties/assignees', {value!r} is not an array of strings.")
    names = {entry.lower(): entry for entry in reversed(values) if entry}
    if len(names) > ASSIGNEES_LIMIT:
        message = f"assignees cannot be more than {ASSIGNEES_LIMIT}"
        raise invalid(FieldError("Issue", "assignees", "custom", message))
    return tuple(reversed(names.values()))


def lock_reason(body: Body) -> str | None:
    return _choice(body, "lock_reason", LOCK_REASONS)


def next_state(state: str, edit: IssueEdit) -> tuple[str, str | None] | None:
    """The (state, state_reason) after `edit`, None when the state stays.

    A reason without a change of state is ignored (GitHub's documentation of "update an issue").
    """
    if edit.state is None or edit.state == state:
        return None
    if edit.state == "open":
        return "open", "reopened"
    if edit.state_reason == "reopened":
        raise invalid(FieldError("Issue", "state_reason", "invalid", value="reopened"))
    return "closed", edit.state_reason or "completed"


def _title(value: Any) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise invalid_request(f"For 'properties/title', {value!r} is not a string or integer.")
    title = str(value)
    if not title.strip():
        raise invalid(FieldError("Issue", "title", "missing_field"))
    if len(title) > TITLE_LIMIT:
        raise invalid(_too_long("Issue", "title", TITLE_LIMIT))
    _refuse_nul(title, "Issue", "title")
    return title.strip()


def _optional_text(body: Body, field: str, resource: str) -> str | None:
    value = body.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid_request(f"For 'properties/{field}', {value!r} is not a string or null.")
    if len(value) > BODY_LIMIT:
        raise invalid(_too_long(resource, field, BODY_LIMIT))
    _refuse_nul(value, resource, field)
    return value


def _assignees(body: Body) -> tuple[str, ...]:
    return assignee_names(body.get("assignees", body.get("assignee")))


def _milestone_number(value: Any) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not str(value).isdigit():
        raise invalid_request(f"For 'properties/milestone', {value!r} is not an integer.")
    return int(value)


def _choice(body: Body, field: str, allowed: tuple[str, ...]) -> str | None:
    value = body.get(field)
    if value is None:
        return None
    if value not in allowed:
        words = ", ".join(allowed)
        raise invalid_request(f"For 'properties/{field}', {value!r} is not a member of [{words}].")
    return str(value)


def _refuse_nul(text: str, resource: str, field: str) -> None:
    if "\x00" in text:
        raise invalid(FieldError(resource, field, "custom", f"{field} contains a null byte"))


def _too_long(resource: str, field: str, limit: int) -> FieldError:
    message = f"{field} is too long (maximum is {limit} characters)"
    return FieldError(resource, field, "custom", message)
