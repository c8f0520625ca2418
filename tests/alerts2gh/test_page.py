"""The pages for people: everything in them is text, whatever an alert says, and only for those who may see it."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from alerts2gh.incident import (
    Assignment,
    ClosedBy,
    Intent,
    IntentAction,
    IssueState,
    PastIssue,
)
from alerts2gh.ports import BudgetState
from chassis.contracts import TimelineEntry, TimelinePhase
from tests.alerts2gh.admin_peers import BEARER, Peer, a_service
from tests.alerts2gh.store_builders import NOW, a_part, an_alert, an_issue

MINUTE = timedelta(minutes=1)
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}"
BASIC = {"Authorization": "Basic " + base64.b64encode(b"admin:pass").decode()}
TAGS = {
    *("a", "b", "body", "br", "code", "dd", "div", "dl", "dt", "footer", "h1", "h2", "head"),
    *("header", "html", "li", "link", "main", "meta", "p", "section", "span", "strong"),
    *("table", "tbody", "td", "th", "thead", "title", "tr", "ul"),
}


class Read(HTMLParser):
    """What a browser would make of a page: its elements, their attributes, its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag == "a":
            self.links.append(dict(attrs).get("href") or "")

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    with a_service(tmp_path) as made:
        yield made


def see(peer: Peer, path: str = "/", headers: dict[str, str] | None = None) -> Read:
    answer = peer.client.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    return Read(answer.text)


def test_an_open_incident_is_told_with_issue_assignee_and_what_it_waits_for(peer: Peer) -> None:
    issue = an_issue(title="CUDA fails on node-1", assignees=("ada",))
    peer.filed(issue=issue, assignment=Assignment(settled=True))

    page = see(peer)

    for words in ("CUDA fails on node-1", "acme/nodes", "#7", "ada", "1 of 1", "default"):
        assert words in page.text
    assert "body outdated" in page.text
    assert issue.url in page.links


def test_what_waits_for_a_time_says_until_when(peer: Peer) -> None:
    peer.filed(attempts=2, retry_at=NOW + 5 * MINUTE)

    page = see(peer)

    assert "backing off" in page.text
    assert "until 2026-03-01 12:05:00 UTC" in page.text


def test_queue_limits_dead_letters_and_refusals_are_told(peer: Peer) -> None:
    peer.store.accept([a_part("Waiting", received_at=NOW - 2 * MINUTE)])
    peer.store.save_budget("main", BudgetState((NOW,), (), NOW + 5 * MINUTE, "secondary limit"))
    number = peer.store.bury("abcdef0123", "acme/nodes", "archived", "it is read-only", NOW)
    peer.store.count_refusal("bad_json", "the body is no JSON", NOW)

    text = " ".join(see(peer).text.split())

    assert "1 delivery waits, since 2 min" in text
    assert "GitHub wants silence from credential main until 2026-03-01 12:05:00 UTC" in text
    assert "it is read-only" in text
    assert str(number) in text
    assert "alerts2gh dead-letters requeue --config FILE ID" in text
    assert "the body is no JSON" in text


def test_what_closed_lately_says_who_closed_it(peer: Peer) -> None:
    peer.filed(issue=an_issue(IssueState.CLOSED, closed_at=NOW, closed_by=ClosedBy.HUMAN))

    text = see(peer).text

    assert "Recently closed" in text
    assert "a person" in text


def test_with_nothing_to_tell_the_page_says_so(peer: Peer) -> None:
    assert "Nothing is open." in see(peer).text


