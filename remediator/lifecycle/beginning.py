"""Received, Gated, Reserved: before anything is done to the node. Pure."""

from datetime import timedelta

from chassis.alertmanager import all_match
from chassis.contracts import TimelineOutcome
from remediator import proof
from remediator.cluster import Isolate, fault_is_clear
from remediator.config import Playbook
from remediator.gates import before_harm, before_isolation, too_many_operations
from remediator.lifecycle.plan import plan_text
from remediator.lifecycle.step import LOOK_AGAIN, Case, Step, act, escalate, go, stay
from remediator.operation import (
    Attempt,
    AttemptOutcome,
    HeldBy,
    Intent,
    IntentAction,
    Phase,
    Reason,
    Wish,
)

LONGEST_NAME = 63
"""Of an operation: it becomes the value of a taint and of a label."""
RESERVATION = timedelta(minutes=5)
"""How long isolating a node may take before a person is told; the reservation goes with it."""


def received(case: Case) -> Step:
    """Pin the node and its boot, then ask the gates."""
    if case.tainted:
        return _status_lost(case)
    if (refused := _refused(case) or _impossible(case)) is not None:
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


def _status_lost(case: Case) -> Step:
    """Our taint stands and nothing says so, as after a restore from a backup: nobody knows what was done."""
    text = "the node carries our taint, but the status that put it there is lost; release the node to have it proven"
    unknown = Attempt(0, 1, case.now, case.now, AttemptOutcome.AMBIGUOUS, "the status was lost")
    return escalate(
        case,
        Reason.INVALID_OPERATION,
        text,
        node_uid=case.node.uid,
        boot_id=case.node.boot_id,
        rung_name=case.playbook.ladder[0].name,
        attempt=1,
        attempts=(unknown,),
        isolated=True,
        isolated_at=case.now,
    )


def _impossible(case: Case) -> Step | None:
    """Refuse at once what an object made by hand asks for and what could never come to its end."""
    if len(case.operation.name) > LONGEST_NAME:
        text = f"its name has over {LONGEST_NAME} characters, too many for a taint; create it anew"
        return go(case, Phase.CANCELLED, Reason.INVALID_OPERATION, text)
    first = case.playbook.ladder[0].repair
    unprovable = proof.nothing_to_prove_by(
        case.operation, proof.settings_for(case.operation, case.playbook)
    )
    if unprovable and first.hand_over is None:
        return go(case, Phase.CANCELLED, Reason.CANNOT_PROVE, f"nothing was done: {unprovable}")
    return None


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
    held = before_harm(case.for_gates())
    if held:
        # The place in the budgets is given back: the pause may last.
        text = "; ".join(each.text for each in held)
        until = case.now + case.playbook.gates.max_wait
        return go(
            case,
            Phase.GATED,
            Reason.HELD,
            text,
            isolated=False,
            isolated_at=None,
            held_by=held,
            deadline=until,
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
    if not all_match(case.playbook.nodes, case.node.labels):
        return "nodes of the playbook does not fit the node"
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
    plan = plan_text(case)
    if too_many_operations(case.for_gates()):
        plan = "isolate the node -> hand it over to a person, as earlier repairs did not last"
    return go(
        case,
        Phase.CANCELLED,
        Reason.DRY_RUN_DONE,
        f"dry run, nothing was touched; it would: {plan}",
        outcome=TimelineOutcome.REFUSED,
    )
