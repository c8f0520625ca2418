"""A real HTTP server on loopback for what the remediator asks and tells: scripted answers, kept questions."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Asked:
    """One request that came."""

    method: str
    path: str
    headers: Message
    body: bytes

    @property
    def authorization(self) -> str | None:
        return self.headers.get("Authorization")


@dataclass
class HttpPeer:
    """What it answers by path (`status`, body as JSON or bytes, headers); a path that is missing is 404."""

    answers: dict[str, tuple[int, Any, dict[str, str]]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    silent: bool = False
    url: str = ""
    _over: threading.Event = field(default_factory=threading.Event)

    def says(self, path: str, body: Any = None, status: int = 200, **headers: str) -> None:
        """Answer so from now on."""
        self.answers[path] = (status, {} if body is None else body, headers)

    def answer(self, request: Asked) -> tuple[int, bytes, dict[str, str]]:
        """Keep the request; its answer, after the peer's end if it is silent."""
        self.asked.append(request)
        if self.silent:
            self._over.wait(30)
        status, body, headers = self.answers.get(request.path, (404, {"error": "no such path"}, {}))
        return status, body if isinstance(body, bytes) else json.dumps(body).encode(), headers

    def end(self) -> None:
        """Let whoever waits go."""
        self._over.set()


def _handler(peer: HttpPeer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            path = urlsplit(self.path).path
            request = Asked(self.command, path, self.headers, self.rfile.read(length))
            status, body, headers = peer.answer(request)
            try:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # whoever asked has gone

        do_POST = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

    return Handler


@contextmanager
def http_peer(certificate: Path | None = None) -> Iterator[HttpPeer]:
    """A running peer; over TLS with a certificate (its key beside it)."""
    peer = HttpPeer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(peer))
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    peer.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield peer
    finally:
        peer.end()
        server.shutdown()
        server.server_close()
        thread.join()


def dead_url() -> str:
    """An address at which nobody listens: a server was there and is gone."""
    with http_peer() as peer:
        return peer.url


def dead_kubeconfig(folder: Path) -> Path:
    """A kubeconfig for an API server that is away."""
    path = folder / "kubeconfig"
    server = {"name": "here", "cluster": {"server": dead_url()}}
    user = {"name": "me", "user": {"token": "t"}}
    context = {"name": "here", "context": {"cluster": "here", "user": "me"}}
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [server],
        "users": [user],
        "contexts": [context],
    }
    path.write_text(json.dumps(whole))
    return path
