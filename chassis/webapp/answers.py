"""The one shape of every error answer: `{"error": text, "reason": word, "request_id": id}`.

`reason` is for machines and stays the same when the text changes. Texts come from our own errors or
from the HTTP standard, never from an unexpected exception. Must not decide what is an error.
"""

from http import HTTPStatus

import orjson
from flask import Flask, Response, g
from structlog.typing import FilteringBoundLogger
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from chassis.errors import PermanentError, TemporaryError
from chassis.webapp.body_limit import drain_body


class RequestRefused(PermanentError):  # noqa: N818 (a refusal is an answer, not a fault)
    """A request that is answered with this status and reason.

    Args:
        message: For the person who reads the sender's log: what is wrong and what to do.
        status: 400 to 499; Alertmanager sends again on 5xx only.
        reason: One machine-readable word, such as `no_route`.
    """

    def __init__(self, message: str, *, status: int = 400, reason: str = "refused") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


def error_answer(status: int, reason: str, message: str) -> Response:
    """The answer for an error, with the id of the request that is being handled."""
    content = {"error": message, "reason": reason, "request_id": g.get("request_id", "")}
    body = orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)
    return Response(body, status, content_type="application/json")


def install_error_answers(app: Flask, log: FilteringBoundLogger) -> None:
    """Answer every exception of `app` in the one shape, and log the ones nobody expected."""

    def refused(error: RequestRefused) -> Response:
        log.info("request_refused", reason=error.reason, status=error.status, error=str(error))
        return error_answer(error.status, error.reason, str(error))

    def permanent(error: PermanentError) -> Response:
        log.info("request_refused", reason="permanent_error", status=400, error=str(error))
        return error_answer(400, "permanent_error", str(error))

    def temporary(error: TemporaryError) -> Response:
        log.warning("request_deferred", error=str(error))
        answer = error_answer(503, "temporary_error", str(error))
        if error.retry_after is not None:
            seconds = max(1, round(error.retry_after.total_seconds()))
            answer.headers["Retry-After"] = str(seconds)
        return answer

    def unexpected(error: Exception) -> Response:
        log.error("request_failed", exc_info=error)
        return error_answer(500, "internal_error", "internal error; the log has it by request_id")

    app.register_error_handler(RequestRefused, refused)
    app.register_error_handler(PermanentError, permanent)
    app.register_error_handler(TemporaryError, temporary)
    app.register_error_handler(HTTPException, _standard_answer)
    app.register_error_handler(Exception, unexpected)


def _standard_answer(error: HTTPException) -> Response | HTTPException:
    status = error.code or 500
    if status < HTTPStatus.BAD_REQUEST:
        return error  # a redirect is no error
    if isinstance(error, RequestEntityTooLarge):
        drain_body()
        return error_answer(status, "body_too_large", "the body is larger than this service takes")
    phrase = HTTPStatus(status).phrase
    answer = error_answer(status, phrase.lower().replace(" ", "_"), error.description or phrase)
    for name, value in error.get_headers():
        if name.lower() != "content-type":
            answer.headers[name] = value  # Allow of a 405, Retry-After
    return answer
