"""Runs a service of exporters in the foreground, and gives it its HTTP server.

The same for all of them. Must not know what a service does.
"""

from pathlib import Path
from typing import TextIO, TypeVar

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from chassis import running
from chassis.config import Settings
from chassis.serving import Server, ServingSettings
from chassis.webapp import MetricsHook, Readiness, create_app

PREFIX = "nodemend"
"""The metric prefix of all services of exporters; the job tells them apart."""
_MAX_BODY = 64 * 1024  # nothing is posted here

M = TypeVar("M", bound=Settings)


def run_service(
    name: str, file: Path, model: type[M], make: running.Make[M], *, version: str, err: TextIO
) -> int:
    """Run the sub-command `name` until SIGTERM or SIGINT; 0, or 2 when it cannot start."""
    return running.run_service(
        file, model, make, running.Program(f"exporters {name}", PREFIX, version, err)
    )


def metrics_server(
    serving: ServingSettings,
    registry: CollectorRegistry,
    log: FilteringBoundLogger,
    *,
    readiness: Readiness,
    metrics_hook: MetricsHook | None = None,
) -> Server:
    """A server of health and metrics, open to everybody; not started yet."""
    app = create_app(
        PREFIX,
        registry=registry,
        log=log,
        max_body_bytes=_MAX_BODY,
        auth=None,
        readiness=readiness,
        metrics_hook=metrics_hook,
    )
    return Server(app, serving, log, registry, service=PREFIX)
