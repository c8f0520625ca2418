"""The answer to a scrape: the registry's text and, behind it, what the service rendered itself.

Sent or compressed piece by piece, so that a large exposition is never in memory twice. Must not know any metric.
"""

import zlib
from collections.abc import Callable, Iterable

from flask import Response, request
from prometheus_client import CollectorRegistry, generate_latest

from chassis.serving import Pieces

MetricsHook = Callable[[], bytes | Iterable[bytes]]
"""Gives text exposition (format 0.0.4) in one piece or many; each piece ends with a whole line."""

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FAST = 1  # a scrape is compressed each time; level 1 costs a third of level 6
_GZIP = 31  # zlib's number for a gzip stream with the largest window


def answer_scrape(registry: CollectorRegistry, hook: MetricsHook | None) -> Response:
    """The exposition, with gzip when the client takes it."""
    rendered = hook() if hook is not None else b""
    given = [rendered] if isinstance(rendered, bytes) else rendered
    pieces = Pieces([generate_latest(registry), *given])
    if request.accept_encodings.quality("gzip") > 0:
        response = Response(_compressed(pieces), content_type=_CONTENT_TYPE)
        response.headers["Content-Encoding"] = "gzip"
    else:
        response = Response(pieces, content_type=_CONTENT_TYPE, direct_passthrough=True)
        response.content_length = pieces.size
    response.headers["Vary"] = "Accept-Encoding"
    return response


def _compressed(pieces: Pieces) -> bytes:
    stream = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP)
    # In large parts: zlib lets other threads run only while it has much to do.
    packed = [stream.compress(group) for group in pieces.groups()]
    return b"".join([*packed, stream.flush()])
