"""Logs and metrics of a service: one line an event, one registry of its own.

Used by `__main__` once at the start; everything else gets its logger and registry handed in.
Must not decide what is logged or counted, and must not let a secret through.
"""

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO, cast

import structlog
from prometheus_client import CollectorRegistry, Info, PlatformCollector, ProcessCollector
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

MASK = "[redacted]"

_SECRET_KEY = re.compile(
    r"(?:^|[_.-])(?:token|password|passwd|secret|authorization|cookie|credentials?"
    r"|private[_-]?key|api[_-]?key)s?$",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"(?P<scheme>\b(?:bearer|basic|token)\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|\bgh[opsur]_[A-Za-z0-9]{16,}"
    r"|\bgithub_pat_\w{16,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?P<url>\b[a-z][a-z0-9+.-]*://)[^\s/@]+@",
    re.IGNORECASE | re.DOTALL,
)


def redact_text(text: str) -> str:
    """Mask what looks like a credential inside a text: bearer values, GitHub tokens, URL users."""
    return _SECRET_TEXT.sub(_masked, text)


def _masked(found: re.Match[str]) -> str:
    if found["url"]:
        return f"{found['url']}{MASK}@"
    return f"{found['scheme'] or ''}{MASK}"


def _redacted(key: str, value: Any) -> Any:
    if isinstance(value, str):
        return MASK if _SECRET_KEY.search(key) else redact_text(value)
    if isinstance(value, bytes):
        return MASK  # whole bodies and keys; nothing else here is bytes
    if isinstance(value, Mapping):
        return {inner: _redacted(str(inner), each) for inner, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_redacted(key, each) for each in value]
    return value


def redact_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The last safety net of the log: no code should count on it, it only limits an accident."""
    return {key: _redacted(key, value) for key, value in event.items()}


def configure_logging(
    *, stream: TextIO = sys.stderr, json: bool | None = None, level: str = "info"
) -> None:
    """Send all logs of this process, those of libraries included, to `stream`, one line each.

    Args:
        stream: Where to; the default is standard error.
        json: One JSON object a line; None means JSON unless `stream` is a terminal.
        level: debug, info, warning, error or critical; libraries speak from warning on.

    Raises:
        ValueError: The level has another name.
    """
    threshold = logging.getLevelNamesMapping().get(level.upper())
    if threshold is None:
        raise ValueError(f"no log level {level!r}: use debug, info, warning, error or critical")
    shared = _shared_processors()
    render = _renderers(as_json=not stream.isatty() if json is None else json)
    structlog.configure(
        processors=[*shared, *render],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    _capture_libraries(stream, shared, render, max(threshold, logging.WARNING))


def _shared_processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _renderers(*, as_json: bool) -> list[Processor]:
    # The traceback becomes text first: a renderer of structures would add local variables,
    # and those hold secrets.
    last: Processor = (
        structlog.processors.JSONRenderer(default=str)
        if as_json
        else structlog.dev.ConsoleRenderer()
    )
    return [structlog.processors.format_exc_info, redact_secrets, last]


def _capture_libraries(
    stream: TextIO, shared: list[Processor], render: list[Processor], threshold: int
) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)


def get_logger(name: str) -> FilteringBoundLogger:
    """The logger of one part; `name` becomes the field `component`. Cheap, needs no configuration."""
    return cast("FilteringBoundLogger", structlog.get_logger(component=name))


def new_registry(service: str, version: str) -> CollectorRegistry:
    """A registry of its own, with process and platform metrics and `<service>_build_info`.

    Args:
        service: The metric prefix of the service, such as `alerts2gh`.
        version: What `--version` prints.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    build = Info(f"{service}_build", "The version that runs.", registry=registry)
    build.info({"version": version})
    return registry
