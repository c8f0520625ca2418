"""The verdict of the crash tests finds each way in which GitHub can be wrong, and the senders keep each group's order."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from sandbox.alert_senders import (
    DUPLICATE,
    Lives,
    Sender,
    Webhook,
    mistakes,
    random_lives,
    repaired,
    settled,
)
from sandbox.github_server.model import Issue

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LIVES = Lives((), {"g1": True, "g2": False}, nodes=2)
OPEN = Issue(1, 1, 1, "GPURuntimeError: g=g1", "n0 n1", "bot", NOON, NOON)
OVER = replace(OPEN, number=2, title="GPURuntimeError: g=g2", state="closed")


@pytest.mark.parametrize(
    ("issues", "wrong"),
    [
        pytest.param([OPEN, OVER], [], id="as told"),
        pytest.param([OPEN], [], id="over before it was filed"),
        pytest.param([OVER], ["g1: lost, should be one that is open"], id="lost"),
        pytest.param(
            [OPEN, OPEN],
            ["g1: ['open', 'open'], should be one that is open"],
            id="double",
        ),
        pytest.param(
            [OPEN, replace(OPEN, state="closed", state_reason=DUPLICATE)], [], id="repaired"
        ),
        pytest.param([replace(OPEN, body="n0")], ["g1: a member is lost"], id="a member lost"),
        pytest.param(
            [OPEN, replace(OVER, state="open")],
            ["g2: ['open'], should be one that is closed"],
            id="still open",
        ),
        pytest.param(
            [OPEN, replace(OVER, title="g=other")], ["other: not one of ours"], id="strange"
        ),
    ],
)
def test_the_verdict_names_what_differs(issues: Sequence[Issue], wrong: list[str]) -> None:
    assert mistakes(issues, LIVES) == wrong


def test_duplicates_closed_as_such_are_counted() -> None:
    assert repaired([OPEN, replace(OPEN, state_reason=DUPLICATE)]) == 1


def test_what_stays_wrong_is_returned() -> None:
    assert settled(lambda: ["lost"], steady=0, patience=0.1) == ["lost"]


def test_senders_try_again_and_keep_each_groups_order() -> None:
    lives = random_lives(random.Random(3), 10, nodes=1, most_steps=4, start=NOON)
    dice, taken = random.Random(4), list[Webhook]()

    def post(webhook: Webhook) -> tuple[int, object]:
        if dice.random() < 0.2:
            raise ConnectionError
        status = 503 if dice.random() < 0.2 else 200
        if status == 200:
            taken.append(webhook)
        return status, {}

    senders: list[Sender] = []
    senders += [Sender([post], lives.webhooks, 0, senders) for _ in range(2)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    for key in {webhook["groupKey"] for webhook in lives.webhooks}:
        sent = [each for each in lives.webhooks if each["groupKey"] == key]
        got = [each for each in taken if each["groupKey"] == key]
        assert got == [each for one in sent for each in (one, one)]
