"""Every gate, in the order in which people read them. Pure."""

from collections.abc import Callable
from dataclasses import replace

from remediator.cluster import Open, QueryResult, Sight, Verdict
from remediator.gates.case import GateCase
from remediator.gates.limits import cooldown, rate_limit
from remediator.gates.windows import next_opening
from remediator.operation import APPROVED_BY, PAUSED, CauseKind, HeldBy

_MOST_TEXT = 1000
Gate = Callable[[GateCase], Verdict]


def staleness(case: GateCase) -> Verdict:
    """Nothing begins on old news."""
    if abs(case.now - case.fleet.as_of) > case.config.freshness.nodes:
        return HeldBy("staleness", "the nodes of the fleet were read too long ago")
    if not case.fleet.state_known:
        return HeldBy("staleness", "pause and breaker cannot be read")
    return Open()


def pause(case: GateCase) -> Verdict:
    """A person has stopped the fleet or this node."""
    if case.fleet.pause is not None:
        reason = f": {case.fleet.pause.text}" if case.fleet.pause.text else ""
        return HeldBy("pause", f"paused by {case.fleet.pause.by}{reason}")
    if by := case.node.annotations.get(PAUSED):
        return HeldBy("pause", f"the node is paused by {by}")
    return Open()


def breaker(case: GateCase) -> Verdict:
    """Too much of the fleet is out at once."""
    if case.fleet.breaker.open:
        return HeldBy("breaker", case.fleet.breaker.text or "the breaker is open")
    return Open()


def dry_run(case: GateCase) -> Verdict:
    """Everything, or the playbook, was switched to dry run while the operation was under way."""
    if case.config.dry_run:
        return HeldBy("dry_run", "dry_run is set for everything")
    if case.playbook.dry_run:
        return HeldBy("dry_run", f"dry_run is set for playbook {case.playbook.name}")
    return Open()


def scaling_in(case: GateCase) -> Verdict:
    """A node that is being removed is left alone, also in the middle of an operation."""
    if case.node.scaling_in:
        return HeldBy("scaling_in", "the node is being scaled in")
    return Open()


def busy_node(case: GateCase) -> Verdict:
    """One active operation a node, and one owner of the taint."""
    owner = case.node.operation_taint
    active = {each.name for each in case.others if each.active}
    if owner not in {None, case.operation.name} and owner in active:
        return HeldBy("busy_node", f"the node is isolated by {owner}")
    if owner is not None and owner in case.fleet.unreadable:
        return HeldBy("busy_node", f"the node is isolated by {owner}, which cannot be read")
    older = [
        each.name
        for each in case.same_node
        if each.active and (each.holds_capacity or each.age_order < case.operation.age_order)
    ]
    if older:
        return HeldBy("busy_node", f"{min(older)} is active on this node")
    return Open()


def control_plane(case: GateCase) -> Verdict:
    """Of the control plane, one node at a time."""
    if not case.node.control_plane:
        return Open()
    out = case.budgets().account.out - {case.node.name}
    down = sorted(name for name in out if case.fleet.nodes[name].control_plane)
    if down:
        return HeldBy("control_plane", f"another control plane node is out of service: {down[0]}")
    return Open()


def window(case: GateCase) -> Verdict:
    """Outside the windows it waits for the next one."""
    names = case.playbook.gates.windows
    if not names:
        return Open()
    opening = next_opening((case.config.windows[name] for name in names), case.now)
    if opening is not None and opening <= case.now:
        return Open()
    return HeldBy("window", f"outside the maintenance windows {', '.join(names)}", opening)


def approval(case: GateCase) -> Verdict:
    """A person must say yes."""
    if not case.playbook.gates.approval or case.operation.annotations.get(APPROVED_BY):
        return Open()
    return HeldBy("approval", f"waits for `remediator approve {case.operation.name}`")


def silence(case: GateCase) -> Verdict:
    """An alert that people have silenced is being looked after; one that is unknown might be."""
    if not case.playbook.gates.silences or not case.config.alertmanagers:
        return Open()
    for cause in case.operation.spec.causes:
        if cause.kind is not CauseKind.ALERT:
            continue
        alert = case.observation.alerts.get(cause.fingerprint)
        fresh = alert and abs(case.now - alert.as_of) <= case.config.freshness.alerts
        if alert is None or not fresh or alert.sight is Sight.UNKNOWN:
            return HeldBy("silence", f"no Alertmanager says how {cause.name} stands")
        if not alert.silences_known:
            text = f"not every Alertmanager says whether {cause.name} is silenced"
            return HeldBy("silence", text)
        if alert.silenced:
            return HeldBy("silence", f"{cause.name} is silenced {alert.silence}".rstrip())
    return Open()


def guards(case: GateCase) -> Verdict:
    """The admin's queries must pass; no data and errors are no pass."""
    for guard in case.playbook.gates.guards:
        answer = case.observation.queries.get(guard.name)
        if answer is None or abs(case.now - answer.as_of) > case.config.freshness.queries:
            return HeldBy("guard", f"guard {guard.name} has no fresh answer")
        if answer.result is not QueryResult.PASSED:
            return HeldBy(
                "guard", f"guard {guard.name}: {answer.result.value} {answer.text}".strip()
            )
    return Open()


def budget(case: GateCase) -> Verdict:
    """There must be room in every budget that selects the node."""
    return case.budgets().decide(case.operation)


_BEFORE_BUDGETS: tuple[Gate, ...] = (
    staleness,
    pause,
    breaker,
    busy_node,
    control_plane,
    cooldown,
    window,
    approval,
    silence,
    guards,
)
# Asked only once the others are open: what waits for something else takes no turn in a queue.
_QUEUES: tuple[Gate, ...] = (budget, rate_limit)
_STOPS: tuple[Gate, ...] = (staleness, pause, breaker, dry_run, scaling_in)

GATES = (
    "staleness",
    "pause",
    "breaker",
    "dry_run",
    "scaling_in",
    "busy_node",
    "control_plane",
    "cooldown",
    "window",
    "approval",
    "silence",
    "guard",
    "budget",
    "rate_limit",
)
"""The names of all gates: the values of the metric's label."""


def before_isolation(case: GateCase) -> tuple[HeldBy, ...]:
    """Every gate that holds the operation before its node is isolated; none: it may go."""
    held = _held(case, _BEFORE_BUDGETS)
    return held or _held(case, _QUEUES)


def before_harm(case: GateCase) -> tuple[HeldBy, ...]:
    """What holds back an eviction or a repair of an operation that is under way."""
    return _held(case, _STOPS)


def _held(case: GateCase, gates: tuple[Gate, ...]) -> tuple[HeldBy, ...]:
    verdicts = [gate(case) for gate in gates]
    held = [each for each in verdicts if isinstance(each, HeldBy)]
    # Their words may come from people and from peers; the object takes only so many.
    return tuple(replace(each, text=each.text[:_MOST_TEXT]) for each in held)
