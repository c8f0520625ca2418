"""Received, Gated, Reserved: before anything is done to the node. Pure."""

from datetime import timedelta

from chassis.alertmanager import all_match
from chassis.contracts import TimelineOutcome
from remediator.cluster import Isolate, fault_is_clear
from remediator.config import Playbook
from remediator.gates import before_isolation
from remediator.lifecycle.plan import plan_text
from remediator.lifecycle.step import LOOK_AGAIN, Case, Step, act, escalate, go, stay
from remediator.operation import HeldBy, Intent, IntentAction, Phase, Reason, Wish

RESERVATION = timedelta(minutes=5)
"""How long isolating a node may take before a person is told; the reservation goes with it."""


def received(case: Case) -> Step:
    """Pin the node and its boot, then ask the gates."""
    if (refused := _refused(case)) is not None:
        return refused
    first = case.playbook.ladder[0]
    return go(
        case,
        Phase.GATED,
        Reason.ACCEPTED,
        f"playbook {case.playbook.name}",
        node_uid=case.node.uid,
        boot_id=case.node.boot_id,
        rung_name=first.name,
        deadline=case.now + case.playbook.gates.max_wait,
    )


def gated(case: Case) -> Step:
    """Wait until nothing holds it back; a fault that clears meanwhile needs nothing."""
    if (ended := _refused(case) or _no_longer_needed(case)) is not None:
        return ended
    held = before_isolation(case.for_gates())
    if held:
        return _held(case, held)
    hand_over = case.playbook.ladder[0].repair.hand_over
    if case.operation.spec.dry_run or case.playbook.dry_run or case.config.dry_run:
        return _dry_run(case)
    if hand_over is not None and not hand_over.isolate:
        return escalate(case, Reason.NO_KNOWN_FIX, hand_over.text)
    return go(
        case,
        Phase.RESERVED,
        Reason.GATES_OPEN,
        "nothing holds it back; its place in the budgets is taken",
        isolated=True,
        isolated_at=case.now,
        intent=Intent(IntentAction.ISOLATE, case.now, case.node.boot_id),
        deadline=case.now + RESERVATION,
    )


def reserved(case: Case) -> Step:
    """Put our taint on. Finding it there already is the same: a crash may lie between."""
    if case.tainted:
        return go(
            case,
            Phase.ISOLATED,
            Reason.TAINTED,
            "no new pods are scheduled to the node",
            deadline=case.now + case.playbook.gates.max_wait,
        )
    if case.status.wish is Wish.CANCEL:
        return go(
            case,
            Phase.CANCELLED,
            Reason.CANCELLED_BY_PERSON,
            f"cancelled by {case.status.wish_by}",
            isolated=False,
            wish=None,
        )
    if case.overdue:
        text = "the node could not be isolated in time; see the log for what the API answered"
        return escalate(case, Reason.CANNOT_ISOLATE, text, isolated=False)
    return act(case, Isolate(case.node.name, case.node.uid, case.operation.name))


def _refused(case: Case) -> Step | None:
    why = unfit(case)
    return None if why is None else go(case, Phase.CANCELLED, Reason.NODE_EXCLUDED, why)


def unfit(case: Case) -> str | None:
    """Why the node is never remediated, None if it may be."""
    if case.node.is_virtual:
        return "a virtual node is never remediated"
    if case.node.scaling_in:
        return "the node is being scaled in"
    if case.node.control_plane and not case.playbook.gates.control_plane:
        return "a control plane node, and gates.control_plane of the playbook is not set"
    if _excluded(case.playbook, case):
        return "gates.exclude of the playbook fits the node"
    return None


def _excluded(playbook: Playbook, case: Case) -> bool:
    exclude = playbook.gates.exclude
    return bool(exclude) and all_match(exclude, case.node.labels)


def _no_longer_needed(case: Case) -> Step | None:
    if case.status.wish is Wish.CANCEL:
        text = f"cancelled by {case.status.wish_by}"
        return go(case, Phase.CANCELLED, Reason.CANCELLED_BY_PERSON, text, wish=None)
    if fault_is_clear(case.operation, case.observation, case.now, case.config.freshness.alerts):
        return go(
            case,
            Phase.CANCELLED,
            Reason.CLEARED_BEFORE_ACTION,
            "every cause has cleared; nothing was done",
            clear_since=case.now,
        )
    return None


def _held(case: Case, held: tuple[HeldBy, ...]) -> Step:
    text = "; ".join(each.text for each in held)
    if case.overdue:
        return escalate(case, Reason.GATE_DEADLINE, f"held back for too long: {text}")
    reason = Reason.NO_BUDGET if held[0].gate == "budget" else Reason.HELD
    due = case.status.wake_at is None or case.now >= case.status.wake_at
    # The words may change with every node that comes and goes; the gates' names do not.
    same = [each.gate for each in held] == [each.gate for each in case.status.held_by]
    shown = held if due or not same else case.status.held_by
    until = min((each.until for each in held if each.until), default=None)
    if shown == case.status.held_by:
        return stay(case, reason, text, until, held_by=shown)
    return go(
        case,
        Phase.GATED,
        reason,
        text,
        held_by=held,
        deadline=case.status.deadline,
        wake_at=case.now + LOOK_AGAIN,
    )


def _dry_run(case: Case) -> Step:
    return go(
        case,
        Phase.CANCELLED,
        Reason.DRY_RUN_DONE,
        f"dry run, nothing was touched; it would: {plan_text(case)}",
        outcome=TimelineOutcome.REFUSED,
    )
