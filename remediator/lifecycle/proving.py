"""Verifying, Releasing and what a person may still ask of an escalated operation. Pure.

No pause and no breaker holds anything back here: what is proven returns.
"""

from itertools import takewhile

from remediator import proof
from remediator.cluster import AskProbe, Failed, Judgement, NotYet, Proven, Release, fault_is_clear
from remediator.lifecycle.ending import ends_as, failed, give_back, prove, release
from remediator.lifecycle.step import Case, Step, Wait, act, escalate, go, stay
from remediator.operation import AttemptOutcome, Intent, IntentAction, Phase, Reason, Wish

MOST_BOOTS = 2
"""So often a node may reboot by itself while it is being proven; once more, and the repair has not helped."""
_PROOF = frozenset({Phase.VERIFYING, Phase.RELEASING})


def verifying(case: Case) -> Step:
    """Release what is proven; what is not goes up the ladder, or back to where it came from."""
    if case.status.fixed_at is None:
        return escalate(case, Reason.INVALID_OPERATION, "status.fixedAt is missing while Verifying")
    if (anew := _another_boot(case)) is not None:
        return anew
    judgement = _judged(case)
    if isinstance(judgement, Proven):
        since = judgement.clear_since or case.status.clear_since or case.now
        return release(case, Reason.PROVEN, judgement.text, clear_since=since)
    if isinstance(judgement, Failed):
        return _not_proven(case, judgement.reason, judgement.text)
    if case.overdue:
        return _not_proven(case, Reason.NOT_PROVEN, f"not proven in time: {judgement.text}")
    return _not_yet(case, judgement)


def _another_boot(case: Case) -> Step | None:
    """What was seen of one boot says nothing of the next; a node that reboots again and again is not well.

    The time by which all is to be proven stays. A boot id that is not shown is no other boot.
    """
    proven, seen = case.status.boot_id, case.node.boot_id
    if not seen or seen == proven:
        return None
    if proven and _boots(case) >= MOST_BOOTS:
        return _not_proven(case, Reason.NOT_PROVEN, "the node reboots again and again")
    text = "the node has rebooted by itself" if proven else "the node shows its boot id now"
    return go(
        case,
        Phase.VERIFYING,
        Reason.REBOOTED if proven else Reason.WAITS_FOR_CHECKS,
        f"{text}: its proof begins anew",
        fixed_at=case.now,
        boot_id=seen,
        clear_since=None,
        intent=None,
        deadline=case.status.deadline,
    )


def _boots(case: Case) -> int:
    """How often it has rebooted since its proof began, a lost proof included."""
    since = takewhile(lambda entry: entry.phase in _PROOF, reversed(case.status.history))
    return sum(entry.reason is Reason.REBOOTED for entry in since)


def _not_yet(case: Case, judgement: NotYet) -> Step:
    asked = case.status.intent is not None and case.status.intent.action is IntentAction.PROBE
    if judgement.ask_probe and asked:
        return act(case, AskProbe(case.node.name, case.node.uid, case.operation.uid))
    changes = {}
    if judgement.ask_probe:
        changes = {"intent": Intent(IntentAction.PROBE, case.now, case.node.boot_id)}
    return stay(
        case,
        judgement.reason,
        judgement.text,
        judgement.wake_at,
        clear_since=judgement.clear_since,
        **changes,
    )


def _not_proven(case: Case, reason: Reason, text: str) -> Step:
    if not case.operation.repaired and case.status.wish is None:
        # It had cleared by itself and is back: the ladder begins where it was left.
        return go(case, Phase.RETRYING, reason, text, deadline=case.now, clear_since=None)
    if case.status.wish is Wish.RELEASE:
        return escalate(case, reason, f"asked for by {case.status.wish_by}, but {text}")
    return failed(case, reason, text, AttemptOutcome.NOT_PROVEN)


def releasing(case: Case) -> Step:
    """Take our taint off and nothing else; a fault that is back stops it."""
    if not case.tainted:
        phase, reason, text = ends_as(case)
        return go(case, phase, reason, text, isolated=False, wish=None)
    as_it_was = case.status.reason is Reason.CANCELLED_BY_PERSON
    if not as_it_was and not _still_proven(case):
        text = "the proof no longer holds"
        since = case.status.fixed_at
        deadline = (since or case.now) + case.playbook.proof.deadline
        return go(
            case, Phase.VERIFYING, Reason.PROOF_LOST, text, clear_since=None, deadline=deadline
        )
    if case.overdue:
        return escalate(case, Reason.CANNOT_RELEASE, "the taint could not be taken off in time")
    boot_id = "" if as_it_was else case.status.boot_id
    operation, node = case.operation, case.node
    return act(case, Release(node.name, node.uid, operation.name, operation.uid, boot_id))


def _judged(case: Case) -> Judgement:
    return proof.judge(
        case.operation,
        case.observation,
        proof.settings_for(case.operation, case.playbook),
        case.now,
        case.config.freshness,
    )


def _still_proven(case: Case) -> bool:
    if case.status.fixed_at is None:
        return False
    return isinstance(_judged(case), Proven)


def escalated(case: Case) -> Step:
    """Nothing by itself, but a person may have it proven and released."""
    if not case.status.isolated:
        return _escalated_in_service(case)
    if case.status.wish is Wish.CANCEL and not case.operation.repaired:
        return give_back(case)
    if case.status.wish is not None:
        text = f"asked for by {case.status.wish_by}: proving first"
        return prove(case, Reason.RELEASE_REQUESTED, text)
    return Wait(None, case.status.reason, case.status.message)


def _escalated_in_service(case: Case) -> Step:
    if case.tainted:
        # An effect that was under way when time was up has come through.
        text = "our taint stands after all"
        return go(case, Phase.ESCALATED, case.status.reason, text, isolated=True)
    if case.status.wish is not None:
        text = f"closed by {case.status.wish_by}; the node was in service all the time"
        return go(case, Phase.CANCELLED, Reason.CANCELLED_BY_PERSON, text, wish=None)
    if fault_is_clear(case.operation, case.observation, case.now, case.config.freshness.alerts):
        return go(
            case,
            Phase.CANCELLED,
            Reason.CLEARED_BEFORE_ACTION,
            "every cause has cleared; nothing was done",
            clear_since=case.now,
        )
    return Wait(None, case.status.reason, case.status.message)
