"""Kubernetes' `Status` objects: every way in which the API server says no, and its short yes after a deletion.

Words, reasons and codes are those of kube-apiserver 1.36. Nothing here decides; the other modules do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from chassis.errors import PermanentError
from sandbox.kubernetes_rules.resources import ResourceType

RETRY_AFTER = "retryAfterSeconds"


class CauseReason(StrEnum):
    """The `reason` of one entry of `details.causes`."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    DUPLICATE = "FieldValueDuplicate"
    NOT_FOUND = "FieldValueNotFound"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"
    DISRUPTION_BUDGET = "DisruptionBudget"


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing wrong with an object; `field` is its path, as in `spec.containers[0].name`."""

    reason: CauseReason
    message: str
    field: str = ""

    def as_json(self) -> dict[str, str]:
        entry = {"reason": str(self.reason), "message": self.message}
        return {**entry, "field": self.field} if self.field else entry


class Refusal(PermanentError):  # noqa: N818  (the domain's word)
    """An answer that is not 2xx. `status` is the body, `code` the HTTP status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.reason = reason
        self.status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            **({"reason": reason} if reason else {}),
            **({"details": dict(details)} if details is not None else {}),
            "code": code,
        }

    @property
    def retry_after(self) -> int | None:
        """Seconds for the header `Retry-After`; None when the answer has none."""
        seconds = self.status.get("details", {}).get(RETRY_AFTER)
        return int(seconds) if seconds is not None else None


def _about(kind: ResourceType, name: str, word: str | None = None) -> dict[str, Any]:
    """`details` that name an object; `word` is the kind where the real server writes that."""
    details: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    return {**details, "kind": word or kind.plural}


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def unauthorized() -> Refusal:
    return Refusal(401, "Unauthorized", "Unauthorized")


def forbidden(kind: ResourceType, name: str, why: str) -> Refusal:
    named = f' "{name}"' if name else ""
    message = f"{kind.qualified_plural}{named} is forbidden: {why}"
    return Refusal(403, "Forbidden", message, _about(kind, name))


def denied(webhook: str, status: Mapping[str, Any]) -> Refusal:
    """An admission webhook said no; `status` is its `response.status`."""
    told = status.get("message") or status.get("reason")
    because = f"denied the request: {told}" if told else "denied the request without explanation"
    message = f'admission webhook "{webhook}" {because}'
    code = int(status.get("code") or 400)
    return Refusal(code, str(status.get("reason") or ""), message, status.get("details"))


def no_such_path() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def not_found(kind: ResourceType, name: str) -> Refusal:
    message = f'{kind.qualified_plural} "{name}" not found'
    return Refusal(404, "NotFound", message, _about(kind, name))


def method_not_allowed() -> Refusal:
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, {})


def already_exists(kind: ResourceType, name: str) -> Refusal:
    message = f'{kind.qualified_plural} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, _about(kind, name))


def name_taken(kind: ResourceType, name: str) -> Refusal:
    """The suffix made for a generateName is taken; clients may try again."""
    message = (
        f'{kind.qualified_plural} "{name}" already exists, the server was not able to generate'
        " a unique name for the object"
    )
    return Refusal(409, "AlreadyExists", message, _about(kind, name))


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(
    kind: ResourceType, name: str, why: str = MODIFIED, *, word: str | None = None
) -> Refusal:
    message = f'Operation cannot be fulfilled on {word or kind.qualified_plural} "{name}": {why}'
    return Refusal(409, "Conflict", message, _about(kind, name, word))


def expired(message: str = "The resourceVersion for the provided watch is too old.") -> Refusal:
    return Refusal(410, "Expired", message)


def too_old(asked: int, oldest: int) -> Refusal:
    """A watch from a resourceVersion that history no longer holds."""
    return expired(f"too old resource version: {asked} ({oldest})")


def continue_expired() -> Refusal:
    return expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list"
        " without the continue parameter."
    )


def unsupported_media_type(accepted: Iterable[str]) -> Refusal:
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return Refusal(415, "UnsupportedMediaType", message)


def invalid(kind: ResourceType, name: str, causes: Iterable[Cause]) -> Refusal:
    """422 with all that is wrong, said once in `message` and once an entry in `details.causes`."""
    found = tuple(causes)
    lines = [f"{each.field}: {each.message}" for each in found]
    told = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    details = {**_about(kind, name, kind.kind), "causes": [each.as_json() for each in found]}
    return Refusal(422, "Invalid", f'{kind.qualified_kind} "{name}" is invalid: {told}', details)


def unprocessable() -> Refusal:
    """A JSON patch that cannot be applied; the real server says no more than this either."""
    message = "the server rejected our request due to an error in our request"
    return Refusal(422, "Invalid", message, {})


def too_many_requests(retry_after: int = 1) -> Refusal:
    """Throttled (not an eviction refused: that is `eviction_refused`)."""
    message = "The server has received too many requests and has asked us to try again later."
    return Refusal(429, "TooManyRequests", message, {RETRY_AFTER: retry_after})


def eviction_refused(why: str, retry_after: int | None = None) -> Refusal:
    cause = Cause(CauseReason.DISRUPTION_BUDGET, why)
    details: dict[str, Any] = {"causes": [cause.as_json()]}
    if retry_after is not None:
        details[RETRY_AFTER] = retry_after
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return Refusal(429, "TooManyRequests", message, details)


def eviction_impossible() -> Refusal:
    return Refusal(
        500,
        "",
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    )


def internal_error(why: str) -> Refusal:
    details = {"causes": [{"message": why}]}
    message = f"Internal error occurred: {why}"
    return Refusal(500, "InternalError", message, details)


def service_unavailable(
    message: str = "the server is currently unable to handle the request",
) -> Refusal:
    return Refusal(503, "ServiceUnavailable", message, {})


def deleted(kind: ResourceType, name: str, uid: str) -> dict[str, Any]:
    """What DELETE answers when the object is gone at once (pods and some others answer the object itself)."""
    details = {**_about(kind, name), "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


def evicted() -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
