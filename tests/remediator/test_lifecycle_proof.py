"""Verifying and Releasing: what returns a node to service, one decision at a time."""

from dataclasses import replace

import pytest

from chassis.contracts import TimelineOutcome
from remediator.cluster import (
    AskProbe,
    Pause,
    Release,
)
from remediator.lifecycle import Act
from remediator.operation import (
    Cause,
    CauseKind,
    IntentAction,
    Phase,
    Reason,
)
from tests.remediator.building import (
    HOUR,
    MINUTE,
    NOW,
    REBOOT,
    cause_of,
    fleet_of,
    seen,
)
from tests.remediator.deciding import cured, decide, ours, status, verifying, went

# Proof and release.


def test_what_is_proven_is_released_and_only_by_an_announced_release() -> None:
    proven = status(decide(verifying(clear_since=NOW - 2 * MINUTE), seen(cured())))
    releasing = replace(verifying(), status=proven)

    assert (proven.phase, proven.reason) == (Phase.RELEASING, Reason.PROVEN)
    step = decide(releasing, seen(cured()))
    assert isinstance(step, Act)
    assert step.effects == (Release("n1", "uid-n1", "no-1", "uid-no-1", "boot-1"),)
    done = status(decide(releasing, seen(cured(operation_taint=None))))
    assert (done.phase, done.outcome, done.isolated) == (
        Phase.SUCCEEDED,
        TimelineOutcome.HEALED,
        False,
    )


def test_untainting_twice_touches_no_other_operations_taint() -> None:
    releasing = verifying(clear_since=NOW - 2 * MINUTE)
    proven = replace(releasing, status=status(decide(releasing, seen(cured()))))

    assert went(decide(proven, seen(cured(operation_taint="no-2"))))[0] is Phase.SUCCEEDED


def test_a_fault_that_returns_before_the_release_stops_it() -> None:
    releasing = verifying(clear_since=NOW - 2 * MINUTE)
    proven = replace(releasing, status=status(decide(releasing, seen(cured()))))

    assert went(decide(proven, seen(ours()))) == (Phase.VERIFYING, Reason.PROOF_LOST)


def test_what_is_not_proven_in_time_stays_isolated_with_a_person() -> None:
    step = decide(verifying(fixed_at=NOW - HOUR), seen(ours()))

    assert went(step) == (Phase.ESCALATED, Reason.RUNGS_EXHAUSTED)
    assert status(step).isolated


def test_what_is_not_proven_is_tried_again_as_often_as_the_rung_says() -> None:
    ladder = [{**REBOOT, "attempts": 2}, {**REBOOT, "name": "now"}]
    late = {"fixed_at": NOW - HOUR}

    again = decide(verifying(**late), seen(ours()), playbook={"ladder": ladder})
    up = decide(verifying(attempt=2, **late), seen(ours()), playbook={"ladder": ladder})

    assert went(again)[0] is Phase.RETRYING
    assert (went(up)[0], status(up).rung, status(up).attempt) == (Phase.NEXT_RUNG, 1, 0)


def test_the_probe_is_announced_and_then_asked_for() -> None:
    proof = {"soak": "1m", "deadline": "10m", "probe": True}
    operation = verifying(clear_since=NOW - 2 * MINUTE)
    first = status(decide(operation, seen(cured()), playbook={"proof": proof}))
    step = decide(replace(operation, status=first), seen(cured()), playbook={"proof": proof})

    assert first.intent is not None
    assert first.intent.action is IntentAction.PROBE
    assert isinstance(step, Act)
    assert step.effects == (AskProbe("n1", "uid-n1", "uid-no-1"),)


@pytest.mark.parametrize("phase", [Phase.AWAITING_RETURN, Phase.VERIFYING, Phase.RELEASING])
def test_a_tripped_breaker_holds_back_no_recovery(phase: Phase) -> None:
    operation = verifying(clear_since=NOW - 2 * MINUTE)
    operation = replace(operation, status=replace(operation.status, phase=phase))
    fleet = fleet_of(cured())
    stopped = replace(fleet, pause=Pause("ada"), breaker=replace(fleet.breaker, open=True))
    look = seen(cured(boot_id="boot-2"))

    assert decide(operation, look, fleet=stopped) == decide(operation, look, fleet=fleet)


@pytest.mark.parametrize("cause", [(), (cause_of(CauseKind.ALERT),)])
def test_what_an_alert_or_a_person_began_is_proven_by_the_playbooks_own_conditions(
    cause: tuple[Cause, ...],
) -> None:
    proof = {"soak": "1m", "deadline": "10m", "alerts": False}
    operation = verifying(clear_since=NOW - 2 * MINUTE, causes=cause)

    healed = decide(operation, seen(cured()), playbook={"proof": proof})
    broken = decide(operation, seen(ours()), playbook={"proof": proof})

    assert went(healed) == (Phase.RELEASING, Reason.PROVEN)
    assert went(broken) == (Phase.VERIFYING, Reason.WAITS_FOR_CHECKS)
