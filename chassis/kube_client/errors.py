"""What the Kubernetes API refuses, as errors that say whether to try again.

Pure: from a status code and a body to an error. The body is a `Status` object
(Kubernetes API conventions, "Response Status Kind"), or whatever a proxy in between wrote.
"""

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import orjson

from chassis.errors import PermanentError, TemporaryError

_DISRUPTION_BUDGET = "DisruptionBudget"  # the cause's type in a Status about a refused eviction
_LONGEST_MESSAGE = 500
_MOST_WAIT = timedelta(minutes=10)


class KubeTemporaryError(TemporaryError):
    """The API said, or could not say, something that may change by itself.

    `status` is the HTTP code (0: no answer), `reason` the machine-readable one, `details` the
    Status object's, `may_have_happened` whether a write may have taken effect all the same.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str,
        details: Mapping[str, Any] | None = None,
        retry_after: timedelta | None = None,
        may_have_happened: bool = False,
    ) -> None:
        super().__init__(message, retry_after=retry_after)
        self.status = status
        self.reason = reason
        self.details: Mapping[str, Any] = details or {}
        self.may_have_happened = may_have_happened


class KubePermanentError(PermanentError):
    """The API refused, and will refuse again. Fields as in `KubeTemporaryError`."""

    may_have_happened = False

    def __init__(
        self, message: str, *, status: int, reason: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.details: Mapping[str, Any] = details or {}


# The names below are Kubernetes' own words, hence no "Error" at their end.


class Conflict(KubeTemporaryError):  # noqa: N818
    """409: the object has changed since it was read, or a precondition does not hold."""


class Expired(KubeTemporaryError):  # noqa: N818
    """410: the resourceVersion or continue token is older than what the server remembers."""


class Throttled(KubeTemporaryError):  # noqa: N818
    """429: the server has too much to do; `retry_after` is what it asked for."""


class EvictionRefused(KubeTemporaryError):  # noqa: N818
    """429 to an eviction: a PodDisruptionBudget does not allow it now. Nothing is overloaded."""


class Unauthorized(KubeTemporaryError):  # noqa: N818
    """401: the credentials are not accepted; temporary, as tokens rotate."""


class Unavailable(KubeTemporaryError):  # noqa: N818
    """No usable answer: refused or broken connection, timeout, 5xx."""


class AlreadyExists(KubePermanentError):  # noqa: N818
    """409: there is an object of this name."""


class NotFound(KubePermanentError):  # noqa: N818
    """404: no such object, or no such resource type."""


class Forbidden(KubePermanentError):  # noqa: N818
    """403: RBAC, admission or a quota says no."""


class Invalid(KubePermanentError):  # noqa: N818
    """400, 422 or another 4xx: the request itself is wrong."""


KubeError = KubeTemporaryError | KubePermanentError

_TEMPORARY: dict[int, type[KubeTemporaryError]] = {
    HTTPStatus.UNAUTHORIZED: Unauthorized,
    HTTPStatus.REQUEST_TIMEOUT: Unavailable,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.GONE: Expired,
    HTTPStatus.TOO_MANY_REQUESTS: Throttled,
}
_PERMANENT: dict[int, type[KubePermanentError]] = {
    HTTPStatus.FORBIDDEN: Forbidden,
    HTTPStatus.NOT_FOUND: NotFound,
}


def error_from_answer(
    code: int, body: bytes, retry_after: str | None = None, *, what: str = ""
) -> KubeError:
    """The error that an answer with a code of 300 or more stands for.

    Args:
        code: The HTTP status.
        body: The answer's body.
        retry_after: The header of that name; only seconds are understood, as the API sends them.
        what: The call, such as `PATCH /api/v1/nodes/n1`, for the message.
    """
    return error_from_status(code, _status_object(body), retry_after, what=what)


def error_from_status(
    code: int, status: Mapping[str, Any], retry_after: str | None = None, *, what: str = ""
) -> KubeError:
    """As `error_from_answer`, from a decoded Status object, as a watch's ERROR event holds one."""
    reason = _text(status.get("reason")) or _phrase(code)
    details = status.get("details")
    details = details if isinstance(details, Mapping) else {}
    message = f"{what}: {code} {reason}: {_text(status.get('message'))}".removeprefix(": ")
    message = message[:_LONGEST_MESSAGE].rstrip(": ")
    permanent = _permanent_class(code, reason)
    if permanent is not None:
        return permanent(message, status=code, reason=reason, details=details)
    return _temporary_class(code, details)(
        message,
        status=code,
        reason=reason,
        details=details,
        retry_after=_wait(retry_after, details),
        may_have_happened=code >= HTTPStatus.INTERNAL_SERVER_ERROR,
    )


def _permanent_class(code: int, reason: str) -> type[KubePermanentError] | None:
    if code == HTTPStatus.CONFLICT and reason == "AlreadyExists":
        return AlreadyExists
    refused = HTTPStatus.MULTIPLE_CHOICES <= code < HTTPStatus.INTERNAL_SERVER_ERROR
    if code in _TEMPORARY or not refused:
        return None
    return _PERMANENT.get(code, Invalid)


def _temporary_class(code: int, details: Mapping[str, Any]) -> type[KubeTemporaryError]:
    if code == HTTPStatus.TOO_MANY_REQUESTS and has_cause(details, _DISRUPTION_BUDGET):
        return EvictionRefused
    return _TEMPORARY.get(code, Unavailable)


def has_cause(details: Mapping[str, Any], kind: str) -> bool:
    """Whether a Status object's details name a cause of this type (its `reason` field)."""
    causes = details.get("causes")
    if not isinstance(causes, list):
        return False
    return any(isinstance(each, Mapping) and each.get("reason") == kind for each in causes)


def _wait(header: str | None, details: Mapping[str, Any]) -> timedelta | None:
    seconds: Any = header if header is not None else details.get("retryAfterSeconds")
    try:
        wait = timedelta(seconds=int(seconds))
    except (TypeError, ValueError, OverflowError):
        return None
    return min(wait, _MOST_WAIT) if wait > timedelta(0) else None


def _status_object(body: bytes) -> Mapping[str, Any]:
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        # Not the API but something in front of it; the text's beginning helps to see what.
        return {"message": body[:200].decode("utf-8", "replace").strip()}
    return decoded if isinstance(decoded, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase.replace(" ", "")
    except ValueError:
        return "Unknown"
