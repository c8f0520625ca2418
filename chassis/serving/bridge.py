"""Between granian and a WSGI application: the environ in, one whole answer out.

An answer is always complete before its first byte leaves, so an application that fails half-way
gives an honest 500. The process's environment variables stay out of the environ. Must not know
routes, authentication or limits.
"""

import sys
import threading
import time
from collections.abc import Iterable
from typing import Any
from wsgiref.types import WSGIApplication

from structlog.typing import FilteringBoundLogger

_FAILED = b'{"error":"internal error","reason":"internal_error","request_id":""}\n'
_BASE: dict[str, Any] = {
    "GATEWAY_INTERFACE": "CGI/1.1",
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "nodemend",
    "wsgi.version": (1, 0),
    "wsgi.multithread": True,
    "wsgi.multiprocess": False,
    "wsgi.run_once": False,
}


class _Answer:
    __slots__ = ("headers", "status")

    def __init__(self) -> None:
        self.status = 500
        self.headers: list[tuple[str, str]] = []

    def start(self, status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> Any:
        self.status = int(status[:3])
        self.headers = list(headers)
        return _refuse_write


def _refuse_write(_data: bytes) -> object:
    raise RuntimeError("write() of WSGI 0.x is not supported; return the body")


class Bridge:
    """The callback of one worker. After `retire`, each answer asks its client to reconnect."""

    def __init__(self, app: WSGIApplication, log: FilteringBoundLogger) -> None:
        self._app = app
        self._log = log
        self._base = {**_BASE, "wsgi.errors": sys.stderr}
        self._lock = threading.Lock()
        self._retired = False
        self._running = 0
        self._last = 0.0

    @property
    def running(self) -> int:
        """Requests that are in the application now."""
        return self._running

    def served_within(self, seconds: float) -> bool:
        """Whether a request came in the last `seconds`: its client may send the next any moment."""
        return self._last > 0 and time.monotonic() - self._last < seconds

    def retire(self) -> None:
        self._retired = True

    def __call__(self, protocol: Any, scope: dict[str, Any]) -> None:
        self._count(1)
        try:
            status, headers, body = self._ask(scope)
        except BaseException:  # noqa: BLE001 (whatever it is, the client gets an answer and we a log line)
            self._log.exception("request_crashed")
            status, headers, body = 500, [("Content-Type", "application/json")], _FAILED
        finally:
            self._count(-1)
        if self._retired:
            headers.append(("Connection", "close"))
        protocol.response_bytes(status, headers, body)

    def _count(self, change: int) -> None:
        with self._lock:
            self._running += change
            self._last = time.monotonic()

    def _ask(self, scope: dict[str, Any]) -> tuple[int, list[tuple[str, str]], bytes]:
        environ = {**self._base, **scope}
        if "CONTENT_LENGTH" not in scope:
            # A chunked body ends where the server says. With a declared length it is left out, as
            # only then the application notices a body that ends early.
            environ["wsgi.input_terminated"] = True
        answer = _Answer()
        chunks: Iterable[bytes] = self._app(environ, answer.start)
        try:
            body = b"".join(chunks)
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
        return answer.status, answer.headers, body
