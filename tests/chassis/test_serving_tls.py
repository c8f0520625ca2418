"""chassis.serving over TLS: client certificates, and certificates that change under load."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from chassis.config import load_settings
from chassis.serving import CertificateError, Server, ServingSettings, TLSSettings
from tests.chassis.certificates import Authority, an_authority, tls_settings

LOG = structlog.get_logger()
HOUR = timedelta(hours=1)
SUCCESSFUL = "served_certificate_last_reload_successful"


def app(environ: dict[str, Any], start: Any) -> list[bytes]:
    body = environ["wsgi.input"].read()
    start("200 OK", [("Content-Type", "text/plain")])
    return [str(len(body)).encode()]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return an_authority(tmp_path / "ca")


Start = Callable[..., Server]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stopping:

        def started(
            tls: TLSSettings,
            poll: timedelta = HOUR,
            registry: CollectorRegistry | None = None,
        ) -> Server:
            settings = ServingSettings(
                listen="127.0.0.1:0", tls=tls, threads=8, drain=timedelta(seconds=10)
            )
            handover = timedelta(seconds=0.3)
            server = Server(
                app, settings, LOG, registry, service="served", poll=poll, handover=handover
            )
            server.start()
            stopping.callback(server.stop)
            return server

        yield started


def ask(server: Server, context: ssl.SSLContext) -> tuple[int, bytes]:
    connection = http.client.HTTPSConnection(*server.address, context=context, timeout=10)
    try:
        connection.request("POST", "/", b"x" * 7000)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def served_serial(server: Server, context: ssl.SSLContext) -> int:
    with (
        socket.create_connection(server.address, timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        found = secure.getpeercert(binary_form=True)
    assert found is not None
    return x509.load_der_x509_certificate(found).serial_number


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline, "waited 20 s in vain"
        time.sleep(0.05)


def test_tls_is_served_to_who_trusts_the_authority(start: Start, authority: Authority) -> None:
    server = start(tls_settings(authority.issue("server")))

    assert ask(server, authority.trusting()) == (200, b"7000")
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(server, ssl.create_default_context())


def test_only_http_1_1_is_offered(start: Start, authority: Authority) -> None:
    server = start(tls_settings(authority.issue("server")))
    context = authority.trusting()
    context.set_alpn_protocols(["h2", "http/1.1"])

    with (
        socket.create_connection(server.address, timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        assert secure.selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_tls_from_1_2_on_is_served(start: Start, authority: Authority, version: str) -> None:
    context = authority.trusting()
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]

    assert ask(start(tls_settings(authority.issue("server"))), context) == (200, b"7000")


def test_a_client_certificate_of_the_authority_is_let_in(
    start: Start, authority: Authority
) -> None:
    server = start(tls_settings(authority.issue("server"), authority.file))

    assert ask(server, authority.trusting(authority.issue("client"))) == (200, b"7000")


@pytest.mark.parametrize("shown", ["none", "another authority's"])
def test_other_clients_are_refused(
    start: Start, authority: Authority, tmp_path: Path, shown: str
) -> None:
    server = start(tls_settings(authority.issue("server"), authority.file))
    stranger = None if shown == "none" else an_authority(tmp_path / "other").issue("client")

    with pytest.raises((ssl.SSLError, ConnectionError, http.client.BadStatusLine)):
        ask(server, authority.trusting(stranger))
    assert ask(server, authority.trusting(authority.issue("client")))[0] == 200


def test_no_call_fails_while_the_certificate_changes_under_load(
    start: Start, authority: Authority
) -> None:
    server = start(tls_settings(authority.issue("server", serial=1)))
    context = authority.trusting()
    over, failed, answered = threading.Event(), list[str](), list[int]()

    def client(kept: bool) -> None:
        connection = http.client.HTTPSConnection(*server.address, context=context, timeout=10)
        while not over.is_set():
            try:
                connection.request("POST", "/", b"x" * 7000)
                answer = connection.getresponse()
                answered.append(len(answer.read()))
            except (OSError, http.client.HTTPException) as error:
                failed.append(repr(error))
            if not kept or answer.will_close:
                connection.close()
        connection.close()

    clients = [threading.Thread(target=client, args=(kept,)) for kept in (True,) * 4 + (False,) * 2]
    for each in clients:
        each.start()
    for serial in range(2, 6):
        authority.issue("server", serial=serial)
        assert server.reload_certificates()
        assert served_serial(server, context) == serial, "the new one is served at once"
        before = len(answered)
        until(lambda before=before: len(answered) > before + 50)  # type: ignore[misc]
    over.set()
    for each in clients:
        each.join(10)

    assert failed == []
    assert len(answered) > 200


def test_an_idle_connection_of_before_is_closed_after_a_change(
    start: Start, authority: Authority
) -> None:
    server = start(tls_settings(authority.issue("server")))
    context = authority.trusting()
    with (
        socket.create_connection(server.address, timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        authority.issue("server")
        assert server.reload_certificates()
        assert secure.recv(1) == b""


def test_a_changed_file_is_noticed_without_being_told(start: Start, authority: Authority) -> None:
    tls = tls_settings(authority.issue("server", serial=1))
    server = start(tls, poll=timedelta(milliseconds=50))

    authority.issue("server", serial=2)

    until(lambda: served_serial(server, authority.trusting()) == 2)


def test_a_kubernetes_secret_that_is_swapped_is_noticed(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    for version in (1, 2):
        folder = tmp_path / f"..v{version}"
        folder.mkdir()
        for path in (authority.issue("tls", serial=version), authority.folder / "tls.key"):
            (folder / path.name).write_bytes(path.read_bytes())
    data = tmp_path / "..data"
    data.symlink_to("..v1")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    server = start(tls_settings(tmp_path / "tls.crt"))
    assert served_serial(server, authority.trusting()) == 1

    fresh = tmp_path / "..data_tmp"
    fresh.symlink_to("..v2")
    fresh.replace(data)
    assert server.reload_certificates()

    assert served_serial(server, authority.trusting()) == 2


def _break_key(authority: Authority) -> None:
    (authority.folder / "server.key").write_text("no key")


def _take_key_away(authority: Authority) -> None:
    (authority.folder / "server.key").unlink()


def _change_only_key(authority: Authority) -> None:
    certificate = (authority.folder / "server.crt").read_bytes()
    authority.issue("server").write_bytes(certificate)


def _unknown_curve(authority: Authority) -> None:
    authority.issue("server", curve=ec.SECP256K1())


BROKEN = pytest.mark.parametrize(
    ("breaking", "told"),
    [
        (_break_key, "are no pair"),
        (_take_key_away, "server.key: No such file"),
        (_change_only_key, "are no pair"),
        (_unknown_curve, "the server cannot use this pair"),
    ],
    ids=["key is garbage", "key is gone", "key of another pair", "curve the server cannot do"],
)


def test_it_is_told_when_the_served_certificate_ends(start: Start, authority: Authority) -> None:
    registry = CollectorRegistry()
    server = start(tls_settings(authority.issue("server", serial=1)), registry=registry)
    name = "served_certificate_not_after_timestamp_seconds"
    path = authority.folder / "server.crt"

    def ends() -> float:
        return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()

    first = ends()
    assert registry.get_sample_value(name) == first
    until(lambda: authority.issue("server", serial=2).exists() and ends() != first)
    assert registry.get_sample_value(name) == first

    assert server.reload_certificates()

    assert registry.get_sample_value(name) == ends()


@BROKEN
def test_a_broken_new_pair_keeps_the_old_one(
    start: Start, authority: Authority, breaking: Callable[[Authority], None], told: str
) -> None:
    registry = CollectorRegistry()
    server = start(tls_settings(authority.issue("server", serial=1)), registry=registry)
    assert registry.get_sample_value(SUCCESSFUL) == 1

    breaking(authority)
    with capture_logs() as logs:
        assert not server.reload_certificates()
        assert not server.reload_certificates()

    assert [each["event"] for each in logs] == ["certificate_refused"], "it is said once"
    assert told in logs[0]["error"]
    assert registry.get_sample_value(SUCCESSFUL) == 0
    assert served_serial(server, authority.trusting()) == 1

    authority.issue("server", serial=2)
    assert server.reload_certificates()
    assert registry.get_sample_value(SUCCESSFUL) == 1
    assert served_serial(server, authority.trusting()) == 2


@BROKEN
def test_a_broken_pair_at_the_start_is_a_clear_error(
    authority: Authority, breaking: Callable[[Authority], None], told: str
) -> None:
    tls = tls_settings(authority.issue("server"))
    breaking(authority)
    server = Server(app, ServingSettings(listen="127.0.0.1:0", tls=tls), LOG)

    with pytest.raises(CertificateError, match=told):
        server.start()


def test_a_broken_client_ca_is_a_clear_error(authority: Authority) -> None:
    tls = tls_settings(authority.issue("server"), authority.file)
    authority.file.write_text("nothing")
    server = Server(app, ServingSettings(listen="127.0.0.1:0", tls=tls), LOG)

    with pytest.raises(CertificateError, match=r"ca\.crt: no usable CA certificate"):
        server.start()


def test_no_key_is_in_a_log_or_an_error(start: Start, authority: Authority) -> None:
    server = start(tls_settings(authority.issue("server")))
    (authority.folder / "server.key").write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0IQ==\n")

    with capture_logs() as logs:
        server.reload_certificates()

    assert "c2VjcmV0" not in str(logs)


def test_clients_that_never_shake_hands_hold_nobody_up(start: Start, authority: Authority) -> None:
    server = start(tls_settings(authority.issue("server")))
    with ExitStack() as slow:
        for _ in range(100):
            slow.enter_context(socket.create_connection(server.address))
        begin = time.monotonic()
        assert ask(server, authority.trusting()) == (200, b"7000")

    assert time.monotonic() - begin < 5


def test_certificate_paths_start_at_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("tls: {cert_file: tls.crt, key_file: /abs/tls.key}\n")

    tls = load_settings(path, ServingSettings).tls

    assert tls is not None
    assert (tls.cert_file, tls.key_file) == (tmp_path / "tls.crt", Path("/abs/tls.key"))
