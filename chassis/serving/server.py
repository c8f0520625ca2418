"""The HTTP server of a service: listens, serves, changes its certificate under load, drains.

One listening socket lives as long as the server. A new certificate starts a new worker on it and
retires the old one: that stops accepting, asks its clients to reconnect with their next answer, and
ends when they have. Must not know any application or authenticate anybody but by client certificate.
"""

import contextlib
import socket
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from wsgiref.types import WSGIApplication

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from chassis.errors import PermanentError
from chassis.serving.bridge import Bridge
from chassis.serving.certificates import (
    Certificate,
    CertificateError,
    as_files,
    check_certificate,
    end_of,
    read_certificate,
)
from chassis.serving.granian_worker import BACKLOG, GranianWorker
from chassis.serving.metrics import CertificateMetrics
from chassis.serving.settings import ServingSettings, parse_listen

_HANDOVER = timedelta(seconds=1)
_POLL = timedelta(seconds=5)
_HANDSHAKE_SECONDS = 0.2
_SETTLE_SECONDS = 0.02  # a connection accepted this instant must be listening when told to end


class ListenError(PermanentError):
    """The address cannot be listened on."""


@dataclass(frozen=True, slots=True)
class _Serving:
    bridge: Bridge
    worker: GranianWorker


class Server:
    """Serves a WSGI application over HTTP/1.1 from threads of this process.

    Args:
        app: Called in up to `settings.threads` threads at once.
        settings: Where to listen, TLS, threads, drain.
        log: Gets start, stop and each change of certificate.
        registry: Where the certificate metrics go; None for no metrics.
        service: The prefix of those metrics.
        poll: How often the certificate files are looked at.
        handover: How long clients of a retired worker have to come with their next request, which
            is still answered, before their idle connections are closed.
    """

    def __init__(  # noqa: PLR0913 (what composition hands in once)
        self,
        app: WSGIApplication,
        settings: ServingSettings,
        log: FilteringBoundLogger,
        registry: CollectorRegistry | None = None,
        *,
        service: str = "nodemend",
        poll: timedelta = _POLL,
        handover: timedelta = _HANDOVER,
    ) -> None:
        self._app = app
        self._settings = settings
        self._log = log
        self._poll = poll.total_seconds()
        self._handover = handover.total_seconds()
        self._metrics = CertificateMetrics(service, registry if settings.tls else None)
        self._lock = threading.Lock()  # held while workers change
        self._listener: socket.socket | None = None
        self._address = ("", 0)
        self._now: _Serving | None = None
        self._certificate: Certificate | None = None
        self._refused: Certificate | str | None = None
        self._stopping = threading.Event()
        self._retiring: list[threading.Thread] = []

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on, the real port when 0 was asked for."""
        return self._address

    def start(self) -> None:
        """Listen and serve; connections are accepted when this returns.

        Raises:
            ListenError: The address is taken or not ours.
            CertificateError: The certificate files cannot be served.
        """
        with self._lock:
            if self._listener is not None:
                raise RuntimeError("a Server starts once")
            if self._settings.tls is not None:
                self._certificate = read_certificate(self._settings.tls)
                check_certificate(self._certificate, self._settings.tls)
            self._listener = _listen(self._settings.listen)
            host, port = self._listener.getsockname()[:2]
            self._address = (str(host), int(port))
            self._now = self._serve(self._listener, self._certificate)
        if self._certificate is not None:
            self._metrics.serves(end_of(self._certificate))
            threading.Thread(target=self._watch, name="certificates", daemon=True).start()
        self._log.info("serving", host=host, port=port, tls=self._settings.tls is not None)

    def _serve(self, listener: socket.socket, certificate: Certificate | None) -> _Serving:
        bridge = Bridge(self._app, self._log)
        with contextlib.ExitStack() as files:
            paths = None
            if certificate is not None:
                paths, _ = files.enter_context(as_files(certificate))
            worker = GranianWorker(
                bridge, listener, threads=self._settings.threads, certificate=paths
            )
        return _Serving(bridge, worker)

    def _watch(self) -> None:
        while not self._stopping.wait(self._poll):
            self.reload_certificates()

    def reload_certificates(self) -> bool:
        """Serve what the certificate files hold now; whether the files and what is served agree.

        Files that cannot be used change nothing but the metric; they are logged once.
        No request fails over a change: see `handover`.
        """
        tls = self._settings.tls
        if tls is None:
            return True
        with self._lock:
            if self._now is None or self._listener is None:
                return False
            found: Certificate | None = None
            try:
                found = read_certificate(tls)
                if found == self._certificate:
                    self._refused = None
                    self._metrics.took()
                    return True
                if found == self._refused:
                    return False
                check_certificate(found, tls)
                self._change(found, self._now, self._listener)
            except (CertificateError, OSError) as error:  # OSError: out of file descriptors
                self._refuse(found, error)
                return False
            return True

    def _refuse(self, found: Certificate | None, error: Exception) -> None:
        refused = found or str(error)
        if refused != self._refused:
            self._log.error("certificate_refused", error=str(error), kept="the last good one")
        self._refused = refused
        self._metrics.refused()

    def _change(self, found: Certificate, old: _Serving, listener: socket.socket) -> None:
        ends = end_of(found)
        self._now = self._serve(listener, found)
        self._certificate, self._refused = found, None
        old.worker.stop_accepting()
        old.bridge.retire()
        closer = threading.Thread(target=self._end, args=(old,), name="retired", daemon=True)
        self._retiring = [each for each in self._retiring if each.is_alive()] + [closer]
        closer.start()
        self._metrics.serves(ends)
        self._log.info("certificate_changed")

    def _end(self, old: _Serving) -> None:
        self._stopping.wait(max(self._handover, _HANDSHAKE_SECONDS))
        old.worker.end()
        old.worker.wait(self._settings.drain.total_seconds())

    def stop(self) -> bool:
        """Stop accepting and finish what runs; whether all of it finished within `drain`.

        Clients that were busy a moment ago get `handover` to hear "reconnect" instead of a reset.
        What did not finish still runs when this returns False; only the process's end ends it.
        """
        self._stopping.set()
        with self._lock:
            now, self._now = self._now, None
            listener, self._listener = self._listener, None
        if now is None or listener is None:
            return True
        deadline = time.monotonic() + self._settings.drain.total_seconds()
        self._say_goodbye(now, deadline)
        now.worker.stop_accepting()
        listener.close()
        time.sleep(_SETTLE_SECONDS)
        now.worker.end()
        drained = now.worker.wait(max(0.0, deadline - time.monotonic()))
        for closer in self._retiring:
            closer.join(max(0.0, deadline - time.monotonic()))
        drained = drained and not any(closer.is_alive() for closer in self._retiring)
        self._log.info("stopped_serving", drained=drained, running=now.bridge.running)
        return drained

    def _say_goodbye(self, now: _Serving, deadline: float) -> None:
        now.bridge.retire()
        until = min(deadline, time.monotonic() + self._handover)
        while time.monotonic() < until and now.bridge.served_within(self._handover):
            time.sleep(0.02)


def _listen(listen: str) -> socket.socket:
    host, port = parse_listen(listen)
    dual = host == "" and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual or ":" in host else socket.AF_INET
    try:
        return socket.create_server(
            (host, port), family=family, backlog=BACKLOG, dualstack_ipv6=dual
        )
    except (OSError, OverflowError) as error:
        raise ListenError(
            f"cannot listen on {listen}: {error}; change `listen` or free the port"
        ) from error
