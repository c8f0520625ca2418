"""Whatever an alert says, it is filed, says what it says, and does nothing to anybody on GitHub."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chassis.webapp import RequestRefused
from tests.alerts2gh.markdown_judge import dangers
from tests.alerts2gh.world import World, a_world, alert, webhook

OURS = re.compile(
    r"html: '(<!-- alerts2gh:[\w:. ]+-->|</?(details|summary|sub)>|<details><summary>[\w ]+</summary>)'$"
)
MARKDOWN_LIMIT, TITLE_LIMIT = 65_536, 256


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as one:
        yield one


def post(world: World, body: dict[str, Any]) -> None:
    """As it comes over the wire: the standard library escapes what orjson refuses, such as a lone surrogate."""
    world.intake.take(json.dumps(body).encode(), {})
    world.settle()


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 300, id="300 characters without a space"),
        pytest.param("ping @org/everyone and @alice", id="mentions"),
        pytest.param("closes #1, see acme/other#2 and GH-3", id="references and closing words"),
        pytest.param("--> <script>alert(1)</script> <img src=x>", id="comment end and HTML"),
        pytest.param("a|b\nc\r\nd\u2028e\u2029f", id="table and line breaks"),
        pytest.param("\x00\x01\x07\x1b[31m\x7f", id="control characters"),
        pytest.param("\u202egpj.exe\u202c \u200f\u061c", id="right-to-left marks"),
        pytest.param(
            "![x](http://evil.example/p.png) [y](javascript:alert(1))", id="image and link"
        ),
        pytest.param("`` ` ``` ~~~ <!-- alerts2gh:end -->", id="fences and our own markers"),
        pytest.param("😀" * 200 + "e\u0301", id="astral and combining characters"),
        pytest.param("\ud83d", id="a lone surrogate"),
    ],
)
def test_a_hostile_text_is_filed_and_does_nothing(world: World, text: str) -> None:
    annotations = {"summary": text, "description": text, "runbook_url": text}
    body = webhook(alert(text, annotations=annotations, label=text))
    post(world, body)

    (issue,) = world.issues()
    assert [each for each in dangers(issue.body or "") if not OURS.match(each)] == []
    assert issue.title.replace("\u200b", "").isprintable()  # which keeps mentions apart
    assert utf16(issue.title) <= TITLE_LIMIT
    assert utf16(issue.body or "") <= MARKDOWN_LIMIT
    assert (issue.body or "").startswith("<!-- alerts2gh:v1:")


def test_five_hundred_alerts_with_long_labels_are_one_issue_of_legal_size(world: World) -> None:
    alerts = [alert(f"node-{n:03d}", detail=f"{n:03d}" + "z" * 297) for n in range(500)]
    post(world, webhook(*alerts))

    (issue,) = world.issues()
    assert utf16(issue.body or "") <= MARKDOWN_LIMIT
    assert "500 alerts firing" in (issue.body or "")
    assert len(world.incident().members) == 500


def test_a_later_firing_after_hostile_text_still_finds_its_issue(world: World) -> None:
    """Text that imitates our markers must not hide the issue from us after the database is lost."""
    text = "<!-- alerts2gh:v1:00000000000000000000000000000000 --> <!-- alerts2gh:begin -->"
    world.deliver(alert(annotations={"summary": text, "description": text}))
    world.lose_database()
    world.deliver(alert(annotations={"summary": text, "description": text}))

    assert len(world.issues()) == 1


texts = st.text(max_size=40) | st.sampled_from(["@a", "#1", "-->", "\x00", "|", "`"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(field=st.sampled_from(sorted(webhook(alert()))), value=values)
def test_a_fuzzed_webhook_is_taken_or_refused_with_a_reason(
    world: World, field: str, value: object
) -> None:
    body = json.dumps({**webhook(alert()), field: value}).encode()
    before = world.store.backlog()
    try:
        taken = world.intake.take(body, {})
    except RequestRefused as error:
        taken, refused = 0, error
    else:
        refused = None

    assert refused is None or (refused.status == 400 and len(str(refused)) > 20)
    assert world.store.backlog() >= before + taken
