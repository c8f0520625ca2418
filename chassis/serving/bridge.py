"""Between granian and a WSGI application: the environ in, one whole answer out.

An answer is always complete before its first byte leaves, so an application that fails half-way
gives an honest 500; a large one may be complete in pieces that are never joined. The process's
environment variables stay out of the environ. Must not know routes, authentication or limits.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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


_GROUP = 1 << 20
"""What leaves at once: small pieces cost a call each, and granian copies what it is given."""


class Pieces(Sequence[bytes]):
    """A whole body that nobody needs to join. Such a body is to be passed through unwrapped."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self.size = sum(map(len, pieces))

    def __len__(self) -> int:
        return len(self._pieces)

    def __getitem__(self, at: Any) -> Any:
        return self._pieces[at]

    def groups(self) -> Iterator[bytes]:
        """The body in parts of about a MiB."""
        held: list[bytes] = []
        size = 0
        for piece in self._pieces:
            held.append(piece)
            size += len(piece)
            if size >= _GROUP:
                yield b"".join(held)
                held, size = [], 0
        if held:
            yield b"".join(held)


class _Leaving:
    """A body on its way, as granian asks for it; says once when it has left or was given up."""

    def __init__(self, groups: Iterator[bytes], over: Callable[[], None]) -> None:
        self._groups = groups
        self._over: Callable[[], None] | None = over

    def __iter__(self) -> "_Leaving":
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._groups)
        except StopIteration:
            self.close()
            raise

    def close(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            over()

    __del__ = close  # a client that has gone away ends it without a word


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


class _Input:
    """The body on its way in; knows whether the application has taken all of it. Only `read`, as all of ours do."""

    __slots__ = ("_left", "_stream")

    def __init__(self, stream: Any, length: int | None) -> None:
        self._stream = stream
        self._left = length  # None: chunked, until its end is seen

    @property
    def unread(self) -> bool:
        """Whether some of it may still come, which the next request would be mistaken for."""
        return self._left is None or self._left > 0

    def read(self, size: int | None = -1) -> bytes:
        whole = size is None or size < 0
        part: bytes = self._stream.read() if whole else self._stream.read(size)
        if self._left is not None:
            self._left -= len(part)
        elif whole or (size and not part):
            self._left = 0
        return part


def _body_of(scope: dict[str, Any]) -> _Input:
    declared = scope.get("CONTENT_LENGTH")
    if declared is not None:
        return _Input(scope["wsgi.input"], int(declared) if declared.isdigit() else 0)
    chunked = "HTTP_TRANSFER_ENCODING" in scope
    return _Input(scope["wsgi.input"], None if chunked else 0)


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
        given = _body_of(scope)
        try:
            status, headers, body = self._ask({**scope, "wsgi.input": given})
        except BaseException:  # noqa: BLE001 (whatever it is, the client gets an answer and we a log line)
            self._log.exception("request_crashed")
            status, headers, body = 500, [("Content-Type", "application/json")], _FAILED
        # A connection with half a body on it is closed; a client that is not told would send into it.
        if self._retired or given.unread:
            headers.append(("Connection", "close"))
        if isinstance(body, Pieces) and body.size > _GROUP:
            leaving = _Leaving(body.groups(), lambda: self._count(-1))
            protocol.response_iter(status, headers, leaving)
            return
        self._count(-1)
        protocol.response_bytes(
            status, headers, b"".join(body) if isinstance(body, Pieces) else body
        )

    def _count(self, change: int) -> None:
        with self._lock:
            self._running += change
            self._last = time.monotonic()

    def _ask(self, scope: dict[str, Any]) -> tuple[int, list[tuple[str, str]], bytes | Pieces]:
        environ = {**self._base, **scope}
        if "CONTENT_LENGTH" not in scope:
            # A chunked body ends where the server says. With a declared length it is left out, as
            # only then the application notices a body that ends early.
            environ["wsgi.input_terminated"] = True
        answer = _Answer()
        chunks: Iterable[bytes] = self._app(environ, answer.start)
        if isinstance(chunks, Pieces):
            return answer.status, answer.headers, chunks
        try:
            body = b"".join(chunks)
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
        return answer.status, answer.headers, body
