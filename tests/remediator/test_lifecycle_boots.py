"""What is proven is one boot of a node: one that reboots by itself meanwhile is proven anew, or is not well."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.cluster import NodeView, ProbeState, ProbeView, Release
from remediator.lifecycle import Act, Wait
from remediator.operation import (
    HistoryEntry,
    NodeOperation,
    OperationStatus,
    Phase,
    Reason,
    Wish,
)
from tests.remediator.building import (
    HOUR,
    MINUTE,
    NOW,
    REBOOT,
    config_of,
    operation_of,
    pinned,
    playbook_of,
    seen,
)
from tests.remediator.deciding import cured, decide, ours, status, verifying, went
from tests.remediator.small_world import World

SOAKED: dict[str, Any] = {"clear_since": NOW - 2 * MINUTE}
ASKED = {"wish": Wish.RELEASE, "wish_by": "ada"}


def history(*reasons: Reason, phase: Phase = Phase.VERIFYING) -> tuple[HistoryEntry, ...]:
    """A proof so far: each reason is one entry, after the coming to the proof."""
    wait = HistoryEntry(1, NOW - HOUR, Phase.AWAITING_RETURN, Reason.WAITS_FOR_REBOOT, 0, 1, "")
    steps = (
        HistoryEntry(number, NOW - MINUTE, phase, reason, 0, 1, "")
        for number, reason in enumerate(reasons, 2)
    )
    return (wait, *steps)


ANEW = (Phase.VERIFYING, Reason.REBOOTED)
PROVEN = (Phase.RELEASING, Reason.PROVEN)
ONCE, TWICE = (
    history(Reason.RETURNED, *[Reason.REBOOTED, Reason.SOAKING] * times) for times in (1, 2)
)
BOOTS: dict[str, tuple[NodeOperation, NodeView, tuple[Phase, Reason]]] = {
    "B1 the boot that was seen when the proof began is proven": (
        verifying(**SOAKED),
        cured(),
        PROVEN,
    ),
    "B2 a new boot begins the proof anew": (verifying(**SOAKED), cured(boot_id="boot-2"), ANEW),
    "B3 so does one of a node that is not well": (verifying(), ours(boot_id="boot-2"), ANEW),
    "B4 a second time, too": (
        verifying(history=ONCE, **SOAKED),
        cured(boot_id="boot-3"),
        ANEW,
    ),
    "B5 a third time the repair has not helped": (
        verifying(history=TWICE, **SOAKED),
        cured(boot_id="boot-4"),
        (Phase.ESCALATED, Reason.RUNGS_EXHAUSTED),
    ),
    "B6 reboots before this proof do not count": (
        verifying(history=(*history(*[Reason.REBOOTED] * 3), *history(Reason.RETURNED)), **SOAKED),
        cured(boot_id="boot-2"),
        ANEW,
    ),
    "B7 those before a lost proof do": (
        verifying(history=(*TWICE, *history(Reason.PROVEN, phase=Phase.RELEASING)[1:]), **SOAKED),
        cured(boot_id="boot-4"),
        (Phase.ESCALATED, Reason.RUNGS_EXHAUSTED),
    ),
    "B8 a boot id that is not shown is no other boot, and proves nothing": (
        verifying(**SOAKED),
        cured(boot_id=""),
        (Phase.VERIFYING, Reason.WAITS_FOR_CHECKS),
    ),
    "B9 not even at the deadline": (
        verifying(fixed_at=NOW - HOUR, deadline=NOW - MINUTE, **SOAKED),
        cured(boot_id=""),
        (Phase.ESCALATED, Reason.RUNGS_EXHAUSTED),
    ),
    "B10 one that was not shown when the proof began is proven from when it is": (
        verifying(boot_id="", **SOAKED),
        cured(),
        (Phase.VERIFYING, Reason.WAITS_FOR_CHECKS),
    ),
    "B11 an escalated node's release proof begins anew as well": (
        verifying(**ASKED, **SOAKED),
        cured(boot_id="boot-2"),
        ANEW,
    ),
    "B12 and goes back to the person in the end": (
        verifying(history=TWICE, **ASKED, **SOAKED),
        cured(boot_id="boot-4"),
        (Phase.ESCALATED, Reason.NOT_PROVEN),
    ),
    "B13 a node that reboots before its release is proven anew": (
        replace(pinned(phase=Phase.RELEASING, fixed_at=NOW - HOUR, attempt=1), name="no-1"),
        cured(boot_id="boot-2"),
        (Phase.VERIFYING, Reason.PROOF_LOST),
    ),
}


@pytest.mark.parametrize("sentence", BOOTS)
def test_what_a_boot_id_says_of_a_proof(sentence: str) -> None:
    operation, node, expected = BOOTS[sentence]

    assert went(decide(operation, seen(node))) == expected


def test_the_proof_that_begins_anew_keeps_its_deadline_and_nothing_else() -> None:
    before = verifying(intent=None, deadline=NOW + 3 * MINUTE, **SOAKED)
    after = status(decide(before, seen(cured(boot_id="boot-2"))))

    assert (after.boot_id, after.fixed_at, after.clear_since) == ("boot-2", NOW, None)
    assert after.deadline == NOW + 3 * MINUTE
    # What was judged in the boot before is no sign of health.
    again = decide(replace(before, status=after), seen(cured(boot_id="boot-2")))
    assert went(again) == (Phase.VERIFYING, Reason.WAITS_FOR_CHECKS)
    assert "not looked at since" in status(again).message


def test_a_node_that_reboots_all_the_time_is_not_proven_by_its_deadline() -> None:
    operation = verifying(boot_id="boot-2", fixed_at=NOW - 2 * MINUTE, deadline=NOW)
    operation = replace(operation, status=replace(operation.status, history=ONCE))
    step = decide(operation, seen(cured(boot_id="boot-2")))

    assert went(step) == (Phase.ESCALATED, Reason.RUNGS_EXHAUSTED)


@pytest.mark.parametrize("boot", ["boot-1", "boot-2", ""])
def test_the_proof_is_of_the_boot_in_which_the_node_came_back(boot: str) -> None:
    asked = pinned(phase=Phase.ESCALATED, attempt=1, **ASKED)
    step = status(decide(asked, seen(cured(boot_id=boot))))

    assert (step.phase, step.boot_id) == (Phase.VERIFYING, boot)


def test_only_what_was_proven_is_bound_to_its_boot_when_it_is_released() -> None:
    whole: dict[str, Any] = {"phase": Phase.RELEASING, "fixed_at": NOW - 5 * MINUTE}
    proven = pinned(reason=Reason.PROVEN, **whole, **SOAKED)
    given_back = pinned(reason=Reason.CANCELLED_BY_PERSON, **whole)

    def boot_of(operation: NodeOperation) -> str:
        step = decide(operation, seen(cured()))
        assert isinstance(step, Act)
        (effect,) = step.effects
        assert isinstance(effect, Release)
        return effect.boot_id

    assert boot_of(proven) == "boot-1"
    assert boot_of(given_back) == ""


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 12), max_size=6), st.lists(st.booleans(), max_size=40))
def test_nothing_is_released_that_has_not_stayed_up_for_the_soak_time(
    crashes: list[int], killed: list[bool]
) -> None:
    proof = {"soak": "1m", "deadline": "20m", "probe": True}
    config = config_of(playbook_of(ladder=[REBOOT], proof=proof))
    going = World(config, operation_of(), ["works"], kills=list(killed))
    booted: datetime | None = None
    looks = 0
    for _ in going.run():
        if going.operation.status.phase is not Phase.VERIFYING:
            continue
        looks += 1
        if crashes and looks >= crashes[0]:
            crashes.pop(0)
            looks = 0
            booted = going.now
            going.node = replace(going.node, boot_id=f"crash-{len(crashes)}")
            going.probe = ProbeView()

    end: OperationStatus = going.operation.status
    released = [(at, each) for at, _, each in going.log if isinstance(each, Release)]
    assert end.phase in {Phase.SUCCEEDED, Phase.ESCALATED}
    assert bool(released) == (end.phase is Phase.SUCCEEDED)
    for at, effect in released:
        assert isinstance(effect, Release)
        assert effect.boot_id == going.node.boot_id
        assert booted is None or at - booted >= MINUTE
        assert going.probe.state is ProbeState.PASSED
        assert going.probe.boot_id == going.node.boot_id


def test_without_news_of_the_boot_it_only_waits() -> None:
    waits = verifying(reason=Reason.WAITS_FOR_CHECKS)

    assert isinstance(decide(waits, seen(cured(boot_id=""))), Wait)
