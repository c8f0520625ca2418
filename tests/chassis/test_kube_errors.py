"""What the Kubernetes API refuses becomes the error that says whether to try again."""

from datetime import timedelta
from typing import Any

import orjson
import pytest

from chassis.errors import PermanentError, TemporaryError
from chassis.kube_client import (
    AlreadyExists,
    Conflict,
    EvictionRefused,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
    error_from_answer,
    error_from_status,
)

BUDGET = {"causes": [{"reason": "DisruptionBudget", "message": "needs 1"}]}


@pytest.mark.parametrize(
    ("code", "status", "expected", "base"),
    [
        (400, {"reason": "BadRequest"}, Invalid, PermanentError),
        (401, {"reason": "Unauthorized"}, Unauthorized, TemporaryError),
        (403, {"reason": "Forbidden"}, Forbidden, PermanentError),
        (404, {"reason": "NotFound"}, NotFound, PermanentError),
        (405, {}, Invalid, PermanentError),
        (408, {}, Unavailable, TemporaryError),
        (409, {"reason": "AlreadyExists"}, AlreadyExists, PermanentError),
        (409, {"reason": "Conflict"}, Conflict, TemporaryError),
        (410, {"reason": "Expired"}, Expired, TemporaryError),
        (410, {"reason": "Gone"}, Expired, TemporaryError),
        (413, {}, Invalid, PermanentError),
        (422, {"reason": "Invalid"}, Invalid, PermanentError),
        (429, {"reason": "TooManyRequests"}, Throttled, TemporaryError),
        (429, {"reason": "TooManyRequests", "details": BUDGET}, EvictionRefused, TemporaryError),
        (500, {"reason": "InternalError"}, Unavailable, TemporaryError),
        (503, {"reason": "ServiceUnavailable"}, Unavailable, TemporaryError),
        (504, {"reason": "Timeout"}, Unavailable, TemporaryError),
        (302, {}, Invalid, PermanentError),
        (599, {}, Unavailable, TemporaryError),
    ],
)
def test_a_code_and_a_reason_become_one_error(
    code: int, status: dict[str, Any], expected: type[Exception], base: type[Exception]
) -> None:
    error = error_from_answer(code, orjson.dumps(status))

    assert type(error) is expected
    assert isinstance(error, base)
    assert error.status == code
    assert error.reason == status.get("reason", error.reason)
    assert error.reason


def test_the_message_names_the_call_the_code_and_what_the_server_said() -> None:
    body = orjson.dumps({"reason": "NotFound", "message": 'nodes "n1" not found'})

    error = error_from_answer(404, body, what="GET /api/v1/nodes/n1")

    assert str(error) == 'GET /api/v1/nodes/n1: 404 NotFound: nodes "n1" not found'


@pytest.mark.parametrize(
    "body", [b"", b"<html>Bad gateway", b"\xff\xfe", b"null", b"[1]", b'{"details": 7}'], ids=repr
)
def test_an_answer_that_is_no_status_object_is_an_error_all_the_same(body: bytes) -> None:
    error = error_from_answer(502, body)

    assert type(error) is Unavailable
    assert error.reason == "BadGateway"


@pytest.mark.parametrize(
    ("header", "details", "expected"),
    [
        ("7", {}, timedelta(seconds=7)),
        (None, {"retryAfterSeconds": 3}, timedelta(seconds=3)),
        ("7", {"retryAfterSeconds": 3}, timedelta(seconds=7)),
        ("Wed, 21 Oct 2026 07:28:00 GMT", {}, None),
        ("-1", {}, None),
        ("9" * 30, {}, None),
        ("86400", {}, timedelta(minutes=10)),
        (None, {}, None),
    ],
)
def test_the_wait_that_the_server_asks_for_is_understood_and_bounded(
    header: str | None, details: dict[str, Any], expected: timedelta | None
) -> None:
    error = error_from_status(429, {"details": details}, header)

    assert isinstance(error, Throttled)
    assert error.retry_after == expected


@pytest.mark.parametrize(("code", "expected"), [(500, True), (504, True), (409, False)])
def test_only_a_server_error_leaves_open_whether_a_write_happened(
    code: int, *, expected: bool
) -> None:
    assert error_from_answer(code, b"{}").may_have_happened is expected
