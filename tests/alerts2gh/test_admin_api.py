"""The admin's API: what it tells, whom it answers, what a requeue does."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from alerts2gh.ports import BudgetState
from tests.alerts2gh.admin_peers import BEARER, Peer, a_service
from tests.alerts2gh.store_builders import NOW, TARGET, a_part

MINUTE = timedelta(minutes=1)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    with a_service(tmp_path) as made:
        yield made


def get(peer: Peer, path: str) -> Any:
    answer = peer.client.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.json


def test_status_tells_what_waits_and_since_when(peer: Peer) -> None:
    peer.filed()
    peer.store.accept([a_part("Other", received_at=NOW - 2 * MINUTE), a_part("Third")])

    status = get(peer, "/v1/status")

    assert status["version"] == "1.2.3"
    assert (status["counts"]["open"], status["counts"]["backlog"]) == (1, 2)
    assert status["oldest_waiting_seconds"] == 120
    assert [lease["target_key"] for lease in status["leases"]] == [TARGET.key]


def test_status_with_nothing_waiting_has_no_age(peer: Peer) -> None:
    assert get(peer, "/v1/status")["oldest_waiting_seconds"] is None


def test_status_tells_the_budgets_and_until_when_github_wants_silence(peer: Peer) -> None:
    until = NOW + 5 * MINUTE
    writes = (NOW - timedelta(hours=2), NOW - 30 * MINUTE, NOW)
    peer.store.save_budget("main", BudgetState(writes, (NOW,), until, "secondary limit"))

    assert get(peer, "/v1/status")["budgets"]["main"] == {
        "writes_last_minute": 1,
        "writes_last_hour": 2,
        "content_last_hour": 1,
        "blocked_until": until.isoformat().replace("+00:00", "Z"),
        "blocked_reason": "secondary limit",
    }


def test_a_block_that_is_over_is_not_told(peer: Peer) -> None:
    peer.store.save_budget("main", BudgetState((), (), NOW - MINUTE, "secondary limit"))

    assert get(peer, "/v1/status")["budgets"]["main"]["blocked_until"] is None


def test_status_counts_refusals(peer: Peer) -> None:
    for _ in range(2):
        peer.client.post("/v1/webhook", data=b"no JSON")

    (refusal,) = get(peer, "/v1/status")["refusals"]

    assert (refusal["reason"], refusal["count"]) == ("bad_json", 2)


def test_status_says_that_the_configuration_file_is_in_use(peer: Peer) -> None:
    status = get(peer, "/v1/status")

    assert (status["config_last_reload_ok"], status["config_mistakes"]) == (True, [])


def test_dead_letters_are_told_with_reason_and_words(peer: Peer) -> None:
    number = peer.store.bury("abc", "acme/nodes", "archived", "it is read-only", NOW)

    (letter,) = get(peer, "/v1/dead-letters")["dead_letters"]

    assert letter == {
        "id": number,
        "incident_id": "abc",
        "target": "acme/nodes",
        "reason": "archived",
        "text": "it is read-only",
        "at": NOW.isoformat().replace("+00:00", "Z"),
    }


@pytest.mark.parametrize(
    ("body", "revived", "left"),
    [
        pytest.param({"ids": [1]}, 1, 2, id="one"),
        pytest.param({"ids": [1, 99]}, 1, 2, id="one that is there and one that is not"),
        pytest.param({"all": True}, 3, 0, id="all"),
    ],
)
def test_a_requeue_brings_letters_back_and_wakes_the_worker(
    peer: Peer, body: dict[str, Any], revived: int, left: int
) -> None:
    incident = peer.filed(dead_reason="archived")
    for incident_id in (incident.id, None, None):
        peer.store.bury(incident_id, "acme/nodes", "archived", "", NOW)
    before = peer.rung()

    answer = peer.client.post("/v1/dead-letters/requeue", json=body)

    asked = len(body["ids"]) if "ids" in body else 3
    assert answer.json == {"asked": asked, "revived": revived}
    assert len(peer.store.dead_letters()) == left
    assert peer.rung() > before
    alive, _ = peer.store.load(incident.id)
    assert alive is not None
    assert alive.dead_reason is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"all": false}',
        b'{"all": true, "ids": [1]}',
        b'{"ids": []}',
        b'{"ids": ["1"]}',
        b'{"ids": [true]}',
        b'{"id": [1]}',
    ],
)
def test_a_requeue_that_does_not_say_which_is_refused(peer: Peer, body: bytes) -> None:
    peer.store.bury(None, "acme/nodes", "archived", "", NOW)

    answer = peer.client.post(
        "/v1/dead-letters/requeue", data=body, content_type="application/json"
    )

    assert answer.status_code == 400
    assert answer.json is not None
    assert 'send {"ids": [1, 2]} or {"all": true}' in answer.json["error"]
    assert len(peer.store.dead_letters()) == 1


def test_a_form_of_another_sites_page_cannot_requeue(peer: Peer) -> None:
    peer.store.bury(None, "acme/nodes", "archived", "", NOW)

    answer = peer.client.post(
        "/v1/dead-letters/requeue", data=b'{"all": true}', content_type="text/plain"
    )

    assert answer.status_code == 415
    assert len(peer.store.dead_letters()) == 1


def test_the_report_sums_up_what_fired(peer: Peer) -> None:
    peer.filed()

    report = get(peer, "/v1/report?days=7")["report"]

    assert [(row["alertname"], row["node"], row["times"]) for row in report["rows"]] == [
        ("GPURuntimeError", "node-1", 1)
    ]
    assert report["rows"][0]["endings"] == {"still_firing": 1}


@pytest.mark.parametrize("days", ["0", "401", "x", "-1", "1.5", "", "9" * 30, "²"])
def test_a_report_needs_a_sensible_number_of_days(peer: Peer, days: str) -> None:
    answer = peer.client.get("/v1/report", query_string={"days": days})

    assert answer.status_code == 400
    assert answer.json is not None
    assert answer.json["reason"] == "bad_field"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/status"),
        ("GET", "/v1/dead-letters"),
        ("POST", "/v1/dead-letters/requeue"),
        ("GET", "/v1/report"),
    ],
)
def test_every_path_needs_the_credential(tmp_path: Path, method: str, path: str) -> None:
    with a_service(tmp_path, auth={"bearer_token_file": "token"}) as peer:
        body = {"all": True} if method == "POST" else None
        without = peer.client.open(path, method=method, json=body)
        with_it = peer.client.open(path, method=method, json=body, headers=BEARER)

    assert (without.status_code, with_it.status_code) == (401, 200)
