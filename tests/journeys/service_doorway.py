"""A Service on a machine without a cluster network: the API server's calls to it arrive at ports of this machine.

kube-apiserver dials Services through a CONNECT proxy when it is told so (EgressSelectorConfiguration). This is the proxy:
whatever address is asked for, each new connection goes to the next of the ports behind it, and to none that does not
answer, as a Service leads to its ready pods. TLS is between the API server and the pod.
"""

import select
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BUFFER = 64 * 1024
_TURN_SECONDS = 0.2


class Doorway:
    """The ports behind the Service may change while it runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ports: tuple[int, ...] = ()
        self._generation = 0
        self.asked_for: set[str] = set()
        """The addresses that the API server wanted to reach."""
        self._turn = 0
        self._stopping = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._threads = [threading.Thread(target=self._accept, name="doorway")]
        self._threads[0].start()

    def stop(self) -> None:
        """End all connections."""
        self._stopping.set()
        for thread in list(self._threads):
            thread.join(timeout=10)
        self._listener.close()

    def lead_only_to(self, *ports: int) -> None:
        """These from now on; connections to others end, as if their machines were gone."""
        self.ports = ports
        self._generation += 1

    def _accept(self) -> None:
        while not self._stopping.is_set():
            if not select.select([self._listener], [], [], _TURN_SECONDS)[0]:
                continue
            caller, _ = self._listener.accept()
            thread = threading.Thread(target=self._serve, args=(caller,), name="doorway")
            self._threads.append(thread)
            thread.start()

    def _serve(self, caller: socket.socket) -> None:
        with caller, suppress(OSError):
            self.asked_for.add(_address_in(caller))
            pod = self._next()
            if pod is None:
                caller.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
                return
            with pod:
                caller.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                self._carry(caller, pod)

    def _next(self) -> socket.socket | None:
        """A connection to one of the ports, tried in turn."""
        ports = self.ports
        self._turn += 1
        for number in range(len(ports)):
            port = ports[(self._turn + number) % len(ports)]
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", port), timeout=5)
        return None

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        one.settimeout(None)
        other.settimeout(None)
        generation = self._generation
        while not self._stopping.is_set() and generation == self._generation:
            ready, _, _ = select.select([one, other], [], [], _TURN_SECONDS)
            for source in ready:
                part = source.recv(_BUFFER)
                if not part:
                    return
                (other if source is one else one).sendall(part)


def _address_in(caller: socket.socket) -> str:
    """Read the head of a CONNECT request; what it wants to be connected to."""
    caller.settimeout(10)
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = caller.recv(1)
        if not part:
            raise ConnectionError("it ended within its request")
        head += part
    return head.split(b" ")[1].decode()


@contextmanager
def a_doorway() -> Iterator[Doorway]:
    """In a folder of its own: the path of a Unix socket has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="door") as folder:
        doorway = Doorway(Path(folder) / "s")
        try:
            yield doorway
        finally:
            doorway.stop()
