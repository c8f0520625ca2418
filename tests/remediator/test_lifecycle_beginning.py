"""Received to Draining: what happens before a node is repaired, one decision at a time."""

from dataclasses import replace
from typing import Any

import pytest

from chassis.contracts import TimelineOutcome
from remediator.cluster import (
    EvictPod,
    Isolate,
    NodeView,
    Pause,
    PodRef,
    Sight,
)
from remediator.lifecycle import Act, Wait
from remediator.operation import (
    Attempt,
    CauseKind,
    Intent,
    IntentAction,
    NodeOperation,
    Phase,
    Reason,
    Trigger,
)
from tests.remediator.building import (
    FINGERPRINT,
    HAND_OVER,
    HOUR,
    MINUTE,
    NOW,
    alert_of,
    cause_of,
    condition_of,
    faulty,
    fleet_of,
    node_of,
    operation_of,
    pinned,
    pod_of,
    seen,
)
from tests.remediator.deciding import cured, decide, ours, status, went

# Before the node is touched.


def test_it_pins_the_node_and_its_boot_first() -> None:
    found = status(decide(operation_of(), seen(faulty())))

    assert (found.phase, found.node_uid, found.boot_id) == (Phase.GATED, "uid-n1", "boot-1")
    assert found.deadline is not None


@pytest.mark.parametrize(
    ("node", "playbook"),
    [
        (faulty(is_virtual=True), {}),
        (faulty(scaling_in=True), {}),
        (faulty(control_plane=True), {}),
        (faulty(labels={"owner": "ada"}), {"gates": {"exclude": 'owner="ada"'}}),
        (faulty(labels={"pool": "b"}), {"nodes": 'pool="a"'}),
    ],
)
@pytest.mark.parametrize("operation", [operation_of(), pinned()])
def test_nodes_that_are_never_remediated_end_it(
    operation: NodeOperation, node: NodeView, playbook: dict[str, Any]
) -> None:
    step = decide(operation, seen(node), playbook=playbook)

    assert went(step) == (Phase.CANCELLED, Reason.NODE_EXCLUDED)


def test_the_reservation_and_the_intent_are_one_write_before_any_effect() -> None:
    found = status(decide(pinned(), seen(faulty())))

    assert found.phase is Phase.RESERVED
    assert found.intent is not None
    assert found.intent.action is IntentAction.ISOLATE
    assert found.isolated


def test_a_gate_that_holds_is_shown_on_the_object_and_not_written_again() -> None:
    held = decide(pinned(), seen(faulty()), playbook={"gates": {"approval": True}})
    found = status(held)
    again = decide(
        replace(pinned(), status=found), seen(faulty()), playbook={"gates": {"approval": True}}
    )

    assert (found.phase, found.reason) == (Phase.GATED, Reason.HELD)
    assert [each.gate for each in found.held_by] == ["approval"]
    assert isinstance(again, Wait)


def test_a_gate_that_never_opens_ends_with_a_person() -> None:
    step = decide(pinned(deadline=NOW), seen(faulty()), playbook={"gates": {"approval": True}})

    assert went(step) == (Phase.ESCALATED, Reason.GATE_DEADLINE)


def test_a_full_budget_is_a_reason_of_its_own() -> None:
    fleet = fleet_of(faulty(), node_of("n2", ready="False"))
    budgets = [{"name": "all", "max_unavailable": 1}]

    assert went(decide(pinned(), seen(faulty()), fleet=fleet, budgets=budgets)) == (
        Phase.GATED,
        Reason.NO_BUDGET,
    )


def test_a_fault_that_clears_while_it_waits_needs_nothing() -> None:
    healthy = node_of(conditions={"GPUIsLost": condition_of("False")})
    found = status(decide(pinned(), seen(healthy)))

    assert (found.phase, found.reason) == (Phase.CANCELLED, Reason.CLEARED_BEFORE_ACTION)
    assert found.clear_since == NOW


@pytest.mark.parametrize("sight", [Sight.FIRING, Sight.UNKNOWN, None])
def test_an_alert_that_is_not_seen_to_be_gone_is_not_gone(sight: Sight | None) -> None:
    alerts = {} if sight is None else {FINGERPRINT: alert_of(sight)}
    operation = pinned(causes=(cause_of(CauseKind.ALERT),))

    assert status(decide(operation, seen(faulty(), alerts=alerts))).phase is Phase.RESERVED


def test_a_dry_run_says_what_it_would_do() -> None:
    pods = (pod_of("train"), pod_of("agent", daemon_set=True))
    found = status(decide(pinned(dry_run=True), seen(faulty(), pods=pods)))

    assert (found.phase, found.reason) == (Phase.CANCELLED, Reason.DRY_RUN_DONE)
    assert found.outcome is TimelineOutcome.REFUSED
    assert found.message == (
        "dry run, nothing was touched; it would: isolate the node -> drain it by Evict"
        " (default/train) -> reboot -> prove it healthy and release it"
    )


