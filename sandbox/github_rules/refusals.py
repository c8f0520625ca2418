"""The one way in which the sandbox GitHub says no: a status, a message, GitHub's list of errors.

The texts that a client recognises by their beginning (rate limits) or in full (bad credentials,
archived, locked) are GitHub's; see the constructors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chassis.errors import PermanentError

DOCUMENTATION = "https://docs.github.com/rest"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One entry of the `errors` list of a 422; `code` is GitHub's: missing_field, invalid, custom or so."""

    resource: str
    field: str
    code: str
    message: str | None = None
    value: str | None = None

    def as_json(self) -> dict[str, str]:
        entries = {
            "value": self.value,
            "resource": self.resource,
            "field": self.field,
            "code": self.code,
            "message": self.message,
        }
        return {key: value for key, value in entries.items() if value is not None}


class Refusal(PermanentError):  # noqa: N818  (the domain's word)
    """An answer that is not 2xx. `headers` are those that belong to the refusal itself."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: Sequence[FieldError | str] = (),
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})

    def as_json(self) -> dict[str, object]:
        body: dict[str, object] = {"message": self.message}
        if self.errors:
            body["errors"] = [e if isinstance(e, str) else e.as_json() for e in self.errors]
        return {
            **body,
            "documentation_url": DOCUMENTATION,
            "status": str(self.status),
            **self.extra,
        }


def not_found() -> Refusal:
    """What is absent and what the token may not see look the same, as at GitHub."""
    return Refusal(404, "Not Found")


def gone(message: str) -> Refusal:
    return Refusal(410, message)


def forbidden(message: str) -> Refusal:
    return Refusal(403, message)


def bad_credentials() -> Refusal:
    return Refusal(401, "Bad credentials")


def authentication_needed() -> Refusal:
    return Refusal(401, "Requires authentication")


def out_of_reach(*, app: bool) -> Refusal:
    """The token exists but lacks the permission; GitHub names the kind of token."""
    kind = "integration" if app else "personal access token"
    return forbidden(f"Resource not accessible by {kind}")


def archived() -> Refusal:
    return forbidden("Repository was archived so is read-only.")


def locked() -> Refusal:
    return forbidden("Unable to create comment because issue is locked.")


def issues_disabled() -> Refusal:
    return gone("Issues has been disabled in this repository.")


def deleted() -> Refusal:
    return gone("This issue was deleted")


def moved(location: str) -> Refusal:
    """301 of a transferred issue; clients keep the method and go to `location` (absolute)."""
    return Refusal(
        301, "Moved Permanently", headers={"Location": location}, extra={"url": location}
    )


def invalid(*errors: FieldError | str) -> Refusal:
    return Refusal(422, "Validation Failed", errors=errors)


def invalid_request(detail: str) -> Refusal:
    """422 of a body that breaks the request's schema: wrong type, missing key."""
    return Refusal(422, f"Invalid request.\n\n{detail}")


def primary_limit(status: int, who: str, headers: Mapping[str, str]) -> Refusal:
    """Budget of the hour used up. PyGithub looks for the beginning of this text."""
    return Refusal(status, f"API rate limit exceeded for {who}.", headers=headers)


def secondary_limit(status: int, headers: Mapping[str, str]) -> Refusal:
    """Too much at once. PyGithub looks for the beginning of this text, or for its end."""
    return Refusal(
        status,
        "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
        headers=headers,
    )
