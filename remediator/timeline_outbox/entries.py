"""From an operation's history to the entries that alerts2gh takes.

Pure. Each coming to a phase is one entry for each alert; telling one again changes nothing over there.
"""

from collections.abc import Iterator

from chassis.contracts import TimelineEntry
from remediator.operation import Cause, CauseKind, HistoryEntry, NodeOperation, Phase, Reason

_MOST_TEXT = 4000
_ADVICE = {
    Reason.AMBIGUOUS: "nobody knows whether the last repair happened: look at the node before anything else",
    Reason.RUNGS_EXHAUSTED: "no known fix helped: inspect the hardware",
    Reason.TOO_MANY_OPERATIONS: "repairs do not last: inspect the hardware",
    Reason.DRAIN_DEADLINE: "the pods named above do not leave: talk to their owners",
    Reason.POD_CANNOT_GO: "the pods named above cannot leave: talk to their owners",
    Reason.GATE_DEADLINE: "find out what holds it back for so long",
    Reason.CANNOT_PROVE: "the checks do not answer: look at the node's agent and at monitoring",
}


def alerts_of(operation: NodeOperation) -> list[Cause]:
    """The causes that alerts2gh can know."""
    return [each for each in operation.spec.causes if each.kind is CauseKind.ALERT]


def entries_of(
    operation: NodeOperation, cause: Cause, after: int, cluster: str
) -> Iterator[TimelineEntry]:
    """The entries for one alert from the history's number `after` on, oldest first."""
    name = f"{cluster}/{operation.name}" if cluster else operation.name
    for entry, attempt in _comings(operation):
        if entry.number <= after:
            continue
        yield TimelineEntry(
            fingerprint=cause.fingerprint,
            starts_at=cause.since,
            operation=name,
            phase=entry.phase,
            node=operation.spec.node,
            at=entry.at,
            text=_text(operation, entry)[:_MOST_TEXT],
            attempt=attempt,
            outcome=operation.status.outcome if _is_last(operation, entry) else None,
        )


def _comings(operation: NodeOperation) -> Iterator[tuple[HistoryEntry, int]]:
    """The entries at which a phase began, with how often it did so far.

    Of a history that was cut short the number stands in: it is as unique, and never smaller.
    """
    history = operation.status.history
    complete = bool(history) and history[0].number == 1
    times: dict[Phase, int] = {}
    before: Phase | None = None
    for entry in history:
        if entry.phase is not before:
            times[entry.phase] = times.get(entry.phase, 0) + 1
            yield entry, times[entry.phase] if complete else entry.number
        before = entry.phase


def _is_last(operation: NodeOperation, entry: HistoryEntry) -> bool:
    return entry.phase.is_final and entry.phase is operation.status.phase


def _text(operation: NodeOperation, entry: HistoryEntry) -> str:
    text = entry.text or entry.reason.value
    if entry.phase is not Phase.ESCALATED:
        return text
    node = operation.spec.node
    advice = _ADVICE.get(entry.reason, "a person must look at the node")
    after = (
        f"when it is well, `remediator release {node}` proves it and returns it"
        if operation.status.isolated
        else f"`remediator cancel {operation.name}` ends it"
    )
    return f"{text}. Next: {advice}; {after}."
