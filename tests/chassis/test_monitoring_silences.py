"""Who silenced an alert is asked of Alertmanager over HTTP in two questions, or one when nothing is silenced."""

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from chassis.errors import PermanentError, TemporaryError
from chassis.monitoring import Access, AlertmanagerClient

ALERTS, SILENCES = "/api/v2/alerts", "/api/v2/silences"
QUIET = {"fingerprint": "f1", "status": {"state": "suppressed", "silencedBy": ["s1", "s2"]}}
LOUD = {"fingerprint": "f2", "status": {"state": "suppressed", "silencedBy": []}}
ANN = {"id": "s1", "createdBy": "ann", "comment": "racks"}


class Alertmanager:
    """Gives each path its answer; a path without one is a 503."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                peer.asked.append(self.path)
                found = peer.answers.get(urlsplit(self.path).path)
                body = found if isinstance(found, bytes) else json.dumps(found).encode()
                self.send_response(503 if found is None else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def client(self) -> AlertmanagerClient:
        return AlertmanagerClient(Access(f"http://127.0.0.1:{self.server.server_port}"))


@pytest.fixture
def peer() -> Iterator[Alertmanager]:
    made = Alertmanager()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_each_silence_says_who_and_why_and_one_that_is_gone_says_somebody(
    peer: Alertmanager,
) -> None:
    peer.answers = {ALERTS: [QUIET, LOUD], SILENCES: [ANN]}

    assert peer.client().silenced() == {"f1": "by ann: racks; by somebody"}


def test_only_alerts_that_may_be_silenced_are_asked_for(peer: Alertmanager) -> None:
    peer.answers = {ALERTS: [QUIET], SILENCES: [ANN]}

    peer.client().silenced()

    assert [urlsplit(each).path for each in peer.asked] == [ALERTS, SILENCES]
    assert parse_qs(urlsplit(peer.asked[0]).query) == {
        "active": ["false"],
        "silenced": ["true"],
        "inhibited": ["true"],
        "unprocessed": ["false"],
    }


@pytest.mark.parametrize("alerts", [[], [LOUD]], ids=["no alert", "one that is only inhibited"])
def test_where_nothing_is_silenced_silences_are_not_asked_for(
    peer: Alertmanager, alerts: list[Any]
) -> None:
    peer.answers = {ALERTS: alerts}

    assert peer.client().silenced() == {}
    assert [urlsplit(each).path for each in peer.asked] == [ALERTS]


@pytest.mark.parametrize("missing", [ALERTS, SILENCES])
def test_an_overloaded_alertmanager_is_a_temporary_error_and_no_empty_answer(
    peer: Alertmanager, missing: str
) -> None:
    peer.answers = {path: body for path, body in both().items() if path != missing}

    with pytest.raises(TemporaryError, match="answered 503"):
        peer.client().silenced()


@pytest.mark.parametrize("path", [ALERTS, SILENCES])
@pytest.mark.parametrize(
    "body", [b"<html>", b"{}", b'["x"]'], ids=["no JSON", "no list", "no list of objects"]
)
def test_another_answer_is_a_permanent_error(peer: Alertmanager, path: str, body: bytes) -> None:
    peer.answers = {**both(), path: body}

    with pytest.raises(PermanentError, match="not the answer that was expected"):
        peer.client().silenced()


def both() -> Mapping[str, Any]:
    return {ALERTS: [QUIET], SILENCES: [ANN]}