@pytest.mark.parametrize("where", [{"playbook": {"dry_run": True}}, {"dry_run": True}])
def test_a_dry_run_may_be_the_playbooks_or_everybodys(where: dict[str, Any]) -> None:
    assert went(decide(pinned(), seen(faulty()), **where))[1] is Reason.DRY_RUN_DONE


def test_without_a_known_fix_a_person_is_told_and_the_node_may_stay_in_service() -> None:
    text = {"text": "Look.", "isolate": False}
    ladder = [{"name": "reboot", "repair": {"hand_over": text}}]
    found = status(decide(pinned(), seen(faulty()), playbook={"ladder": ladder}))

    assert (found.phase, found.reason) == (Phase.ESCALATED, Reason.NO_KNOWN_FIX)
    assert not found.isolated


def test_after_a_crash_it_knows_its_own_taint() -> None:
    before = decide(pinned(phase=Phase.RESERVED), seen(faulty()))
    after = decide(pinned(phase=Phase.RESERVED), seen(ours()))

    assert isinstance(before, Act)
    assert before.effects == (Isolate("n1", "uid-n1", "no-1"),)
    assert went(after) == (Phase.ISOLATED, Reason.TAINTED)


ONLY_ALERTS = {"conditions": None, "match": ['alertname="GPUDown"']}
IMPOSSIBLE: dict[str, tuple[NodeOperation, dict[str, Any], Reason, str]] = {
    "I1 a name that no taint can carry": (
        operation_of("x" * 64),
        {},
        Reason.INVALID_OPERATION,
        "its name has over 63 characters",
    ),
    "I2 a person's wish that no proof could end": (
        operation_of("repair-n1", causes=(cause_of(CauseKind.PERSON),)),
        ONLY_ALERTS,
        Reason.CANNOT_PROVE,
        "there is nothing to prove it by",
    ),
    "I3 the same of an object without causes": (
        operation_of("repair-n1", causes=()),
        ONLY_ALERTS,
        Reason.CANNOT_PROVE,
        "there is nothing to prove it by",
    ),
}


@pytest.mark.parametrize("sentence", IMPOSSIBLE)
def test_what_could_never_come_to_its_end_is_refused_before_anything_is_done(sentence: str) -> None:
    operation, playbook, reason, text = IMPOSSIBLE[sentence]
    peers = [{"url": "http://a.example"}]
    found = status(decide(operation, seen(faulty()), playbook=playbook, alertmanagers=peers))

    assert (found.phase, found.reason) == (Phase.CANCELLED, reason)
    assert text in found.message


@pytest.mark.parametrize(
    ("playbook", "name"),
    [
        ({}, "repair-n1"),
        ({**ONLY_ALERTS, "proof": {"conditions": ["GPUIsLost"], "alerts": False}}, "repair-n1"),
        ({"ladder": [{**HAND_OVER, "name": "reboot"}]}, "any.name-1"),
    ],
)
def test_an_object_made_by_hand_is_taken_under_whatever_name_it_has(
    playbook: dict[str, Any], name: str
) -> None:
    by_hand = operation_of(name, causes=(), trigger=Trigger.MANUAL)

    assert went(decide(by_hand, seen(faulty()), playbook=playbook))[0] is Phase.GATED


def test_an_object_made_by_hand_for_nothing_that_exists_says_so() -> None:
    unknown = decide(operation_of("typo", playbook="gpuu"), seen(faulty()))
    nowhere = decide(operation_of("typo", node="n9"), seen(None))

    assert went(unknown) == (Phase.CANCELLED, Reason.PLAYBOOK_GONE)
    assert status(unknown).message == "the configuration has no playbook gpuu"
    assert went(nowhere) == (Phase.NODE_GONE, Reason.NODE_DELETED)


@pytest.mark.parametrize("stop", [{"pause": Pause("ada")}, {"state_known": False}])
def test_what_stops_it_between_reservation_and_taint_gives_the_place_back(
    stop: dict[str, Any],
) -> None:
    reserved = pinned(phase=Phase.RESERVED, deadline=NOW)
    found = status(decide(reserved, seen(faulty()), fleet=fleet_of(faulty(), **stop)))
    again = decide(replace(reserved, status=found), seen(faulty()))
    under_way = decide(reserved, seen(ours()), fleet=fleet_of(ours(), **stop))

    assert (found.phase, found.reason, found.isolated) == (Phase.GATED, Reason.HELD, False)
    assert (found.isolated_at, found.intent) == (None, None)
    assert went(again)[0] is Phase.RESERVED
    assert went(under_way)[0] is Phase.ISOLATED


