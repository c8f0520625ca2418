"""chassis.serving against real sockets: requests, drain, slow clients, the process's end."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from flask import Flask, request
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from chassis.serving import ListenError, Server, ServingSettings
from chassis.serving.granian_worker import missing_surface
from chassis.serving.settings import parse_listen
from chassis.webapp import AuthSettings, create_app

LIMIT = 1000
LOG = structlog.get_logger()


class Gate:
    """A route that waits: `entered` is set when a request is in it, `open` lets it answer."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> str:
        self.entered.set()
        assert self.open.wait(20)
        return "finished"


def an_app(gate: Gate | None = None) -> Flask:
    app = create_app(
        "served", registry=CollectorRegistry(), log=LOG, max_body_bytes=LIMIT, auth=None
    )
    app.add_url_rule("/size", "size", lambda: str(len(request.get_data())), methods=["POST"])
    app.add_url_rule("/environ", "environ", lambda: json.dumps(sorted(request.environ)))
    app.add_url_rule("/gate", "gate", gate or Gate())
    return app


Start = Callable[..., Server]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stopping:

        def started(app: Any = None, listen: str = "127.0.0.1:0", **settings: Any) -> Server:
            settings = {"threads": 4, "drain": timedelta(seconds=10), **settings}
            server = Server(
                app or an_app(),
                ServingSettings(listen=listen, **settings),
                LOG,
                handover=timedelta(seconds=0.2),
            )
            server.start()
            stopping.callback(server.stop)
            return server

        yield started


@pytest.fixture
def connect() -> Iterator[Callable[[Server], http.client.HTTPConnection]]:
    with ExitStack() as closing:

        def connected(server: Server) -> http.client.HTTPConnection:
            connection = http.client.HTTPConnection(*server.address, timeout=15)
            closing.callback(connection.close)
            return connection

        yield connected


def ask(connection: http.client.HTTPConnection, path: str, body: Any = None) -> tuple[int, str]:
    connection.request("POST" if body is not None else "GET", path, body)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def raw(server: Server, sent: bytes) -> bytes:
    with socket.create_connection(server.address, timeout=10) as sock:
        sock.sendall(sent)
        received = b""
        while chunk := sock.recv(65536):
            received += chunk
    return received


