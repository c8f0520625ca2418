"""A relay in front of a server that a test can cut: the network fails while both ends live."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class TCPRelay:
    """Passes bytes between a port of its own and `target`. A context manager."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def cut(self) -> None:
        """Drop all connections, and each new one, until `mend`."""
        with self._lock:
            self._cut = True
            for each in self._open:
                _shut(each)

    def mend(self) -> None:
        """Let new connections through again."""
        with self._lock:
            self._cut = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _shut(self._listener)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._join(client)

    def _join(self, client: socket.socket) -> None:
        with self._lock:
            if self._cut:
                client.close()
                return
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                client.close()
                return
            server.settimeout(None)
            self._open |= {client, server}
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                sink.sendall(chunk)
        _shut(sink)
        with self._lock:
            self._open.discard(source)
        source.close()


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