def test_a_dry_run_says_whom_it_would_call_after_repairs_that_did_not_last() -> None:
    former = [
        pinned(
            f"no-{i}",
            Phase.SUCCEEDED,
            isolated=False,
            attempts=(Attempt(0, 1, NOW - HOUR),),
            ended_at=NOW - HOUR,
        )
        for i in (5, 6, 7)
    ]
    found = status(decide(pinned(dry_run=True), seen(faulty()), *former))

    assert found.message.endswith("hand it over to a person, as earlier repairs did not last")


def test_a_dry_run_of_a_hand_over_isolates_only_where_it_would() -> None:
    text = {"text": "Look.", "isolate": False}
    ladder = [{"name": "reboot", "repair": {"hand_over": text}}]
    found = status(decide(pinned(dry_run=True), seen(faulty()), playbook={"ladder": ladder}))

    assert found.message.endswith("it would: hand over to a person")


# Emptying.


def test_repairs_that_did_not_last_end_with_an_inspection() -> None:
    former = [
        pinned(
            f"no-{i}",
            Phase.SUCCEEDED,
            isolated=False,
            attempts=(Attempt(0, 1, NOW - HOUR),),
            ended_at=NOW - HOUR,
        )
        for i in (5, 6, 7)
    ]
    step = decide(pinned(phase=Phase.ISOLATED), seen(ours()), *former)

    assert went(step) == (Phase.ESCALATED, Reason.TOO_MANY_OPERATIONS)
    assert status(step).isolated


def test_the_last_rung_may_be_a_person() -> None:
    ladder = [{**HAND_OVER, "name": "reboot"}]
    step = decide(pinned(phase=Phase.ISOLATED), seen(ours()), playbook={"ladder": ladder})

    assert went(step) == (Phase.ESCALATED, Reason.NO_KNOWN_FIX)


@pytest.mark.parametrize("phase", [Phase.ISOLATED, Phase.DRAINING, Phase.RETRYING, Phase.NEXT_RUNG])
def test_a_pause_stops_what_takes_something_away_but_not_for_ever(phase: Phase) -> None:
    paused = fleet_of(ours(), pause=Pause("ada"))
    look = seen(ours(), pods=(pod_of(),))
    old = pinned(phase=phase, since=NOW - 8 * 24 * HOUR, deadline=NOW)

    assert went(decide(pinned(phase=phase, deadline=NOW), look, fleet=paused))[1] is Reason.HELD
    assert went(decide(old, look, fleet=paused))[0] is Phase.ESCALATED


def test_a_gate_that_has_opened_is_shown_no_longer() -> None:
    paused = fleet_of(ours(), pause=Pause("ada"))
    look = seen(ours(), pods=(pod_of(terminating_since=NOW),))
    held = status(decide(pinned(phase=Phase.DRAINING), seen(ours(), pods=()), fleet=paused))
    after = status(decide(replace(pinned(), status=held), look))

    assert [each.gate for each in held.held_by] == ["pause"]
    assert (after.reason, after.held_by) == (Reason.PODS_TERMINATING, ())


def test_pods_are_evicted_by_their_uid() -> None:
    step = decide(pinned(phase=Phase.DRAINING), seen(ours(), pods=(pod_of(phase="Pending"),)))

    assert isinstance(step, Act)
    assert step.effects == (EvictPod(PodRef("default", "job", "uid-job")),)


def test_the_attempt_is_counted_before_the_job_is_made() -> None:
    found = status(decide(pinned(phase=Phase.DRAINING), seen(ours())))

    assert (found.phase, found.attempt, len(found.attempts)) == (Phase.EXECUTING, 1, 1)
    assert found.intent == Intent(
        IntentAction.RUN_JOB, NOW, "boot-1", "op-uid-no-1-0-1", destructive=True
    )


def test_a_node_without_a_boot_id_is_not_rebooted() -> None:
    step = decide(pinned(phase=Phase.DRAINING, boot_id=""), seen(ours(boot_id="")))

    assert went(step) == (Phase.ESCALATED, Reason.CANNOT_PROVE)


def test_a_drain_that_does_not_end_keeps_the_node_and_tells_a_person() -> None:
    late = pinned(phase=Phase.DRAINING, since=NOW - HOUR, deadline=NOW - 45 * MINUTE)
    step = decide(late, seen(ours(), pods=(pod_of(),)))

    assert went(step) == (Phase.ESCALATED, Reason.DRAIN_DEADLINE)
    assert status(step).isolated


def test_a_fault_that_clears_before_the_repair_is_proven_and_not_repaired() -> None:
    step = decide(pinned(phase=Phase.DRAINING), seen(cured()))

    assert went(step) == (Phase.VERIFYING, Reason.CLEARED_BEFORE_ACTION)
