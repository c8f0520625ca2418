"""chassis.webapp: one error shape, request ids, health, metrics."""

import gzip
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import structlog
from flask import Flask, abort, request
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge
from structlog.testing import capture_logs
from werkzeug.test import EnvironBuilder, run_wsgi_app

from chassis.errors import PermanentError, TemporaryError
from chassis.webapp import RequestRefused, create_app

LIMIT = 100


def an_app(registry: CollectorRegistry | None = None, **changed: Any) -> Flask:
    settings: dict[str, Any] = {"max_body_bytes": LIMIT, "auth": None, **changed}
    return create_app(
        "my-service",
        registry=registry or CollectorRegistry(),
        log=structlog.get_logger(),
        **settings,
    )


def with_route(act: Callable[[], Any], path: str = "/act") -> FlaskClient:
    app = an_app()
    app.add_url_rule(path, "act", act, methods=["GET", "POST"])
    return app.test_client()


def raising(error: BaseException) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


SLOW_DOWN = TemporaryError("the database is away", retry_after=timedelta(seconds=30))
NO_ROUTE = RequestRefused("no route takes it; add one", status=422, reason="no_route")


@pytest.mark.parametrize(
    ("act", "status", "reason", "text"),
    [
        (raising(SLOW_DOWN), 503, "temporary_error", "the database is away"),
        (raising(PermanentError("field x is bad")), 400, "permanent_error", "field x is bad"),
        (raising(NO_ROUTE), 422, "no_route", "no route takes it; add one"),
        (raising(RuntimeError("hunter2")), 500, "internal_error", "internal error"),
        (lambda: abort(415), 415, "unsupported_media_type", "media type"),
        (lambda: abort(404), 404, "not_found", "not found"),
        (lambda: str(request.get_json()), 415, "unsupported_media_type", "application/json"),
        (lambda: 1 / 0, 500, "internal_error", "internal error"),
    ],
    ids=[
        "a temporary error is a 503",
        "a permanent error is a 400",
        "a refusal chooses status and reason",
        "an unexpected error is a 500 without its text",
        "an aborted request keeps its status",
        "a handler's own 404",
        "a body that is no JSON",
        "a bug",
    ],
)
def test_every_error_has_the_one_shape(
    act: Callable[[], Any], status: int, reason: str, text: str
) -> None:
    answer = with_route(act).get("/act")

    assert answer.status_code == status
    assert answer.content_type == "application/json"
    assert answer.json is not None
    assert set(answer.json) == {"error", "reason", "request_id"}
    assert answer.json["reason"] == reason
    assert text in answer.json["error"]
    assert "hunter2" not in answer.text
    assert answer.json["request_id"] == answer.headers["X-Request-ID"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("GET", "/nowhere", b"", 404, "not_found"),
        ("DELETE", "/healthz", b"", 405, "method_not_allowed"),
        ("POST", "/act", b"x" * (LIMIT + 1), 413, "body_too_large"),
        ("GET", "/\x00\xff", b"", 404, "not_found"),
    ],
)
def test_errors_before_any_handler_have_it_too(
    method: str, path: str, body: bytes, status: int, reason: str
) -> None:
    answer = with_route(lambda: "reached").open(path, method=method, data=body)

    assert answer.status_code == status
    assert answer.json is not None
    assert (set(answer.json), answer.json["reason"]) == ({"error", "reason", "request_id"}, reason)


def test_a_405_says_what_is_allowed() -> None:
    answer = an_app().test_client().delete("/healthz")

    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS"}


def test_a_wait_that_the_other_side_asked_for_is_passed_on() -> None:
    assert with_route(raising(SLOW_DOWN)).get("/act").headers["Retry-After"] == "30"


def test_an_unexpected_error_is_logged_with_its_traceback() -> None:
    with capture_logs() as logs:
        with_route(raising(RuntimeError("why"))).get("/act")

    assert [(each["event"], each["log_level"]) for each in logs] == [("request_failed", "error")]
    assert logs[0]["exc_info"]


class Chunks:
    """A WSGI input of unknown length that counts what was taken from it."""

    def __init__(self, size: int) -> None:
        self.left, self.taken = size, 0

    def read(self, size: int = -1) -> bytes:
        given_out = self.left if size < 0 else min(size, self.left)
        self.left -= given_out
        self.taken += given_out
        return b"x" * given_out


def post_chunked(client: FlaskClient, size: int) -> tuple[int, str]:
    builder = EnvironBuilder(path="/act", method="POST")
    environ = builder.get_environ()
    environ.pop("CONTENT_LENGTH", None)
    environ |= {"wsgi.input": Chunks(size), "wsgi.input_terminated": True}
    chunks, status, _ = run_wsgi_app(client.application, environ)
    return int(status[:3]), b"".join(chunks).decode()


@given(st.integers(0, 3 * LIMIT))
def test_a_chunked_body_arrives_whole_or_not_at_all(size: int) -> None:
    client = with_route(lambda: str(len(request.get_data())))

    status, text = post_chunked(client, size)

    assert (status, text) == (200, str(size)) if size <= LIMIT else status == 413


