"""Asking Prometheus and Alertmanager gives typed answers, or one of the two kinds of failure."""

import json
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from chassis.alertmanager import AlertStatus
from chassis.errors import NodemendError, PermanentError, TemporaryError
from chassis.monitoring import Access, AlertmanagerClient, PrometheusClient, Sample

VECTOR = {
    "status": "success",
    "data": {
        "resultType": "vector",
        "result": [
            {"metric": {"__name__": "up", "node": "gpu-1"}, "value": [1764494566.5, "1"]},
            {"metric": {}, "value": [1764494566, "NaN"]},
            {"metric": {}, "value": [1764494566, "+Inf"]},
        ],
    },
}
ALERT = {
    "labels": {"alertname": "A"},
    "annotations": {},
    "startsAt": "2026-11-30T09:22:46.715Z",
    "endsAt": "2026-11-30T10:22:46.715Z",
    "updatedAt": "2026-11-30T09:22:46.715Z",
    "fingerprint": "586d088728731196",
    "generatorURL": "http://p",
    "receivers": [{"name": "r"}],
    "status": {"state": "suppressed", "silencedBy": ["s"], "inhibitedBy": []},
}


class Peer:
    """A server on a free port that gives the answer it was told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.body: bytes = b"{}"
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[str, Message]] = []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                peer.asked.append((self.path, self.headers))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(peer.status)
                for name, value in {"Content-Length": str(len(peer.body)), **peer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(peer.body)

            do_POST = do_GET  # noqa: N815 - the name that http.server looks for

            def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def answers(self, value: Any, status: int = 200, **headers: str) -> None:
        self.status, self.headers = status, headers
        self.body = value if isinstance(value, bytes) else json.dumps(value).encode()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


def ask_prometheus(access: Access) -> object:
    return PrometheusClient(access).query("up")


def ask_alerts(access: Access) -> object:
    return AlertmanagerClient(access).alerts()


def ask_start(access: Access) -> object:
    return AlertmanagerClient(access).started_at()


Ask = Callable[[Access], object]
each_question = pytest.mark.parametrize("ask", [ask_prometheus, ask_alerts, ask_start])


def failure(ask: Ask, access: Access) -> NodemendError:
    with pytest.raises(NodemendError) as caught:
        ask(access)
    return caught.value


def test_a_vector_is_samples_in_utc(peer: Peer) -> None:
    peer.answers(VECTOR)

    first, second, third = PrometheusClient(Access(peer.url + "/")).query("up")

    assert first == Sample(
        {"__name__": "up", "node": "gpu-1"}, 1.0, datetime.fromtimestamp(1764494566.5, UTC)
    )
    assert math.isnan(second.value)
    assert math.isinf(third.value)


def test_the_query_and_its_time_limit_reach_prometheus(peer: Peer) -> None:
    peer.answers(VECTOR)

    PrometheusClient(Access(peer.url)).query('up{a="b"}', timedelta(seconds=2.5))

    path, _ = peer.asked[0]
    assert parse_qs(urlsplit(path).query) == {"query": ['up{a="b"}'], "timeout": ["3s"]}


@pytest.mark.parametrize(
    "result",
    [
        pytest.param([1764494566, "1"], id="a scalar"),
        pytest.param([{"metric": {}, "values": [[1, "1"]]}], id="a matrix"),
        pytest.param([{"metric": {}, "value": [1, "one"]}], id="a value that is no number"),
        pytest.param([{"metric": {}, "value": [1e300, "1"]}], id="a time that does not exist"),
    ],
)
def test_what_is_no_vector_is_a_permanent_error(peer: Peer, result: Any) -> None:
    peer.answers({"status": "success", "data": {"result": result}})

    with pytest.raises(PermanentError, match="no instant vector"):
        PrometheusClient(Access(peer.url)).query("1")


def test_a_wrong_query_is_told_in_the_words_of_prometheus(peer: Peer) -> None:
    peer.answers({"status": "error", "error": "parse error at char 3"}, 400)

    with pytest.raises(PermanentError, match="answered 400: parse error at char 3"):
        PrometheusClient(Access(peer.url)).query("up{")


def test_suppressed_alerts_are_asked_for_and_are_firing(peer: Peer) -> None:
    peer.answers([ALERT])

    (alert,) = AlertmanagerClient(Access(peer.url)).alerts()

    assert alert.status is AlertStatus.FIRING
    assert alert.fingerprint == "586d088728731196"
    assert parse_qs(urlsplit(peer.asked[0][0]).query) == {
        "active": ["true"],
        "silenced": ["true"],
        "inhibited": ["true"],
        "unprocessed": ["true"],
    }


def test_the_start_of_an_alertmanager_is_utc(peer: Peer) -> None:
    peer.answers({"uptime": "2026-11-30T10:00:00.123456789+01:00"})

    assert AlertmanagerClient(Access(peer.url)).started_at() == datetime(
        2026, 11, 30, 9, 0, 0, 123_456, tzinfo=UTC
    )


@each_question
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_an_overloaded_peer_is_a_temporary_error(peer: Peer, ask: Ask, status: int) -> None:
    peer.answers(b"busy", status, **{"Retry-After": "7"})

    error = failure(ask, Access(peer.url))

    assert isinstance(error, TemporaryError)
    assert error.retry_after == timedelta(seconds=7)
    assert len(peer.asked) == 1  # trying again is the caller's choice


@pytest.mark.parametrize("wait", ["", "soon", "-1", "99999999999", "1.5"])
def test_a_strange_wait_is_none(peer: Peer, wait: str) -> None:
    peer.answers(b"", 503, **{"Retry-After": wait})

    error = failure(ask_alerts, Access(peer.url))

    assert isinstance(error, TemporaryError)
    assert error.retry_after is None


@each_question
@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 422])
def test_a_refusal_is_a_permanent_error(peer: Peer, ask: Ask, status: int) -> None:
    peer.answers(b"no", status)

    assert isinstance(failure(ask, Access(peer.url)), PermanentError)


@each_question
@pytest.mark.parametrize(
    "body", [b"<html>login</html>", b"", b"null", b'"x"', b"[1]", b'{"data": 1}', b'{"uptime": 1}']
)
def test_an_answer_of_something_else_is_a_permanent_error(
    peer: Peer, ask: Ask, body: bytes
) -> None:
    peer.answers(body)

    assert isinstance(failure(ask, Access(peer.url)), PermanentError)


@each_question
def test_nobody_there_is_a_temporary_error(ask: Ask) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        access = Access(f"http://127.0.0.1:{unused.getsockname()[1]}")
        before = time.monotonic()

        assert isinstance(failure(ask, access), TemporaryError)
    assert time.monotonic() - before < 4  # the retries of the library would take 6 s


@each_question
def test_silence_ends_with_the_timeout(ask: Ask) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"

        error = failure(ask, Access(url, timeout=timedelta(milliseconds=100)))

    assert isinstance(error, TemporaryError)


@each_question
@pytest.mark.parametrize("url", ["", "no-scheme", "ftp://host", "http://", "http://[::1"])
def test_an_address_that_is_none_is_a_permanent_error(ask: Ask, url: str) -> None:
    assert isinstance(failure(ask, Access(url)), PermanentError)


@each_question
def test_a_token_is_read_for_each_request(peer: Peer, ask: Ask) -> None:
    tokens = iter(["old", "new"])
    access = Access(peer.url, bearer_token=lambda: next(tokens))
    peer.answers(b"no", 401)

    failure(ask, access)
    failure(ask, access)

    assert [asked["Authorization"] for _, asked in peer.asked] == ["Bearer old", "Bearer new"]


@each_question
def test_a_password_goes_as_basic(peer: Peer, ask: Ask) -> None:
    peer.answers(b"no", 401)

    failure(ask, Access(peer.url, username="ü", password=lambda: "p:w"))

    assert peer.asked[0][1]["Authorization"] == "Basic w7w6cDp3"


@each_question
@pytest.mark.parametrize("token", ["s3cret\nX: y", "s3crét"])
def test_a_token_that_no_header_can_carry_is_refused_unshown(
    peer: Peer, ask: Ask, token: str
) -> None:
    error = failure(ask, Access(peer.url, bearer_token=lambda: token))

    assert isinstance(error, PermanentError)
    assert "s3cr" not in str(error)
    assert peer.asked == []


def test_credentials_in_the_address_are_not_in_the_error(peer: Peer) -> None:
    peer.answers(b"", 500)

    error = failure(ask_alerts, Access(f"http://me:s3cret@127.0.0.1:{peer.port}"))

    assert "s3cret" not in str(error)


def test_a_token_does_not_follow_a_redirect_to_another_host(peer: Peer) -> None:
    peer.answers(b"", 302, Location=f"http://localhost:{peer.port}/other")

    failure(ask_alerts, Access(peer.url, bearer_token=lambda: "s3cret"))

    assert peer.asked[0][1]["Authorization"] == "Bearer s3cret"
    assert [asked["Authorization"] for _, asked in peer.asked[1:] if asked["Authorization"]] == []


def test_the_environment_sends_nothing_elsewhere(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    peer.answers([])

    assert AlertmanagerClient(Access(peer.url)).alerts() == ()


def a_certificate(folder: Path) -> Path:
    """One self-signed file with certificate and key for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "peer")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    path = folder / "peer.pem"
    path.write_bytes(
        certificate.public_bytes(pem)
        + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


def test_a_certificate_is_trusted_by_its_authority_only(peer: Peer, tmp_path: Path) -> None:
    certificate = a_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    peer.server.socket = context.wrap_socket(peer.server.socket, server_side=True)
    peer.answers([ALERT])
    url = f"https://127.0.0.1:{peer.port}"

    assert len(AlertmanagerClient(Access(url, ca_file=certificate)).alerts()) == 1
    error = failure(ask_alerts, Access(url))

    assert isinstance(error, PermanentError)
    assert "no trust in its certificate" in str(error)


def test_a_missing_authority_file_is_a_permanent_error(tmp_path: Path) -> None:
    error = failure(ask_alerts, Access("https://127.0.0.1:1", ca_file=tmp_path / "none.pem"))

    assert isinstance(error, PermanentError)
    assert "none.pem" in str(error)
