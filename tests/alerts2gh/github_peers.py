"""Peers of the GitHub adapter for its tests.

A tracker that notes what it says, and a server that answers any bytes.
"""

import io
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import structlog

from alerts2gh.config import AppCredential, Credential
from alerts2gh.github_tracker import GitHubTracker
from alerts2gh.incident import Target
from alerts2gh.ports import RateLimit
from chassis.config import SecretFile

TARGET = Target("main", "acme", "alerts")
TOKEN = "t0ken-of-the-robot"


@dataclass
class Witness:
    """What a tracker told besides its answers: its log lines and its responses for metrics."""

    log: io.StringIO = field(default_factory=io.StringIO)
    responses: list[tuple[str, int | None, RateLimit | None]] = field(default_factory=list)

    def heard(self, endpoint: str, status: int | None, rate: RateLimit | None) -> None:
        self.responses.append((endpoint, status, rate))

    @property
    def seen(self) -> list[tuple[str, int | None]]:
        return [(endpoint, status) for endpoint, status, _ in self.responses]


def utc_now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def tracking(
    folder: Path,
    url: str,
    *,
    token: str | None = TOKEN,
    app: tuple[int, int, str] | None = None,
    ca_file: Path | None = None,
    timeout: float = 5,
    now: Callable[[], datetime] = utc_now,
) -> Iterator[tuple[GitHubTracker, Witness]]:
    """A tracker for `url`, by a token or by an App (id, installation, key in PEM form)."""
    (folder / "token").write_text(token or "")
    credential = Credential(
        base_url=url,
        token_file=None if app else SecretFile(folder / "token"),
        app=None if app is None else _app(folder, *app),
        ca_file=ca_file,
        timeout=timedelta(seconds=timeout),
    )
    witness = Witness()
    log = structlog.wrap_logger(
        structlog.PrintLogger(witness.log),
        processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    tracker = GitHubTracker("main", credential, now=now, log=log, on_response=witness.heard)
    try:
        yield tracker, witness
    finally:
        tracker.close()


def _app(folder: Path, app_id: int, installation: int, key: str) -> AppCredential:
    (folder / "key.pem").write_text(key)
    return AppCredential(
        app_id=app_id,
        installation_id=installation,
        private_key_file=SecretFile(folder / "key.pem"),
    )


Script = Callable[[socket.socket, bytes], None]


class ScriptedServer:
    """Listens on a port of its own and gives each request to the next script.

    The last one stays for all further.
    """

    def __init__(self, scripts: Sequence[Script], tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self._scripts = list(scripts)
        self._tls = tls
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._accepting.join()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def hold(self, _connection: socket.socket, _request: bytes) -> None:
        """A script: no answer until the server ends."""
        self._closing.wait()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        try:
            with self._secured(connection) as stream:
                request = _read_request(stream)
                if request:
                    self._next_script(request)(stream, request)
        except OSError:
            connection.close()  # the client broke off, as some tests want it to

    def _secured(self, connection: socket.socket) -> socket.socket:
        return self._tls.wrap_socket(connection, server_side=True) if self._tls else connection

    def _next_script(self, request: bytes) -> Script:
        with self._lock:
            self.requests.append(request)
            return self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]


def _read_request(stream: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        part = stream.recv(65536)
        if not part:
            return received
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [
        v
        for k, _, v in (x.partition(b":") for x in head.split(b"\r\n"))
        if k.lower() == b"content-length"
    ]
    missing = (int(lengths[0]) if lengths else 0) - len(body)
    while missing > 0:
        part = stream.recv(65536)
        received, missing = received + part, missing - len(part)
    return received


def says(
    status: int, body: str | bytes | dict[str, Any] | list[Any] = "", **headers: str
) -> Script:
    """Answer so; a body that is no text becomes JSON, underscores in headers become hyphens."""
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    data = text.encode() if isinstance(text, str) else text
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(data)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    answer = "\r\n".join([*lines, "", ""]).encode() + data
    return lambda connection, _: connection.sendall(answer)


def sends(raw: bytes) -> Script:
    """Answer with these bytes and close."""
    return lambda connection, _: connection.sendall(raw)


def drops(connection: socket.socket, _: bytes) -> None:
    """Close without an answer."""


def echoes(status: int) -> Script:
    """Answer with the whole request in the page, as some proxies do."""
    return lambda connection, request: says(
        status, {"message": f"your request was {request.decode(errors='replace')}"}
    )(connection, request)
