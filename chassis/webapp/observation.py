"""What each request leaves behind: an id in log and answer, a count and a duration.

Label values are bounded: the route's template, a known method, the status. Must not look at bodies.
"""

import re
import time
import uuid

import structlog
from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram

_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def install_request_ids(app: Flask) -> None:
    """Give each request an id: the client's `X-Request-ID` when it is harmless, else a new one."""

    def bind() -> None:
        given = request.headers.get("X-Request-ID", "")
        g.request_id = given if _SANE_ID.fullmatch(given) else uuid.uuid4().hex
        g.started = time.perf_counter()
        # Threads serve many requests: whatever an earlier one left bound goes.
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=g.request_id)

    def give_back(response: Response) -> Response:
        response.headers["X-Request-ID"] = g.request_id
        return response

    def unbind(_error: BaseException | None) -> None:
        structlog.contextvars.clear_contextvars()

    app.before_request(bind)
    app.after_request(give_back)
    app.teardown_request(unbind)


def install_request_metrics(app: Flask, prefix: str, registry: CollectorRegistry) -> None:
    """`<prefix>_http_requests_total` and `<prefix>_http_request_duration_seconds`."""
    requests = Counter(
        f"{prefix}_http_requests",
        "Answered HTTP requests.",
        ("handler", "method", "code"),
        registry=registry,
    )
    durations = Histogram(
        f"{prefix}_http_request_duration_seconds",
        "From the request's headers to the answer, the body included.",
        ("handler", "method"),
        buckets=_BUCKETS,
        registry=registry,
    )

    def count(response: Response) -> Response:
        handler = request.url_rule.rule if request.url_rule is not None else "unmatched"
        method = request.method if request.method in _METHODS else "other"
        requests.labels(handler, method, str(response.status_code)).inc()
        durations.labels(handler, method).observe(time.perf_counter() - g.started)
        return response

    app.after_request(count)