def test_the_private_surface_of_granian_is_the_one_that_was_tried() -> None:
    assert missing_surface() == ()


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:443", ("::1", 443)),
        (":8080", ("", 8080)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_listen_is_host_and_port(listen: str, expected: tuple[str, int]) -> None:
    assert parse_listen(listen) == expected


@pytest.mark.parametrize("listen", ["8080", "a:b", "::1:80", "host:70000", "[::1]", "", "a:80/x"])
def test_another_listen_is_refused_with_what_to_write(listen: str) -> None:
    with pytest.raises(ValueError, match="write HOST:PORT"):
        ServingSettings(listen=listen)


def test_port_0_gives_a_port_that_answers(start: Start, connect: Any) -> None:
    server = start()

    assert server.address[1] > 0
    assert ask(connect(server), "/size", b"abc") == (200, "3")


def test_ipv6_is_served(start: Start, connect: Any) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this kernel has no IPv6")
    assert ask(connect(start(listen="[::1]:0")), "/healthz") == (200, "ok\n")


def test_no_host_listens_on_ipv4_too(start: Start) -> None:
    server = start(listen=":0")
    connection = http.client.HTTPConnection("127.0.0.1", server.address[1], timeout=5)

    assert ask(connection, "/healthz") == (200, "ok\n")
    connection.close()


def test_a_taken_port_is_a_clear_error(start: Start) -> None:
    taken = start().address[1]
    second = Server(an_app(), ServingSettings(listen=f"127.0.0.1:{taken}"), LOG)

    with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{taken}: .*free the port"):
        second.start()


def test_a_connection_is_kept_for_many_requests(start: Start, connect: Any) -> None:
    connection = connect(start())
    ask(connection, "/healthz")
    local = connection.sock.getsockname()

    for size in range(20):
        assert ask(connection, "/size", b"x" * size) == (200, str(size))
    assert connection.sock.getsockname() == local


def test_pipelined_requests_are_answered_in_order(start: Start) -> None:
    one = b"POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"
    two = b"POST /size HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"

    received = raw(start(), one + two)

    assert [part[:1] for part in received.split(b"\r\n\r\n")[1:]] == [b"2", b"3"]


def test_a_chunked_body_arrives_whole(start: Start, connect: Any) -> None:
    assert ask(connect(start()), "/size", iter([b"ab", b"cde"])) == (200, "5")


def test_a_head_request_has_no_body(start: Start, connect: Any) -> None:
    connection = connect(start())
    connection.request("HEAD", "/healthz")
    answer = connection.getresponse()

    assert (answer.status, answer.read(), answer.getheader("Content-Length")) == (200, b"", "3")
    assert ask(connection, "/healthz") == (200, "ok\n")


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_a_body_over_the_limit_is_a_413_in_the_one_shape(
    start: Start, connect: Any, chunked: bool
) -> None:
    body = b"x" * (5 * 1024 * 1024)
    server = start()

    status, text = ask(connect(server), "/size", iter([body]) if chunked else body)

    assert status == 413
    assert json.loads(text)["reason"] == "body_too_large"
    assert ask(connect(server), "/size", b"x" * LIMIT) == (200, str(LIMIT))


def test_the_connection_goes_on_after_a_413(start: Start, connect: Any) -> None:
    connection = connect(start())

    for _ in range(3):
        assert ask(connection, "/size", b"x" * (LIMIT + 1))[0] == 413
        assert ask(connection, "/size", b"xy") == (200, "2")


def test_a_stranger_hears_401_and_can_ask_again(start: Start, connect: Any, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("known")
    auth = AuthSettings.model_validate({"bearer_token_file": str(tmp_path / "token")})
    app = create_app(
        "served", registry=CollectorRegistry(), log=LOG, max_body_bytes=LIMIT, auth=auth
    )
    app.add_url_rule("/v1/size", "size", lambda: str(len(request.get_data())), methods=["POST"])
    connection = connect(start(app))

    for _ in range(3):
        status, text = ask(connection, "/v1/size", b"x" * 500)
        assert (status, json.loads(text)["reason"]) == (401, "unauthorized")
    connection.request("POST", "/v1/size", b"abc", {"Authorization": "Bearer known"})
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"3")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param(b"Content-Length: 3\r\n\r\nabc", True, id="a body that nobody reads"),
        pytest.param(
            b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", True, id="the same, chunked"
        ),
        pytest.param(b"Content-Length: 0\r\n\r\n", False, id="an empty body"),
        pytest.param(b"\r\n", False, id="no body"),
    ],
)
def test_a_client_whose_body_is_left_unread_is_told_to_reconnect(
    start: Start, body: bytes, told: bool
) -> None:
    """Else it sends its next request into a connection that is being closed."""
    server = start()
    with socket.create_connection(server.address, timeout=10) as sock:
        sock.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\n" + body)
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(65536)

    assert b" 404 " in head.partition(b"\r\n")[0]
    assert (b"connection: close" in head.lower()) is told


def test_a_body_that_ends_early_reaches_no_handler_as_whole(start: Start) -> None:
    sizes: list[int] = []

    def seen() -> str:
        sizes.append(len(request.get_data()))
        return "seen"

    app = an_app()
    app.add_url_rule("/seen", "seen", seen, methods=["POST"])
    server = start(app)

    with socket.create_connection(server.address) as sock:
        sock.sendall(b"POST /seen HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(10)
        while sock.recv(4096):
            pass
    assert sizes == []


def test_the_process_environment_stays_out_of_a_request(start: Start, connect: Any) -> None:
    os.environ["HTTP_X_MADE_UP"] = "from the environment"
    try:
        _, text = ask(connect(start()), "/environ")
    finally:
        del os.environ["HTTP_X_MADE_UP"]

    assert "HTTP_X_MADE_UP" not in json.loads(text)
    assert "PATH" not in json.loads(text)


def test_an_application_that_crashes_answers_500_in_the_one_shape_and_is_logged(
    start: Start, connect: Any
) -> None:
    def crash(_environ: Any, _start: Any) -> Any:
        raise SystemExit("gone")

    with capture_logs() as logs:
        connection = connect(start(crash))
        status, text = ask(connection, "/")

    assert status == 500
    assert set(json.loads(text)) == {"error", "reason", "request_id"}
    assert "request_crashed" in [each["event"] for each in logs]


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\x00" * 300, b"GET / HTTP/9.9\r\n\r\n"],
    ids=["TLS to a plain port", "half a request line", "zeros", "unknown version"],
)
def test_garbage_ends_its_connection_and_nothing_else(
    start: Start, connect: Any, sent: bytes
) -> None:
    server = start()
    with socket.create_connection(server.address) as sock:
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(10)
        try:
            while sock.recv(4096):
                pass
        except ConnectionResetError:
            pass

    assert ask(connect(server), "/healthz") == (200, "ok\n")


