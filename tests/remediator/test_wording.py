"""How the pages say things: times in one unit, commands as code, what a person can do now."""

from datetime import timedelta

import pytest

from remediator.config import Breaker
from remediator.operation import Attempt, HeldBy, NodeOperation, Phase
from remediator.webhook.wording import breaker_words, choices, coded, span
from tests.remediator.building import NOW, fleet_of, node_of, pinned


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(seconds=119), "119 s"),
        (timedelta(minutes=119), "119 min"),
        (timedelta(hours=47), "47 h"),
        (timedelta(days=6, hours=23), "6 d"),
        (timedelta(minutes=-5), "5 min"),
    ],
)
def test_a_time_has_one_unit_and_no_sign(time: timedelta, words: str) -> None:
    assert span(time) == words


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("waits for `remediator approve no-1`", "waits for <code>remediator approve no-1</code>"),
        ("`<b>` and `x`", "<code>&lt;b&gt;</code> and <code>x</code>"),
        ("one ` alone <i>", "one ` alone &lt;i&gt;"),
        ("", ""),
    ],
)
def test_what_stands_between_backquotes_is_code_and_all_is_escaped(text: str, html: str) -> None:
    assert str(coded(text)) == html


REPAIRED = (Attempt(0, 1, NOW),)
APPROVAL = (HeldBy("approval", "waits"),)


@pytest.mark.parametrize(
    ("operation", "commands"),
    [
        (pinned(), ["cancel no-1"]),
        (pinned(held_by=APPROVAL), ["approve no-1", "cancel no-1"]),
        (pinned(phase=Phase.ESCALATED), ["release n1", "cancel no-1"]),
        (pinned(phase=Phase.ESCALATED, isolated=False), ["cancel no-1"]),
        (pinned(phase=Phase.SUCCEEDED, isolated=False), []),
    ],
    ids=["it waits", "for approval", "escalated", "escalated in service", "it has ended"],
)
def test_a_person_is_told_what_can_be_done_now(
    operation: NodeOperation, commands: list[str]
) -> None:
    assert [command for command, _ in choices(operation)] == [f"remediator {c}" for c in commands]


def test_of_a_repaired_node_it_is_said_that_it_is_proven_first() -> None:
    ((_, does),) = choices(pinned(phase=Phase.EXECUTING, attempts=REPAIRED))

    assert "proven first" in does


@pytest.mark.parametrize(
    ("nodes", "settings", "words"),
    [
        (10, Breaker(), "opens when more than 3 of 10 nodes"),
        (3, Breaker(), "no breaker for fewer than 4 nodes"),
        (10, Breaker(enabled=False), "switched off"),
    ],
)
def test_how_the_breaker_stands_is_said_with_its_limit(
    nodes: int, settings: Breaker, words: str
) -> None:
    fleet = fleet_of(*(node_of(f"n{number}") for number in range(nodes)))

    assert words in breaker_words(fleet, settings)
