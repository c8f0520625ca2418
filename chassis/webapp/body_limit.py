"""No body larger than the limit reaches a handler, and none is cut to fit.

Werkzeug's own limit is not used: of a chunked body it hands out the first bytes up to the limit as if
they were the whole. Must not read anything before authentication has passed.
"""

from typing import Any

from flask import Flask, request
from werkzeug.exceptions import RequestEntityTooLarge

_DRAIN_BYTES = 32 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024


class _Bounded:
    """The `read` of a WSGI input of unknown length, that fails instead of passing the limit."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream = stream
        self._left = limit

    def read(self, size: int = -1) -> bytes:
        wanted = self._left + 1 if size < 0 else min(size, self._left + 1)
        parts: list[bytes] = []
        while wanted > 0 and (part := self._stream.read(min(wanted, _CHUNK_BYTES))):
            parts.append(part)
            wanted -= len(part)
            self._left -= len(part)
            if self._left < 0:
                raise RequestEntityTooLarge
        return b"".join(parts)


def install_body_limit(app: Flask, max_body_bytes: int) -> None:
    """Refuse a body over the limit: when it is declared at once, else when it is read."""

    def limit() -> None:
        length = request.content_length
        if length is None:
            stream = request.environ["wsgi.input"]
            request.environ["wsgi.input"] = _Bounded(stream, max_body_bytes)
            request.environ["nodemend.input"] = stream
        elif length > max_body_bytes:
            raise RequestEntityTooLarge

    app.before_request(limit)


def drain_body() -> None:
    """Take in the rest of a body that is too large, up to a bound.

    A client that is still sending when the connection closes sees a reset in place of the answer.
    """
    environ: dict[str, Any] = request.environ
    stream = environ.get("nodemend.input", environ["wsgi.input"])
    left = _DRAIN_BYTES
    while left > 0 and (chunk := stream.read(_CHUNK_BYTES)):
        left -= len(chunk)