def test_clients_that_trickle_headers_hold_nobody_up(start: Start, connect: Any) -> None:
    server = start(threads=2)
    with ExitStack() as slow:
        for _ in range(100):
            sock = slow.enter_context(socket.create_connection(server.address))
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")

        begin = time.monotonic()
        assert ask(connect(server), "/healthz") == (200, "ok\n")

    assert time.monotonic() - begin < 5


def test_fewer_slow_bodies_than_threads_hold_nobody_up(start: Start, connect: Any) -> None:
    server = start(threads=4)
    with ExitStack() as slow:
        for _ in range(3):
            sock = slow.enter_context(socket.create_connection(server.address))
            sock.sendall(b"POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\na")

        for _ in range(10):
            assert ask(connect(server), "/size", b"abc") == (200, "3")


def test_stop_finishes_what_runs_and_refuses_what_comes(start: Start, connect: Any) -> None:
    gate = Gate()
    server = start(an_app(gate))
    connection = connect(server)
    connection.request("GET", "/gate")
    assert gate.entered.wait(10)

    drained: list[bool] = []
    stopper = threading.Thread(target=lambda: drained.append(server.stop()))
    stopper.start()
    _until(lambda: _refused(server.address))
    gate.open.set()
    answer = connection.getresponse()

    assert (answer.status, answer.read()) == (200, b"finished")
    stopper.join(10)
    assert drained == [True]


def test_stop_gives_up_after_drain_and_says_so(start: Start, connect: Any) -> None:
    gate = Gate()
    server = start(an_app(gate), drain=timedelta(seconds=0.3))
    connect(server).request("GET", "/gate")
    assert gate.entered.wait(10)

    begin = time.monotonic()
    with capture_logs() as logs:
        drained = server.stop()
    gate.open.set()

    assert not drained
    assert time.monotonic() - begin < 5
    assert logs[-1] == {
        "event": "stopped_serving",
        "log_level": "info",
        "drained": False,
        "running": 1,
    }


def test_stop_closes_idle_connections_and_is_quick(start: Start, connect: Any) -> None:
    server = start()
    connections = [connect(server) for _ in range(5)]
    for connection in connections:
        ask(connection, "/healthz")

    begin = time.monotonic()
    assert server.stop()
    assert server.stop(), "a second stop has nothing to do"

    assert time.monotonic() - begin < 5
    assert _refused(server.address)


def test_no_call_fails_while_a_busy_server_stops(start: Start, connect: Any) -> None:
    server = start()
    stopping = threading.Event()
    failed: list[str] = []

    def client() -> None:
        connection = connect(server)
        while True:
            try:
                connection.request("GET", "/healthz")
            except ConnectionRefusedError:
                assert stopping.is_set()
                return
            try:
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException) as error:
                failed.append(repr(error))
                return
            if answer.will_close:
                return

    clients = [threading.Thread(target=client) for _ in range(4)]
    for each in clients:
        each.start()
    ask(connect(server), "/healthz")
    stopping.set()
    server.stop()
    for each in clients:
        each.join(10)
    assert failed == []


PROGRAM = """
import signal, sys, threading, time, structlog
from chassis.serving import Server, ServingSettings
def app(environ, start):
    if environ["PATH_INFO"] == "/stuck":
        print("stuck", flush=True)
        time.sleep(60)
    start("200 OK", [])
    return [b"ok"]
structlog.configure(logger_factory=structlog.WriteLoggerFactory(file=sys.stderr))
settings = ServingSettings(listen="127.0.0.1:0", drain="200ms")
server = Server(app, settings, structlog.get_logger())
server.start()
term = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: term.set())
print(server.address[1], flush=True)
while not term.wait(0.05):
    pass
print(server.stop(), flush=True)
"""


@pytest.fixture
def program() -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_sigkill_leaves_nothing_behind(program: tuple[subprocess.Popen[str], int]) -> None:
    process, port = program
    process.send_signal(signal.SIGKILL)
    process.wait(10)

    assert _refused(("127.0.0.1", port))
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.parametrize("stuck", [False, True], ids=["idle", "a request is stuck"])
def test_a_stopped_program_ends_with_0(
    program: tuple[subprocess.Popen[str], int], stuck: bool
) -> None:
    process, port = program
    assert process.stdout is not None
    with socket.create_connection(("127.0.0.1", port)) as sock:
        if stuck:
            sock.sendall(b"GET /stuck HTTP/1.1\r\nHost: a\r\n\r\n")
            assert process.stdout.readline() == "stuck\n"
        process.send_signal(signal.SIGTERM)

        assert process.stdout.readline() == f"{not stuck}\n"
        assert process.wait(10) == 0


def _refused(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return True
    return False


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not done():
        assert time.monotonic() < deadline, "waited 10 s in vain"
        time.sleep(0.02)
