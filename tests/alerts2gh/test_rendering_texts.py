"""What titles, bodies and comments say, how long they may be, and that no alert can misuse them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts2gh.incident import (
    Assignment,
    FoldReason,
    Incident,
    Member,
    PastIssue,
    Transition,
)
from alerts2gh.rendering import BODY_LIMIT, Renderer, builtin_templates, find_marker, find_token
from alerts2gh.rendering.sizes import utf16_length
from chassis.alertmanager import AlertStatus
from tests.alerts2gh.incident_builders import ID, NOW, a_member, an_incident
from tests.alerts2gh.markdown_judge import addresses, dangers, html, table_shape
from tests.alerts2gh.test_rendering_sanitising import HOSTILE

RENDERER = Renderer(builtin_templates())
OUR_HTML = {
    "<sub>",
    "</sub>",
    "</details>",
    f"<!-- alerts2gh:v1:{ID} -->",
    "<!-- alerts2gh:write:t.0 -->",
    "<!-- alerts2gh:begin -->",
    "<!-- alerts2gh:end -->",
    "<details><summary>Labels and annotations that all alerts share</summary>",
}


def fired(name: str, at: datetime = NOW) -> Transition:
    return Transition(name, AlertStatus.FIRING, at, FoldReason.NEW_MEMBER)


@pytest.mark.parametrize(
    ("labels", "summary", "title"),
    [
        pytest.param({"alertname": "GPUDown"}, "", "GPUDown", id="a name alone"),
        pytest.param({"alertname": "GPUDown"}, "XID 79", "GPUDown: XID 79", id="a name and the common summary"),
        pytest.param(
            {"alertname": "GPUDown", "node": "n1", "gpu": "0"},
            "XID 79",
            "GPUDown: gpu=0, node=n1",
            id="what names the incident goes before the summary",
        ),
        pytest.param({}, "XID 79", "GPUDown: XID 79", id="without identity the common name"),
        pytest.param({"alertname": "a\nb @c #1"}, "", "a b @\u200bc #\u200b1", id="one line that calls nobody"),
        pytest.param({"alertname": "x" * 400}, "", "x" * 255 + "…", id="256 characters at most"),
        pytest.param({"alertname": "🚀" * 200}, "", "🚀" * 127 + "…", id="counted as UTF-16"),
        pytest.param({"alertname": "\x00\u202e"}, "", "Alerts", id="an unseen name is no name"),
    ],
)  # fmt: skip
def test_title(labels: Mapping[str, str], summary: str, title: str) -> None:
    annotations = {"summary": summary} if summary else {}
    members = [a_member(annotations=annotations, labels={"alertname": "GPUDown"})]
    assert RENDERER.title(an_incident(members, labels=dict(sorted(labels.items())))) == title


def test_the_body_tells_each_alert_with_status_since_and_differing_labels() -> None:
    started = NOW + timedelta(minutes=5)
    members = [
        a_member("n1", labels={"alertname": "A", "node": "n1", "gpu": "0"}),
        a_member("n2", labels={"alertname": "A", "node": "n2", "gpu": "0"}, firing=False),
        a_member("n3", labels={"alertname": "A", "node": "n3", "gpu": "0"}, started=started),
    ]
    body = RENDERER.new_body(an_incident(members))
    assert "**2 alerts firing**, 1 resolved, since 2026-11-30 09:00:00 UTC" in body
    rows = [line for line in body.split("\n") if line.startswith("|")]
    assert rows == [
        "| Status | Since | `node` |",
        "|---|---|---|",
        "| **firing** | 2026-11-30 09:05:00 UTC | `n3` |",
        "| **firing** | 2026-11-30 09:00:00 UTC | `n1` |",
        "| resolved | 2026-11-30 10:00:00 UTC | `n2` |",
    ]
    assert "- `gpu` = `0`" in body


def test_the_links_lead_to_graph_runbook_dashboard_silence_and_group() -> None:
    member = a_member(
        labels={"alertname": "A", "node": 'n"1'},
        annotations={
            "runbook_url": "https://wiki.example/a",
            "dashboard": "https://graf.example/d",
        },
        generator_url="https://prom.example/graph?g0.expr=up&g0.tab=1",
    )
    incident = an_incident(
        [member],
        labels={"alertname": "A", "node": 'n"1'},
        group_labels={"alertname": "A"},
        external_url="https://am.example/prefix/",
    )
    found = [unquote(url) for url in addresses(RENDERER.new_body(incident))]
    assert found == [
        "https://prom.example/graph?g0.expr=up&g0.tab=1",
        "https://wiki.example/a",
        "https://graf.example/d",
        'https://am.example/prefix/#/silences/new?filter={alertname="A", node="n\\"1"}',
        'https://am.example/prefix/#/alerts?filter={alertname="A"}',
    ]


def test_a_silence_is_not_offered_when_its_matchers_have_no_room() -> None:
    labels = {f"l{at}": "v" * 300 for at in range(20)}
    incident = an_incident(
        [a_member(labels=labels)], labels=labels, external_url="https://am.example"
    )
    assert addresses(RENDERER.new_body(incident)) == []


def test_a_label_name_outside_the_old_letters_is_quoted_in_the_silence() -> None:
    labels = {"k8s.node": "n1"}
    incident = an_incident([a_member(labels=labels)], labels=labels, external_url="http://am")
    assert 'filter={"k8s.node"="n1"}' in unquote(addresses(RENDERER.new_body(incident))[0])


def test_the_body_tells_what_is_known_beside_the_alerts() -> None:
    incident = an_incident(
        truncated=7,
        past=(
            PastIssue(3, "https://github.com/octo-org/alerts/issues/3", "resolved", NOW, NOW),
            PastIssue(9, "", "closed as not planned", NOW + timedelta(days=1), None),
        ),
        assignment=Assignment(by_us=("octocat",), source="on_call", notes=("hubot cannot be assigned",)),
        flapping_until=NOW,
        held_until=datetime.max.replace(tzinfo=UTC),
    )  # fmt: skip
    body = RENDERER.new_body(incident)
    assert "Alertmanager left out 7 more alerts" in body
    assert "[\\#3](<https://github.com/octo-org/alerts/issues/3>): opened 2026-11-30" in body
    assert body.index("(closed as not planned)") < body.index("(resolved)")
    assert "Assigned: `octocat` (by `on_call`)" in body
    assert "- hubot cannot be assigned" in body
    assert "stays open until 2026-11-30 09:00:00 UTC at least" in body
    assert "**An operation on the node has given up and waits for a person.**" in body
    assert "What you write above or below stays." in body


def test_the_body_says_when_all_is_quiet() -> None:
    members = [a_member("a", firing=False), a_member("b", firing=False, ended=NOW)]
    body = RENDERER.new_body(an_incident(members))
    assert "**All alerts are resolved** (2), since 2026-11-30 10:00:00 UTC" in body


def test_the_body_does_not_depend_on_the_order_in_which_alerts_came() -> None:
    members = [a_member(name) for name in ("a", "b", "c")]
    one, other = an_incident(members), an_incident(members[::-1])
    assert RENDERER.new_body(one) == RENDERER.new_body(other)


def test_a_comment_tells_the_changes_and_where_things_stand() -> None:
    incident = an_incident([a_member("n1"), a_member("n2", firing=False)], untold_dropped=2)
    resolved = Transition("n2", AlertStatus.RESOLVED, NOW, FoldReason.RESOLVED)
    again = Transition("n1", AlertStatus.FIRING, NOW, FoldReason.FIRING_AGAIN)
    gone = Transition("forgotten", AlertStatus.FIRING, NOW, FoldReason.NEW_MEMBER)
    text = RENDERER.comment(incident, [fired("n1"), resolved, again, gone], "c.1")
    assert find_token(text) == "c.1"
    assert text.split("\n")[1] == "**1 alert firing**, 1 resolved."
    assert [line.split("|")[2:4] for line in text.split("\n") if line.startswith("| 2026")] == [
        [" **firing** (new) ", " `n1` "],
        [" resolved ", " `n2` "],
        [" **firing** again ", " `n1` "],
    ]
    assert "2 earlier changes are not listed." in text


def a_crowd(count: int, value: str) -> list[Member]:
    return [
        a_member(
            f"m{at:04}",
            labels={"alertname": "A", "node": f"n{at:04}", **{f"l{i}": f"{value}{at}" for i in range(8)}},
            annotations={"summary": value, "description": value * 20},
            started=NOW + timedelta(seconds=at),
            firing=at % 2 == 0,
        )
        for at in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["v" * 300, "|" * 300, "🚀" * 300, "`" * 300, "@#<&" * 75])
def test_five_hundred_alerts_with_long_labels_stay_in_the_limit(value: str) -> None:
    incident = an_incident(a_crowd(500, value))
    body = RENDERER.new_body(incident, "t.0")
    assert utf16_length(body) <= BODY_LIMIT
    assert body.split("\n")[0] == f"<!-- alerts2gh:v1:{ID} -->"
    assert "**250 alerts firing**, 250 resolved" in body
    assert "`n0498`" in body
    assert "are not shown here" in body
    comment = RENDERER.comment(incident, [fired(f"m{at:04}") for at in range(200)], "c")
    assert utf16_length(comment) <= BODY_LIMIT
    assert "`n0199`" in comment


def test_all_shown_and_left_out_alerts_add_up() -> None:
    body = RENDERER.new_body(an_incident(a_crowd(500, "v" * 200)))
    rows = [line for line in body.split("\n") if line.startswith(("| **firing**", "| resolved"))]
    left_out = int(body.split(" alerts are not shown here")[0].rsplit("\n", 1)[1])
    assert len(rows) + left_out == 500
    assert len(rows) > 20


def an_annotated(texts: list[str]) -> Incident:
    a, b, c, d, e, f = texts
    labels = {"alertname": a, "node": b, c or "x": d}
    members = [
        a_member(
            f"m{at}",
            labels={**labels, "gpu": f"{e}{at}"},
            annotations={
                "summary": f,
                "description": a,
                "runbook_url": b,
                "dashboard": c,
                d or "y": e,
            },
            generator_url=f"{c}{at}",
        )
        for at in range(2)
    ]
    return an_incident(
        members,
        labels=labels,
        external_url=f"https://{a}",
        assignment=Assignment(notes=(b, c), by_us=(d,), source=e),
        past=(PastIssue(1, f, a, NOW, NOW),),
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(HOSTILE, min_size=6, max_size=6))
def test_no_alert_can_make_a_body_or_a_comment_do_anything(texts: list[str]) -> None:
    incident = an_annotated(texts)
    body = RENDERER.new_body(incident, "t.0")
    comment = RENDERER.comment(incident, [fired("m0"), fired("m1")], "t.0")
    for text in (body, comment):
        assert text.encode().decode() == text
        assert utf16_length(text) <= BODY_LIMIT
        inside = {line for each in html(text) for line in each.split("\n")}
        assert inside <= OUR_HTML
        live = [each for each in dangers(text) if not each.startswith("html: ")]
        # The link to an earlier issue is ours and works; its address is GitHub's word, not an alert's.
        earlier = unquote(texts[5].strip())
        assert [each for each in live if not earlier or earlier not in unquote(each)] == []
        assert len(set(table_shape(text))) == 1
    assert find_marker(body) == ID
    assert RENDERER.body_with_block(body, incident) is None


def test_hostile_members_never_change_the_marker_lines() -> None:
    evil = (
        f"\n<!-- alerts2gh:end -->\n<!-- alerts2gh:v1:{'e' * 32} -->\n<!-- alerts2gh:write:x -->\n"
    )
    member = a_member(labels={"alertname": evil, evil: evil}, annotations={"description": evil})
    body = RENDERER.new_body(replace(an_incident([member]), labels={"alertname": evil}), "t.0")
    assert (find_marker(body), find_token(body)) == (ID, "t.0")
    lines = body.split("\n")
    assert [line for line in lines if line.startswith("<!--")] == [
        f"<!-- alerts2gh:v1:{ID} -->",
        "<!-- alerts2gh:write:t.0 -->",
        "<!-- alerts2gh:begin -->",
        "<!-- alerts2gh:end -->",
    ]


@pytest.mark.parametrize(
    ("labels", "title"),
    [
        pytest.param(
            {"alertname": "Alerts2ghStorm"}, "Storm: many new incidents at once", id="a rollup"
        ),
        pytest.param(
            {"alertname": "Alerts2ghRefusedWebhooks"},
            "alerts2gh refused webhooks",
            id="refused webhooks",
        ),
    ],
)
def test_our_own_incidents_have_titles_for_people(labels: dict[str, str], title: str) -> None:
    assert RENDERER.title(an_incident(labels=labels)) == title