@pytest.mark.parametrize("sane", ["abc-123", "A.b_c-D", "f" * 64])
def test_a_sane_request_id_is_kept(sane: str) -> None:
    answer = an_app().test_client().get("/healthz", headers={"X-Request-ID": sane})

    assert answer.headers["X-Request-ID"] == sane


@pytest.mark.parametrize(
    "bad",
    ["", "a b", "f" * 65, "a\r\nSet-Cookie: x=1", "a\nb", "{json}", "é", '"', "a%0d%0ab"],
)
def test_another_request_id_is_replaced(bad: str) -> None:
    environ = EnvironBuilder(path="/healthz").get_environ() | {"HTTP_X_REQUEST_ID": bad}
    _, _, headers = run_wsgi_app(an_app(), environ)

    assert re.fullmatch("[0-9a-f]{32}", headers["X-Request-ID"])
    assert "Set-Cookie" not in headers


def test_the_request_id_is_bound_to_the_log_while_the_request_runs_only() -> None:
    seen: list[dict[str, Any]] = []

    def look() -> str:
        seen.append(structlog.contextvars.get_contextvars())
        return "seen"

    client = with_route(look)

    client.get("/act", headers={"X-Request-ID": "mine"})

    assert seen == [{"request_id": "mine"}]
    assert structlog.contextvars.get_contextvars() == {}


def test_healthz_answers_whatever_the_checks_say() -> None:
    client = an_app(readiness={"store": lambda: "gone"}).test_client()

    assert client.get("/healthz").status_code == 200


def test_readyz_is_200_when_all_checks_pass() -> None:
    client = an_app(readiness={"store": lambda: None, "watch": lambda: None}).test_client()

    assert client.get("/readyz").status_code == 200


def test_readyz_names_every_failing_check_and_why() -> None:
    readiness = {
        "store": lambda: "the disk is full",
        "watch": lambda: None,
        "lease": raising(RuntimeError("hunter2")),
    }
    with capture_logs() as logs:
        answer = an_app(readiness=readiness).test_client().get("/readyz")

    assert answer.status_code == 503
    assert answer.json is not None
    assert answer.json["reason"] == "not_ready"
    assert answer.json["error"] == (
        "not ready: store: the disk is full; lease: the check itself failed (RuntimeError)"
    )
    assert logs[0]["event"] == "readiness_check_broke"


def a_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Gauge("answer", "Of everything.", registry=registry).set(42)
    return registry


HOOK = b'# TYPE raw gauge\nraw{a="b"} 1\n'


def test_metrics_are_the_registry_and_then_the_raw_bytes() -> None:
    answer = an_app(a_registry(), metrics_hook=lambda: HOOK).test_client().get("/metrics")

    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert "\nanswer 42.0\n" in answer.text
    assert answer.data.endswith(HOOK)


@pytest.mark.parametrize(
    ("accepted", "zipped"),
    [("gzip", True), ("deflate, gzip;q=0.5", True), ("*", True), ("gzip;q=0", False), ("", False)],
)
def test_metrics_are_zipped_when_asked(accepted: str, zipped: bool) -> None:
    client = an_app(a_registry(), metrics_hook=lambda: HOOK).test_client()
    answer = client.get("/metrics", headers={"Accept-Encoding": accepted})

    assert answer.headers.get("Content-Encoding") == ("gzip" if zipped else None)
    assert answer.headers["Vary"] == "Accept-Encoding"
    content = gzip.decompress(answer.data) if zipped else answer.data
    assert content.endswith(HOOK)


def test_a_hook_that_is_not_ready_makes_a_503_not_half_an_exposition() -> None:
    hook = raising(TemporaryError("cache not filled"))

    assert an_app(metrics_hook=hook).test_client().get("/metrics").status_code == 503


def test_requests_are_counted_by_template_never_by_path() -> None:
    registry = CollectorRegistry()
    app = an_app(registry)
    app.add_url_rule("/items/<name>", "item", lambda name: name)
    client = app.test_client()
    for path in ("/items/a", "/items/b", "/nowhere/1", "/nowhere/2"):
        client.get(path)
    client.open("/healthz", method="BREW")

    def count(handler: str, method: str, code: str) -> float | None:
        labels = {"handler": handler, "method": method, "code": code}
        return registry.get_sample_value("my_service_http_requests_total", labels)

    assert count("/items/<name>", "GET", "200") == 2
    assert count("unmatched", "GET", "404") == 2
    assert count("unmatched", "other", "405") == 1
    duration = "my_service_http_request_duration_seconds_count"
    labels = {"handler": "/items/<name>", "method": "GET"}
    assert registry.get_sample_value(duration, labels) == 2


def test_failed_requests_are_counted_too() -> None:
    registry = CollectorRegistry()
    app = an_app(registry)
    app.add_url_rule("/act", "act", raising(RuntimeError("x")))
    app.test_client().get("/act")

    labels = {"handler": "/act", "method": "GET", "code": "500"}
    assert registry.get_sample_value("my_service_http_requests_total", labels) == 1


def test_an_error_answer_is_one_line_of_json() -> None:
    text = an_app().test_client().get("/nowhere").text

    assert text.endswith("}\n")
    assert json.loads(text)["error"]
