"""Alertmanagers and Prometheus over real HTTP: what is unknown is neither gone nor healthy."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from chassis.config import SecretFile
from remediator.cluster import QueryResult, Sight
from remediator.config import Peer
from remediator.gates import before_isolation
from remediator.kube_cluster.peers import Alertmanagers, AlertSnapshot, Prometheus, peers_of
from remediator.operation import CauseKind
from tests.chassis.certificates import an_authority
from tests.remediator.building import FINGERPRINT, HOUR, MINUTE, NOW, cause_of, config_of, pinned
from tests.remediator.http_peer import HttpPeer, dead_url, http_peer
from tests.remediator.test_gates import case

LOG = structlog.get_logger()
OTHER = "00000000000000bb"
ALERTS, SILENCES, STATUS = "/api/v2/alerts", "/api/v2/silences", "/api/v2/status"
QUERY = "/api/v1/query"


@pytest.fixture
def two() -> Iterator[tuple[HttpPeer, HttpPeer]]:
    with ExitStack() as stack:
        pair = stack.enter_context(http_peer()), stack.enter_context(http_peer())
        for peer in pair:
            alertmanager(peer)
        yield pair


def stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}Z"


def alert(fingerprint: str = FINGERPRINT, since: datetime = NOW - HOUR, *ids: str) -> Any:
    return {
        "labels": {"alertname": "GPUDown", "node": "n1"},
        "annotations": {},
        "startsAt": stamp(since),
        "endsAt": stamp(NOW + HOUR),
        "updatedAt": stamp(since),
        "fingerprint": fingerprint,
        "generatorURL": "http://p.example",
        "receivers": [{"name": "r"}],
        "status": {
            "state": "suppressed" if ids else "active",
            "silencedBy": list(ids),
            "inhibitedBy": [],
        },
    }


def alertmanager(peer: HttpPeer, *alerts: Any, up_since: datetime = NOW - HOUR) -> None:
    peer.says(ALERTS, list(alerts))
    peer.says(STATUS, {"uptime": stamp(up_since)})
    peer.says(SILENCES, [])


def ask(*urls: str, **changes: Any) -> AlertSnapshot:
    whole = {"timeout": timedelta(seconds=5)} | changes
    return Alertmanagers([Peer(url=url, **whole) for url in urls], lambda: NOW, LOG).ask("")


Pair = tuple[HttpPeer, HttpPeer]


def sight(pair: Pair) -> Sight:
    return ask(pair[0].url, pair[1].url).view(FINGERPRINT, NOW).sight


def test_an_alert_that_one_of_two_holds_fires(two: Pair) -> None:
    alertmanager(two[1], alert())

    assert sight(two) is Sight.FIRING


def test_an_alert_is_gone_when_both_answer_and_neither_has_it(two: Pair) -> None:
    alertmanager(two[0], alert(OTHER))

    assert sight(two) is Sight.ABSENT


def break_status(peer: HttpPeer) -> None:
    peer.says(STATUS, {"error": "away"}, 503)


def break_token(peer: HttpPeer) -> None:
    peer.says(ALERTS, {"error": "who are you"}, 401)


def break_answer(peer: HttpPeer) -> None:
    peer.says(ALERTS, b"<html>Sign in</html>")


def break_silences(peer: HttpPeer) -> None:
    alertmanager(peer, alert(OTHER, NOW - HOUR, "s1"))
    peer.says(SILENCES, {"error": "away"}, 500)


def restart(peer: HttpPeer) -> None:
    alertmanager(peer, up_since=NOW - 9 * MINUTE)


UNKNOWN = {
    "one of them is overloaded": break_status,
    "one of them refuses the token": break_token,
    "something else answers in its place": break_answer,
    "its silences cannot be read": break_silences,
    "one of them has only just started": restart,
}


@pytest.mark.parametrize("sentence", UNKNOWN)
def test_what_no_one_shows_is_unknown_while(two: Pair, sentence: str) -> None:
    UNKNOWN[sentence](two[1])

    assert sight(two) is Sight.UNKNOWN


def test_what_no_one_shows_is_unknown_while_one_of_two_is_down(two: Pair) -> None:
    snapshot = ask(two[0].url, dead_url())

    assert snapshot.view(FINGERPRINT, NOW).sight is Sight.UNKNOWN


def test_what_the_other_shows_fires_although_one_is_down(two: Pair) -> None:
    alertmanager(two[0], alert())
    view = ask(dead_url(), two[0].url).view(FINGERPRINT, NOW)

    assert (view.sight, view.since) == (Sight.FIRING, NOW - HOUR)
    assert not view.silences_known


def test_silence_of_an_alertmanager_ends_with_the_timeout(two: Pair) -> None:
    two[1].silent = True
    snapshot = ask(two[0].url, two[1].url, timeout=timedelta(seconds=1))

    assert snapshot.view(FINGERPRINT, NOW).sight is Sight.UNKNOWN


def test_with_a_restart_long_ago_what_is_absent_is_gone(two: Pair) -> None:
    alertmanager(two[1], up_since=NOW - 10 * MINUTE)

    assert sight(two) is Sight.ABSENT


def test_without_an_alertmanager_nothing_is_gone() -> None:
    assert ask().view(FINGERPRINT, NOW).sight is Sight.UNKNOWN


def test_of_two_starts_the_later_counts(two: Pair) -> None:
    alertmanager(two[0], alert(since=NOW - HOUR))
    alertmanager(two[1], alert(since=NOW - MINUTE))

    assert ask(two[0].url, two[1].url).view(FINGERPRINT, NOW).since == NOW - MINUTE


def test_a_silence_is_told_with_its_author(two: Pair) -> None:
    alertmanager(two[0], alert(FINGERPRINT, NOW - HOUR, "s1"))
    two[0].says(
        SILENCES,
        [
            {
                "id": "s1",
                "createdBy": "ada",
                "comment": "moving racks",
                "startsAt": stamp(NOW - HOUR),
                "endsAt": stamp(NOW + HOUR),
                "updatedAt": stamp(NOW - HOUR),
                "status": {"state": "active"},
                "matchers": [],
            }
        ],
    )
    view = ask(two[0].url, two[1].url).view(FINGERPRINT, NOW)

    assert (view.sight, view.silenced, view.silences_known) == (Sight.FIRING, True, True)
    assert "ada" in view.silence
    assert "moving racks" in view.silence


def test_a_node_is_not_touched_while_a_silence_may_hold_its_alert(two: Pair) -> None:
    alertmanager(two[0], alert())
    operation = pinned(causes=(cause_of(CauseKind.ALERT),))
    both = ask(two[0].url, two[1].url).view(FINGERPRINT, NOW)
    one = ask(two[0].url, dead_url()).view(FINGERPRINT, NOW)

    assert before_isolation(case(operation=operation, look={"alerts": {FINGERPRINT: both}})) == ()
    (held,) = before_isolation(case(operation=operation, look={"alerts": {FINGERPRINT: one}}))
    assert (held.gate, held.text) == (
        "silence",
        "not every Alertmanager says whether GPUDown is silenced",
    )


# Prometheus.


@pytest.fixture
def prometheus() -> Iterator[HttpPeer]:
    with http_peer() as made:
        yield made


def query(peer: HttpPeer, **changes: Any) -> Any:
    whole = {"url": peer.url, "timeout": timedelta(seconds=5)} | changes
    return Prometheus(Peer(**whole), lambda: NOW).ask('up{node="n1"}')


def told(kind: str, result: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": result}}


def vector(*values: str, at: datetime = NOW) -> dict[str, Any]:
    return told("vector", [{"metric": {}, "value": [at.timestamp(), each]} for each in values])


ANSWERS = {
    "Q1 each sample says yes": (vector("1", "42"), QueryResult.PASSED),
    "Q2 a negative one is none of 0 and NaN": (vector("-1"), QueryResult.PASSED),
    "Q3 one sample is 0": (vector("1", "0"), QueryResult.FAILED),
    "Q4 one sample is no number": (vector("1", "NaN"), QueryResult.FAILED),
    "Q5 there is no sample": (vector(), QueryResult.NO_DATA),
    "Q6 a scalar is no vector": (told("scalar", [NOW.timestamp(), "1"]), QueryResult.ERROR),
    "Q7 a string is no vector": (told("string", [NOW.timestamp(), "1"]), QueryResult.ERROR),
    "Q8 a matrix is no vector": (
        told("matrix", [{"metric": {}, "values": [[NOW.timestamp(), "1"]]}]),
        QueryResult.ERROR,
    ),
    "Q9 something else answers": (b"<html>Sign in</html>", QueryResult.ERROR),
    "Q10 an answer without data": ({"status": "success"}, QueryResult.ERROR),
}


@pytest.mark.parametrize("sentence", ANSWERS)
def test_what_a_query_answers(prometheus: HttpPeer, sentence: str) -> None:
    body, result = ANSWERS[sentence]
    prometheus.says(QUERY, body)

    found = query(prometheus)

    assert found.result is result
    assert found.text or result in {QueryResult.PASSED, QueryResult.NO_DATA}


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 503])
def test_an_error_is_no_pass_and_says_what_it_is(prometheus: HttpPeer, status: int) -> None:
    prometheus.says(QUERY, {"status": "error", "error": "query timed out"}, status)

    found = query(prometheus)

    assert (found.result, found.as_of) == (QueryResult.ERROR, NOW)
    assert str(status) in found.text
    assert "query timed out" in found.text


def test_a_prometheus_that_is_down_or_silent_is_no_pass(prometheus: HttpPeer) -> None:
    prometheus.silent = True
    silent = query(prometheus, timeout=timedelta(seconds=1))
    down = query(prometheus, url=dead_url())

    assert (silent.result, down.result) == (QueryResult.ERROR, QueryResult.ERROR)


def test_an_answer_is_as_old_as_its_oldest_sample(prometheus: HttpPeer) -> None:
    old = vector("1", at=NOW - HOUR)
    old["data"]["result"] += vector("1")["data"]["result"]
    prometheus.says(QUERY, old)
    late = query(prometheus)
    prometheus.says(QUERY, vector("1", at=NOW + MINUTE))
    ahead = query(prometheus)

    assert (late.result, late.as_of) == (QueryResult.PASSED, NOW - HOUR)
    assert ahead.as_of == NOW


def test_old_samples_hold_a_guard(prometheus: HttpPeer) -> None:
    guards = {"guards": [{"name": "quiet", "expr": "up"}]}
    prometheus.says(QUERY, vector("1", at=NOW - HOUR))
    old = query(prometheus)
    prometheus.says(QUERY, vector("1"))
    fresh = query(prometheus)

    held = [
        before_isolation(case(gates=guards, look={"queries": {"quiet": each}}))
        for each in (old, fresh)
    ]
    assert [[each.gate for each in one] for one in held] == [["guard"], []]


def test_prometheus_is_reached_as_the_configuration_says(tmp_path: Path) -> None:
    authority = an_authority(tmp_path)
    (tmp_path / "token").write_text("sesame")
    with http_peer(authority.issue("prometheus")) as peer:
        peer.says(QUERY, vector("1"))
        config = config_of(
            prometheus={
                "url": peer.url,
                "ca_file": str(authority.file),
                "bearer_token_file": SecretFile(tmp_path / "token"),
            }
        )
        _, prometheus = peers_of(config, lambda: NOW, LOG)
        assert prometheus is not None
        assert prometheus.ask("up").result is QueryResult.PASSED
        distrusted = query(peer)

    assert [each.authorization for each in peer.asked] == ["Bearer sesame"]
    assert distrusted.result is QueryResult.ERROR
    assert "certificate" in distrusted.text
