"""The WSGI application of the admission port: POST, a bound on the body, JSON out, and never a crash.

Not Flask: an API server waits for each answer, and three fixed paths need no router. Health and
metrics are on a port of their own. Must not decide anything about a pod.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

import orjson
from structlog.typing import FilteringBoundLogger

from gpu_admission.metrics import ReviewMetrics
from gpu_admission.review import Malformed, Review, answer, read
from gpu_admission.webhook.desk import Desk, Told

_JSON = "application/json"
_CHUNK = 64 * 1024
_DRAIN = 32 * 1024 * 1024

StartResponse = Callable[[str, list[tuple[str, str]]], object]


class _Refused(Exception):  # noqa: N818 (a refusal is an answer, not a fault)
    def __init__(self, status: HTTPStatus, reason: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.text = text


class AdmissionApplication:
    """Answers AdmissionReviews at the desk's paths."""

    def __init__(
        self,
        desk: Desk,
        *,
        max_body_bytes: int,
        metrics: ReviewMetrics,
        log: FilteringBoundLogger,
    ) -> None:
        """Takes calls from many threads at once."""
        self._desk = desk
        self._endpoints: Mapping[str, Callable[[Review], Told]] = desk.endpoints()
        self._limit = max_body_bytes
        self._metrics = metrics
        self._log = log

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        endpoint = path if path in self._endpoints else "unmatched"
        try:
            body = self._answer(environ, endpoint)
        except _Refused as refused:
            self._metrics.refused_body(endpoint, refused.reason)
            self._log.warning(
                "review_refused", path=endpoint, reason=refused.reason, error=refused.text
            )
            status = refused.status
            body = _error(refused.reason, refused.text)
        except Exception:  # noqa: BLE001 - logged whole; the API server gets an honest 500
            self._metrics.refused_body(endpoint, "internal_error")
            self._log.exception("review_failed", path=endpoint)
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            body = _error("internal_error", "internal error; the log of gpu_admission has it")
        else:
            status = HTTPStatus.OK
        headers = [("Content-Type", _JSON), ("Content-Length", str(len(body)))]
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", "POST"))
        start_response(f"{status.value} {status.phrase}", headers)
        return [body]

    def _answer(self, environ: dict[str, Any], endpoint: str) -> bytes:
        if endpoint not in self._endpoints:
            paths = ", ".join(self._endpoints)
            raise _Refused(HTTPStatus.NOT_FOUND, "not_found", f"admission is served at {paths}")
        if environ.get("REQUEST_METHOD") != "POST":
            raise _Refused(
                HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", "POST an AdmissionReview"
            )
        raw = self._body(environ)
        started = time.perf_counter()
        review = read(raw)
        if isinstance(review, Malformed):
            raise _Refused(HTTPStatus.BAD_REQUEST, "malformed_review", review.text)
        if not self._desk.open:
            raise _Refused(
                HTTPStatus.SERVICE_UNAVAILABLE, "no_catalogue", "no catalogue could be read yet"
            )
        told = self._endpoints[endpoint](review)
        out = answer(review, told.answer)
        self._metrics.review(endpoint, told.outcome, told.reason, time.perf_counter() - started)
        return out

    def _body(self, environ: dict[str, Any]) -> bytes:
        stream = environ["wsgi.input"]
        declared = environ.get("CONTENT_LENGTH") or ""
        if declared.isdigit():
            if int(declared) <= self._limit:
                whole: bytes = stream.read(int(declared))
                return whole
            self._too_large(stream)
        return self._bounded(stream)

    def _bounded(self, stream: Any) -> bytes:
        parts: list[bytes] = []
        left = self._limit
        while part := stream.read(_CHUNK):
            left -= len(part)
            if left < 0:
                self._too_large(stream)
            parts.append(part)
        return b"".join(parts)

    def _too_large(self, stream: Any) -> None:
        """A client that still sends when the connection closes would see a reset, not the answer."""
        left = _DRAIN
        while left > 0 and (part := stream.read(_CHUNK)):
            left -= len(part)
        raise _Refused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "body_too_large",
            f"the body is larger than max_body_bytes ({self._limit})",
        )


def _error(reason: str, text: str) -> bytes:
    return orjson.dumps({"error": text, "reason": reason}, option=orjson.OPT_APPEND_NEWLINE)
