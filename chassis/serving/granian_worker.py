"""One granian worker inside this process: the only code that touches granian's private surface.

granian's own servers want a process each (GIL builds) or a free-threaded Python. Its WSGI worker needs
neither: handed a listening socket and a callback, it serves from threads of its own. This module
starts such a worker, takes it off the listening socket and ends it. The lock file pins granian, and
`missing_surface` says in words what a newer granian changed.

A panic in granian aborts the process, and an unusable certificate is a panic. So this file is also a
script: run as a child process with the paths of a certificate, a key and a client CA, it loads them
the way a worker does and exits with 0, or dies in the place of the service.

It must not import anything of ours (the child would pay for it), decide when to reload, or log.
"""

import inspect
import os
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from granian import _granian
from granian._futures import _new_cbscheduler
from granian.http import HTTP1Settings

Callback = Callable[[Any, dict[str, Any]], None]
"""Called for each request in one of the worker's threads, with granian's protocol and an environ."""

BACKLOG = 1024
MAX_CONNECTIONS = 4096
IDLE_MILLISECONDS = 75_000  # for request headers to arrive, and so for an idle kept connection too
MAX_HEADER_BYTES = 64 * 1024

_IDLE_THREAD_SECONDS = 30
_CERTIFICATE_CHECKED = 0

_WORKER_PARAMETERS = (
    "worker_id",
    "sock",
    "ipc",
    "threads",
    "blocking_threads",
    "py_threads",
    "py_threads_idle_timeout",
    "backpressure",
    "http_mode",
    "http1_opts",
    "http2_opts",
    "static_files",
    "ssl_enabled",
    "ssl_cert",
    "ssl_key",
    "ssl_key_password",
    "ssl_protocol_min",
    "ssl_ca",
    "ssl_crl",
    "ssl_client_verify",
    "metrics",
)


@dataclass(frozen=True, slots=True)
class CertificatePaths:
    """Where the worker reads PEM files while it starts; never again later."""

    cert: str
    key: str
    client_ca: str | None


def missing_surface() -> tuple[str, ...]:
    """What this module needs of granian and does not find, one line each; empty when all is well."""
    found: list[str] = []
    if tuple(inspect.signature(_granian.WSGIWorker).parameters) != _WORKER_PARAMETERS:
        found.append("granian._granian.WSGIWorker takes other parameters")
    if tuple(inspect.signature(_granian.SocketHolder).parameters) != ("fd", "uds", "backlog"):
        found.append("granian._granian.SocketHolder takes other parameters")
    if tuple(inspect.signature(_new_cbscheduler).parameters) != ("loop", "cb", "impl_asyncio"):
        found.append("granian._futures._new_cbscheduler takes other parameters")
    if not hasattr(_granian.WSGIWorker, "serve_mtr"):
        found.append("granian._granian.WSGIWorker has no serve_mtr")
    if not {"set", "add_cb"} <= set(dir(_granian.WorkerSignal)):
        found.append("granian._granian.WorkerSignal has no set or add_cb")
    return tuple(found)


class _NoEventLoop:
    """granian asks for an event loop even where it never uses it; this one cannot be used."""

    def call_soon(self, *_args: Any) -> None:
        raise RuntimeError("a WSGI worker has no event loop")

    call_soon_threadsafe = call_soon


class GranianWorker:
    """Serves from a duplicate of `listener` as soon as it is made; the listener stays the caller's."""

    def __init__(
        self,
        callback: Callback,
        listener: socket.socket,
        *,
        threads: int,
        certificate: CertificatePaths | None,
    ) -> None:
        self._ended = threading.Event()
        self._signal = _granian.WorkerSignal()
        self._signal.add_cb(self._ended.set)
        self._accepting: int | None = os.dup(listener.fileno())  # granian closes it at its end
        loop = _NoEventLoop()
        schedule: Any = _new_cbscheduler  # untyped
        worker: Any = _worker(self._accepting, threads, certificate)
        worker.serve_mtr(schedule(loop, callback, impl_asyncio=True), loop, self._signal)

    def stop_accepting(self) -> None:
        """Leave new connections to others, and let handshakes and connections under way go on.

        granian drops the handshakes under way when it is told to end. So its listening descriptor is
        first replaced by one on which nobody ever calls: its accept then finds nothing.
        """
        if self._accepting is None:
            return
        with socket.create_server(("127.0.0.1", 0), backlog=1) as nobody_calls:
            nobody_calls.settimeout(0)
            os.dup2(nobody_calls.fileno(), self._accepting, inheritable=False)
        self._accepting = None

    def end(self) -> None:
        """Close idle connections, and each busy one after its answer; returns at once."""
        self._signal.set()

    def wait(self, seconds: float) -> bool:
        """Whether the last connection was closed within `seconds` of this call."""
        return self._ended.wait(seconds)


def _worker(accepting: int, threads: int, certificate: CertificatePaths | None) -> object:
    client_ca = certificate.client_ca if certificate else None
    http1 = HTTP1Settings(header_read_timeout=IDLE_MILLISECONDS, max_buffer_size=MAX_HEADER_BYTES)
    arguments: tuple[Any, ...] = (
        1,
        (None, _holder(accepting)),
        None,
        1,
        1,
        threads,
        _IDLE_THREAD_SECONDS,
        MAX_CONNECTIONS,
        "1",
        http1,
        None,
        None,
        certificate is not None,
        certificate.cert if certificate else None,
        certificate.key if certificate else None,
        None,
        "tls1.2",
        client_ca,
        [],
        client_ca is not None,
        (None, None),
    )
    create: Any = _granian.WSGIWorker  # its type hints leave out two of the parameters
    return create(*arguments)


def _holder(fd: int) -> object:
    create: Any = _granian.SocketHolder  # its type hints leave out the constructor
    return create(fd, False, BACKLOG)  # noqa: FBT003 (the compiled code names it, the call cannot)


def _load_or_die(cert: str, key: str, client_ca: str | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        paths = CertificatePaths(cert, key, client_ca)
        GranianWorker(lambda *_: None, listener, threads=1, certificate=paths)
    os._exit(_CERTIFICATE_CHECKED)  # no clean end: nothing was served


if __name__ == "__main__":
    _load_or_die(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)  # noqa: PLR2004