def hostile(peer: Peer) -> str:
    """An incident that is hostile wherever text comes from outside; its id."""
    alert = replace(
        an_alert(HOSTILE),
        annotations={"summary": HOSTILE},
        generator_url=f"javascript:alert(3)//{HOSTILE}",
    )
    part = replace(a_part(HOSTILE, alert), receiver=HOSTILE)
    issue = an_issue(title=HOSTILE, url="javascript:alert(4)", assignees=(HOSTILE,))
    incident = peer.filed(
        part,
        issue,
        assignment=Assignment(settled=True, source=HOSTILE, notes=(HOSTILE,)),
        past=(PastIssue(3, "javascript:alert(5)", HOSTILE, NOW, NOW),),
        intent=Intent(IntentAction.COMMENT, "token", NOW, unknown_since=NOW),
    )
    entry = TimelineEntry(
        fingerprint=alert.fingerprint,
        starts_at=alert.starts_at,
        operation="op-<script>",
        phase=TimelinePhase.ISOLATED,
        node="<b>node",
        at=NOW,
        text=HOSTILE,
    )
    peer.store.add_timeline([entry], NOW)
    peer.store.bury(incident.id, HOSTILE, HOSTILE, HOSTILE, NOW)
    peer.store.count_refusal(HOSTILE, HOSTILE, NOW)
    return incident.id


def test_hostile_labels_are_text_on_every_page(peer: Peer) -> None:
    incident_id = hostile(peer)

    for path in ("/", f"/incidents/{incident_id}"):
        page = see(peer, path)

        assert page.tags <= TAGS
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert not [link for link in page.links if link.lower().startswith("javascript")]
        assert HOSTILE in page.text, "it is shown as it is, not evaluated and not dropped"


def test_the_page_of_an_incident_has_members_past_intent_and_timeline(peer: Peer) -> None:
    page = see(peer, f"/incidents/{hostile(peer)}")

    for words in (
        "Alerts",
        "Earlier issues",
        "Begun",
        "comment at",
        "Node operations",
        "Isolated",
        "Dead letter",
        "default",
    ):
        assert words in page.text


def test_an_unknown_incident_is_not_found(peer: Peer) -> None:
    assert peer.client.get("/incidents/nobody").status_code == 404


def test_nothing_is_loaded_from_elsewhere(peer: Peer) -> None:
    hostile(peer)
    page = see(peer)

    loaded = [
        value
        for name, value in page.attributes
        if name in {"src", "srcset", "href"} and value not in page.links
    ]

    assert set(loaded) == {"page.css", "data:,"}
    style = peer.client.get("/page.css")
    assert style.content_type.startswith("text/css")
    assert "url(" not in style.text
    assert "@import" not in style.text
    assert "prefers-color-scheme: dark" in style.text


def test_without_its_token_a_stranger_sees_numbers_only(tmp_path: Path) -> None:
    with a_service(tmp_path, auth={"bearer_token_file": "token"}) as peer:
        incident = peer.filed(issue=an_issue(title="Secret Project is down"))
        peer.store.bury(incident.id, "acme/nodes", "archived", "hidden words", NOW)
        peer.store.count_refusal("bad_json", "other hidden words", NOW)
        stranger, wrong = see(peer), see(peer, headers={"Authorization": "Bearer wrong"})
        known = see(peer, headers=BEARER)
        inner = peer.client.get(f"/incidents/{incident.id}")

    for page in (stranger, wrong):
        assert "1 open" in " ".join(page.text.split())
        for secret in ("Secret", "acme", "hidden", "GPURuntimeError", "#7", incident.id[:8]):
            assert secret not in page.text
        assert page.links == []
    assert "Secret Project is down" in known.text
    assert inner.status_code == 401


def test_with_a_password_the_page_asks_for_it(tmp_path: Path) -> None:
    auth = {"basic_auth": {"username": "admin", "password_file": "password"}}
    with a_service(tmp_path, auth={**auth, "bearer_token_file": "token"}) as peer:
        incident = peer.filed(issue=an_issue(title="Secret Project is down"))
        for path in ("/", f"/incidents/{incident.id}"):
            refused = peer.client.get(path)

            assert refused.status_code == 401
            assert any(
                each.startswith("Basic") for each in refused.headers.getlist("WWW-Authenticate")
            )
            assert "Secret Project" in see(peer, path, BASIC).text
            assert "Secret Project" in see(peer, path, BEARER).text
