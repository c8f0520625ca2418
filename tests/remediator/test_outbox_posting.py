"""Posting to alerts2gh over real HTTP: what its answers mean, and that no secret is told."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from chassis.config import SecretFile
from chassis.contracts import TimelineEntry, TimelinePhase
from chassis.errors import PermanentError, TemporaryError
from remediator.config import TimelinePeer
from remediator.metrics import TimelineMetrics
from remediator.operation import CauseKind, Phase
from remediator.timeline_outbox import Outbox, Poster
from tests.chassis.certificates import an_authority
from tests.remediator.building import NOW, START, cause_of
from tests.remediator.http_peer import HttpPeer, dead_url, http_peer
from tests.remediator.test_outbox import operation

PATH = "/v1/timeline"
ENTRY = TimelineEntry(
    fingerprint="00000000000000aa",
    starts_at=START,
    operation="no-1",
    phase=TimelinePhase.GATED,
    node="n1",
    at=NOW,
    text="waits",
)


@pytest.fixture
def peer() -> Iterator[HttpPeer]:
    with http_peer() as made:
        yield made


def poster(url: str, **changes: Any) -> Poster:
    return Poster(TimelinePeer(url=url, **({"timeout": timedelta(seconds=5)} | changes)))


def test_what_is_taken_arrives_whole(peer: HttpPeer) -> None:
    peer.says(PATH, {"status": "accepted"}, 202)

    poster(peer.url).post([ENTRY, ENTRY])

    (asked,) = peer.asked
    assert (asked.method, asked.path, asked.authorization) == ("POST", PATH, None)
    assert json.loads(asked.body) == {"entries": [ENTRY.model_dump(mode="json")] * 2}


LATER = [401, 403, 404, 408, 425, 429, 500, 502, 503, 504]
NEVER = [400, 405, 409, 413, 415, 422]


@pytest.mark.parametrize("status", LATER)
def test_what_people_or_time_can_mend_is_told_later(peer: HttpPeer, status: int) -> None:
    peer.says(PATH, {"error": "not now"}, status)

    with pytest.raises(TemporaryError, match=rf"{PATH} answered {status}: .*not now"):
        poster(peer.url).post([ENTRY])


@pytest.mark.parametrize("status", NEVER)
def test_what_alerts2gh_finds_wrong_is_never_told_again(peer: HttpPeer, status: int) -> None:
    peer.says(PATH, {"error": "entries[0].node: empty"}, status)

    with pytest.raises(PermanentError, match="entries"):
        poster(peer.url).post([ENTRY])


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_to_a_page_that_takes_everything(
    peer: HttpPeer, status: int
) -> None:
    peer.says(PATH, {}, status, Location=f"{peer.url}/login")
    peer.says("/login", b"<html>Sign in</html>")

    with pytest.raises(TemporaryError, match=r"set alerts2gh\.url"):
        poster(peer.url).post([ENTRY])
    assert [each.path for each in peer.asked] == [PATH]


def test_nobody_there_is_told_later() -> None:
    with pytest.raises(TemporaryError, match="no answer"):
        poster(dead_url()).post([ENTRY])


def test_silence_ends_with_the_timeout(peer: HttpPeer) -> None:
    peer.silent = True

    with pytest.raises(TemporaryError, match="no answer"):
        poster(peer.url, timeout=timedelta(seconds=1)).post([ENTRY])
    assert len(peer.asked) == 1


def test_a_rotated_token_counts_at_once(peer: HttpPeer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    peer.says(PATH)
    one = poster(peer.url, bearer_token_file=SecretFile(file))

    one.post([ENTRY])
    file.write_text("second\n")
    one.post([ENTRY])
    file.unlink()  # in the middle of the next rotation
    one.post([ENTRY])

    assert [each.authorization for each in peer.asked] == [
        "Bearer first",
        "Bearer second",
        "Bearer second",
    ]


def test_a_token_that_no_header_can_carry_is_not_shown(peer: HttpPeer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("sesame\nopen")

    with pytest.raises(TemporaryError) as failed:
        poster(peer.url, bearer_token_file=SecretFile(file)).post([ENTRY])
    assert "sesame" not in str(failed.value)
    assert peer.asked == []


def test_a_certificate_is_trusted_by_its_authority_only(tmp_path: Path) -> None:
    ours, other = an_authority(tmp_path / "ours"), an_authority(tmp_path / "other")
    with http_peer(ours.issue("alerts2gh")) as peer:
        peer.says(PATH)
        poster(peer.url, ca_file=ours.file).post([ENTRY])

        for ca_file in (None, other.file):
            with pytest.raises(TemporaryError, match="CERTIFICATE_VERIFY_FAILED"):
                poster(peer.url, ca_file=ca_file).post([ENTRY])
        assert len(peer.asked) == 1


def test_the_environment_sends_nothing_elsewhere(
    peer: HttpPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", dead_url())
    monkeypatch.delenv("no_proxy", raising=False)
    peer.says(PATH)

    poster(peer.url).post([ENTRY])

    assert len(peer.asked) == 1


def test_an_outage_is_made_up_for_over_http_and_told_once(peer: HttpPeer) -> None:
    peer.says(PATH, {"error": "away"}, 503)
    outbox = Outbox(
        lambda: [operation(Phase.GATED, Phase.RESERVED)],
        lambda: TimelinePeer(url=peer.url),
        told=lambda _: None,
        clock=lambda: NOW,
        metrics=TimelineMetrics(CollectorRegistry()),
        log=structlog.get_logger(),
    )
    assert not outbox.tell()

    peer.says(PATH, {"status": "accepted"})
    assert outbox.tell()
    assert outbox.tell()

    told = [json.loads(each.body)["entries"] for each in peer.asked]
    assert [[each["phase"] for each in entries] for entries in told] == [["Gated", "Reserved"]] * 2


def test_a_cause_that_somebody_wrote_by_hand_holds_up_no_other_operation(peer: HttpPeer) -> None:
    peer.says(PATH)
    written = operation(Phase.GATED, causes=(cause_of(CauseKind.ALERT, fingerprint=""),))
    nonsense = replace(written, name="no-0")
    impossible = replace(operation(Phase.GATED, node="n\u00e9"), name="no-2")
    fine = operation(Phase.GATED)
    outbox = Outbox(
        lambda: [nonsense, impossible, fine],
        lambda: TimelinePeer(url=peer.url),
        told=lambda _: None,
        clock=lambda: NOW,
        metrics=TimelineMetrics(CollectorRegistry()),
        log=structlog.get_logger(),
    )

    assert outbox.tell()

    (asked,) = peer.asked
    assert [each["node"] for each in json.loads(asked.body)["entries"]] == ["n1"]
