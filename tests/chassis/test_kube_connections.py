"""A server that hangs up before TLS is spoken leaves no socket open in the client."""

import contextlib
import gc
import json
import socket
import struct
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import urllib3

from chassis.kube_client import NODES, KubeClient, KubeSettings, Unavailable
from chassis.kube_client.connections import leave_nothing_open
from tests.chassis.certificates import an_authority

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, no time; a close is then a reset


def resetting(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            client.close()


@pytest.fixture
def server_that_resets() -> Iterator[int]:
    """The port of a server that resets each connection as soon as it has it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=resetting, args=(listener,))
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@contextlib.contextmanager
def nothing_left_open() -> Iterator[None]:
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(each.message) for each in caught if each.category is ResourceWarning] == []


def test_a_connection_reset_before_the_handshake_is_closed(server_that_resets: int) -> None:
    manager = leave_nothing_open(urllib3.PoolManager(cert_reqs="CERT_NONE"))
    pool = manager.connection_from_url(f"https://127.0.0.1:{server_that_resets}")

    class Late(pool.ConnectionCls):  # type: ignore[name-defined]  # a class that is found at run time
        """Comes to the handshake when the reset is surely there."""

        def _new_conn(self) -> socket.socket:
            made: socket.socket = super()._new_conn()
            deadline = time.monotonic() + 10
            while is_connected(made):
                assert time.monotonic() < deadline, "no reset came"
                time.sleep(0.001)
            return made

    with nothing_left_open():
        connection = Late("127.0.0.1", server_that_resets, cert_reqs="CERT_NONE")
        with pytest.raises((OSError, urllib3.exceptions.HTTPError)):
            connection.connect()
        connection.close()
        del connection
    manager.clear()


def is_connected(end: socket.socket) -> bool:
    try:
        end.getpeername()
    except OSError:
        return False
    return True


def test_a_client_whose_server_resets_all_connections_holds_none(
    server_that_resets: int, tmp_path: Path
) -> None:
    client = KubeClient(
        KubeSettings(kubeconfig=kubeconfig(tmp_path, server_that_resets)), structlog.get_logger()
    )

    with nothing_left_open():
        for _ in range(5):
            with pytest.raises(Unavailable):
                client.list(NODES)
    client.close()


def kubeconfig(folder: Path, port: int) -> Path:
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority": str(an_authority(folder).file),
    }
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "test", "user": {}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                "current-context": "test",
            }
        )
    )
    return path
