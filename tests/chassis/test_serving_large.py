"""Bodies of many pieces, such as a large scrape: whole at the client, never joined, and waited for by a stop."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
import structlog
from flask import Flask, Response
from prometheus_client import CollectorRegistry

from chassis.serving import Pieces, Server, ServingSettings
from chassis.webapp import create_app

PIECE = b"nodemend_node_condition 1\n" * 40_000
WHOLE = PIECE * 64
"""66 MB: more than the sockets between the two hold."""


def an_app() -> Flask:
    app = create_app(
        "served",
        registry=CollectorRegistry(),
        log=structlog.get_logger(),
        max_body_bytes=1000,
        auth=None,
        metrics_hook=lambda: [PIECE] * 64,
    )
    app.add_url_rule("/none", "none", lambda: Response(Pieces([]), direct_passthrough=True))
    return app


@pytest.fixture
def server() -> Iterator[Server]:
    settings = ServingSettings(listen="127.0.0.1:0", drain=timedelta(seconds=20))
    made = Server(an_app(), settings, structlog.get_logger(), CollectorRegistry())
    made.start()
    yield made
    made.stop()


Connect = Callable[[], http.client.HTTPConnection]


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    with ExitStack() as stack:

        def made() -> http.client.HTTPConnection:
            connection = http.client.HTTPConnection(*server.address, timeout=30)
            stack.callback(connection.close)
            return connection

        yield made


def asked(connect: Connect, path: str, method: str = "GET") -> http.client.HTTPResponse:
    connection = connect()
    connection.request(method, path)
    return connection.getresponse()


def test_a_body_of_many_pieces_arrives_whole_with_its_length(connect: Connect) -> None:
    answer = asked(connect, "/metrics")

    body = answer.read()
    assert len(body) == int(answer.headers["Content-Length"])
    assert body.endswith(b"\n" + WHOLE)


def test_a_head_request_gets_the_length_alone(connect: Connect) -> None:
    answer = asked(connect, "/metrics", "HEAD")

    assert (answer.status, answer.read()) == (200, b"")


def test_a_body_without_pieces_is_empty(connect: Connect) -> None:
    assert asked(connect, "/none").read() == b""


def test_a_stop_waits_for_a_body_that_is_on_its_way(server: Server, connect: Connect) -> None:
    answer = asked(connect, "/metrics")
    begun = answer.read(1000)
    drained: list[bool] = []
    stopper = threading.Thread(target=lambda: drained.append(server.stop()))
    stopper.start()

    assert (begun + answer.read()).endswith(b"\n" + WHOLE)
    stopper.join(30)
    assert drained == [True]


def test_clients_that_leave_half_way_are_not_waited_for(server: Server, connect: Connect) -> None:
    for _ in range(3):
        connection = connect()
        connection.request("GET", "/metrics")
        with connection.getresponse() as answer:
            answer.read(1000)
        connection.close()

    assert server.stop()
