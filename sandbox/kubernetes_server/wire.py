"""A small HTTP/1.1 server with a thread a connection: keep-alive, streams in chunks, TLS, cut connections.

Not for the open network. An own one because watches must stream without delay, faults must cut a
connection at a chosen moment, and thousands of requests a second must not cost the tests' time.
"""

import contextlib
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

_MAX_HEAD = 64 * 1024
_BLOCK = 256 * 1024
_IDLE_SECONDS = 300.0


class CutError(Exception):
    """Raised by a handler to end the connection without an answer."""


class _BadRequestError(Exception):
    """The bytes are no HTTP request."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    connection: "Connection"


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: whole when `stream` is None, else in chunks as they come."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: Iterator[bytes] | None = None


Handler = Callable[[Request], Response]


class Connection:
    """One client's connection; another thread may cut it."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self._buffer = bytearray()

    def cut(self, *, reset: bool = False) -> None:
        """End it now, whatever is being sent; `reset` says so with RST, as a killed server does."""
        with contextlib.suppress(OSError):
            if reset:
                linger = struct.pack("ii", 1, 0)
                self._wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._wire.shutdown(socket.SHUT_RDWR)

    def gone(self) -> bool:
        """Whether the other side has ended; during a stream nothing else may come from it."""
        if self._buffer:
            return False
        try:
            readable, _, _ = select.select([self._wire], [], [], 0)
            if not readable:
                return False
            if isinstance(self._wire, ssl.SSLSocket):
                return True
            return self._wire.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True

    def read_head(self) -> bytes | None:
        """Up to the empty line; None when the other side ended before a request."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > _MAX_HEAD:
                raise _BadRequestError("the head is too large")
            if not self._fill():
                return None
        head = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        return head

    def read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not self._fill():
                raise _BadRequestError("the body ends early")
        body = bytes(self._buffer[:size])
        del self._buffer[:size]
        return body

    def read_chunks(self) -> bytes:
        body = bytearray()
        while True:
            size = int(self._read_line().split(b";")[0], 16)
            if size == 0:
                break
            body += self.read(size)
            self.read(2)
        while self._read_line():
            pass
        return bytes(body)

    def send(self, data: bytes) -> None:
        self._wire.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._wire.close()

    def _read_line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if not self._fill():
                raise _BadRequestError("the body ends early")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _fill(self) -> bool:
        block = self._wire.recv(_BLOCK)
        self._buffer += block
        return bool(block)


class WireServer:
    """Listens from `start` to `stop`; may be started again on the same port."""

    def __init__(
        self, handle: Handler, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> None:
        self.host = host
        self.port = port
        self._handle = handle
        self._tls = tls
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._open: set[Connection] = set()
        self._guard = threading.Lock()

    def start(self) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.create_server(
            (self.host, self.port), family=family, backlog=1024, reuse_port=False
        )
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._thread = threading.Thread(
            target=self._accept, args=(listener,), name="sandbox-kubernetes", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and cut all connections, as a killed process does."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        if self._thread is not None:
            self._thread.join()
        with self._guard:
            still_open = list(self._open)
        for connection in still_open:
            connection.cut(reset=True)

    def _accept(self, listener: socket.socket) -> None:
        while self._listener is not None:
            try:
                wire, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(wire,), daemon=True).start()

    def _serve(self, wire: socket.socket) -> None:
        try:
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire.settimeout(_IDLE_SECONDS)
            if self._tls is not None:
                wire = self._tls.wrap_socket(wire, server_side=True)
        except OSError:
            wire.close()
            return
        connection = Connection(wire)
        with self._guard:
            self._open.add(connection)
        if self._listener is None:
            connection.cut(reset=True)
        try:
            while self._answer_one(connection):
                pass
        except (OSError, CutError):
            pass  # the client left, or a fault cut it off
        finally:
            with self._guard:
                self._open.discard(connection)
            connection.close()

    def _answer_one(self, connection: Connection) -> bool:
        """Whether the connection may be used again."""
        try:
            request = _read_request(connection)
        except (_BadRequestError, ValueError):
            _send(connection, Response(400, b"not an HTTP request", "text/plain"), keep=False)
            return False
        if request is None:
            return False
        response = self._handle(request)
        keep = request.headers.get("connection", "").lower() != "close"
        _send(connection, response, keep=keep)
        return keep


def _read_request(connection: Connection) -> Request | None:
    head = connection.read_head()
    if head is None:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3:  # noqa: PLR2004  (method, target, version)
        raise _BadRequestError(first)
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        key = name.strip().lower()
        headers[key] = f"{headers[key]},{value.strip()}" if key in headers else value.strip()
    if headers.get("expect", "").lower() == "100-continue":
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    path, _, query = parts[1].partition("?")
    return Request(parts[0], path, query, headers, _read_body(connection, headers), connection)


def _read_body(connection: Connection, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return connection.read_chunks()
    return connection.read(int(headers.get("content-length") or 0))


def _send(connection: Connection, response: Response, *, keep: bool) -> None:
    lines = [
        f"HTTP/1.1 {response.status} {_phrase(response.status)}",
        f"Content-Type: {response.content_type}",
        *(f"{name}: {value}" for name, value in response.headers.items()),
    ]
    if not keep:
        lines.append("Connection: close")
    if response.stream is None:
        lines.append(f"Content-Length: {len(response.body)}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        connection.send(head + response.body)
        return
    lines.append("Transfer-Encoding: chunked")
    connection.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    try:
        for chunk in response.stream:
            if chunk:
                connection.send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
    finally:
        close = getattr(response.stream, "close", None)
        if close is not None:
            close()
    connection.send(b"0\r\n\r\n")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
