"""AdmissionReview v1: from the bytes of a request to a `Review`, from an `Answer` to bytes.

The only module that knows the wire: base64, uid, status. What it cannot read is a malformed request,
which is something else than a pod that is denied.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

API_VERSION = "admission.k8s.io/v1"
_MALFORMED = 400
_FORBIDDEN = 403
_MAX_WARNING = 250  # the API server cuts warnings so that all together are at most 4,096 characters
_MAX_WARNINGS = 12


@dataclass(frozen=True, slots=True)
class Review:
    """What the API server asks about. `subresource` is empty for the object itself."""

    uid: str
    kind: str
    operation: str
    namespace: str
    name: str
    subresource: str = ""
    dry_run: bool = False
    user: str = ""
    object: Mapping[str, Any] | None = None
    old_object: Mapping[str, Any] | None = None

    @property
    def is_pod_creation(self) -> bool:
        """Whether a new pod is at stake, not a change of one or of its subresources."""
        return self.kind == "Pod" and self.operation == "CREATE" and not self.subresource


@dataclass(frozen=True, slots=True)
class Malformed:
    """A request that is no AdmissionReview v1, and what is wrong with it."""

    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The decision, in the API server's terms. `patch` is a JSON Patch; `code` counts for denials."""

    allowed: bool
    code: int = 200
    text: str = ""
    patch: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)


def read(body: bytes) -> Review | Malformed:
    """Read the body of a webhook call."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return Malformed(f"the body is not JSON: {error}")
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        return Malformed("the body is not an AdmissionReview")
    if review.get("apiVersion") != API_VERSION:
        return Malformed(f"the review's apiVersion must be {API_VERSION}")
    request = review.get("request")
    if not isinstance(request, dict):
        return Malformed("the review has no request")
    uid = request.get("uid")
    if not isinstance(uid, str) or not uid:
        return Malformed("the request has no uid")
    return _review(uid, request)


def _review(uid: str, request: Mapping[str, Any]) -> Review | Malformed:
    kind, user = request.get("kind"), request.get("userInfo")
    texts: dict[str, Any] = {
        "kind": kind.get("kind") if isinstance(kind, dict) else None,
        "operation": request.get("operation"),
        "namespace": request.get("namespace") or "",
        "name": request.get("name") or "",
        "subresource": request.get("subResource") or "",
        "user": (user.get("username") if isinstance(user, dict) else None) or "",
    }
    for name, value in texts.items():
        if not isinstance(value, str):
            return Malformed(f"the request's {name} is not text")
    for name in ("object", "oldObject"):
        if not isinstance(request.get(name), dict | None):
            return Malformed(f"the request's {name} is not a mapping")
    return Review(
        uid,
        **texts,
        dry_run=request.get("dryRun") is True,
        object=request.get("object"),
        old_object=request.get("oldObject"),
    )


def answer(review: Review, decision: Answer) -> bytes:
    """The body of the answer; always a complete review with the request's uid.

    A patch that cannot be written as JSON (parts of a pod nested hundreds deep) is a denial.
    """
    try:
        return _encoded(review, decision)
    except TypeError:
        told = "the pod cannot be changed: parts of it are nested too deeply"
        return _encoded(review, Answer(allowed=False, code=_MALFORMED, text=told))


def _encoded(review: Review, decision: Answer) -> bytes:
    response: dict[str, Any] = {"uid": review.uid, "allowed": decision.allowed}
    if not decision.allowed:
        response["status"] = {
            "status": "Failure",
            "code": decision.code if decision.code >= 400 else _FORBIDDEN,  # noqa: PLR2004 - HTTP
            "message": decision.text,
        }
    elif decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(list(decision.patch))).decode()
    if decision.warnings:
        response["warnings"] = _warnings(decision.warnings)
    if decision.audit_annotations:
        response["auditAnnotations"] = dict(decision.audit_annotations)
    return orjson.dumps(
        {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
    )


def read_answer(body: bytes) -> Answer:
    """An answer as the API server reads it: for benchmarks, replays and tests.

    Raises:
        ValueError: It is no answer.
    """
    try:
        response = orjson.loads(body)["response"]
        status = response.get("status") or {}
        patch = orjson.loads(base64.b64decode(response["patch"])) if "patch" in response else ()
        return Answer(
            allowed=response["allowed"],
            code=status.get("code", 200),
            text=status.get("message", ""),
            patch=tuple(patch),
            warnings=tuple(response.get("warnings", ())),
            audit_annotations=response.get("auditAnnotations", {}),
        )
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise ValueError("the body is no answer to an AdmissionReview") from error


def _warnings(warnings: tuple[str, ...]) -> list[str]:
    return [
        text if len(text) <= _MAX_WARNING else f"{text[: _MAX_WARNING - 3]}..."
        for text in dict.fromkeys(warnings[:_MAX_WARNINGS])
    ]
