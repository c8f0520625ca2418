"""Builds a service's Flask application with what all services share.

    /healthz   200 while the process can answer
    /readyz    503 with every check that says why not
    /metrics   the registry and, behind it, raw exposition bytes of the service

Must not know any service's routes.
"""

from collections.abc import Callable, Mapping

from flask import Flask, Response
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from chassis.webapp.answers import error_answer, install_error_answers
from chassis.webapp.authentication import AuthSettings, install_authentication
from chassis.webapp.body_limit import install_body_limit
from chassis.webapp.exposition import MetricsHook, answer_scrape
from chassis.webapp.observation import install_request_ids, install_request_metrics

Readiness = Mapping[str, Callable[[], str | None]]
"""By name, checks that return None when all is well and otherwise a text that says why not."""


def create_app(  # noqa: PLR0913 (one call in each service's composition)
    name: str,
    *,
    registry: CollectorRegistry,
    log: FilteringBoundLogger,
    max_body_bytes: int,
    auth: AuthSettings | None,
    protected_prefixes: tuple[str, ...] = ("/v1",),
    readiness: Readiness | None = None,
    metrics_hook: MetricsHook | None = None,
) -> Flask:
    """A Flask application with health, metrics, authentication, limits and one error shape.

    Args:
        name: The service's package; also the prefix of its metrics.
        registry: What /metrics shows; gets the request metrics.
        log: Gets refusals and unexpected errors, with the request id bound.
        max_body_bytes: A larger body is a 413.
        auth: Who may call below `protected_prefixes`; None for anybody.
        protected_prefixes: Paths such as `/v1` that need a credential.
        readiness: The checks behind /readyz.
        metrics_hook: Text exposition (format 0.0.4) that /metrics appends as it is, in one
            piece or many.
    """
    app = Flask(name, static_folder=None)
    install_error_answers(app, log)
    install_request_ids(app)
    install_request_metrics(app, name.replace("-", "_"), registry)
    if auth is not None:
        install_authentication(app, auth, protected_prefixes, log)
    install_body_limit(app, max_body_bytes)
    app.add_url_rule("/healthz", "healthz", lambda: Response("ok\n", content_type="text/plain"))
    app.add_url_rule("/readyz", "readyz", lambda: _ready(readiness or {}, log))
    app.add_url_rule("/metrics", "metrics", lambda: answer_scrape(registry, metrics_hook))
    return app


def _ready(readiness: Readiness, log: FilteringBoundLogger) -> Response:
    failing = [
        f"{name}: {why}"
        for name, check in readiness.items()
        if (why := _why_not(name, check, log)) is not None
    ]
    if failing:
        return error_answer(503, "not_ready", "not ready: " + "; ".join(failing))
    return Response("ok\n", content_type="text/plain")


def _why_not(name: str, check: Callable[[], str | None], log: FilteringBoundLogger) -> str | None:
    try:
        return check()
    except Exception as error:
        log.exception("readiness_check_broke", check=name)
        return f"the check itself failed ({type(error).__name__})"
