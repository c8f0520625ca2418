"""What the lifecycle looks at, what it can answer, and how a status is carried forward.

Pure. `record` is the only place that makes a new status: it keeps the history, the clocks and the
outcome right whatever the phase.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from chassis.contracts import TimelineOutcome
from remediator.budgets import Allocation
from remediator.cluster import Effect, Fleet, NodeView, Observation
from remediator.config import Config, Playbook, Rung
from remediator.gates import GateCase
from remediator.operation import (
    MAX_HISTORY,
    HistoryEntry,
    NodeOperation,
    OperationStatus,
    Phase,
    Reason,
)

LOOK_AGAIN = timedelta(seconds=30)
"""How long a wait lasts at most when nothing is heard; watches end it earlier."""
MAX_TEXT = 1024
_SHORTENED = "…"


@dataclass(frozen=True, slots=True)
class Policy:
    """What the admin has written."""

    config: Config


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before `until`, or before something changes; None: nothing at all."""

    until: datetime | None
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class Record:
    """One write of this status, under the operation's resourceVersion. No effect goes with it."""

    status: OperationStatus


@dataclass(frozen=True, slots=True)
class Act:
    """Effects whose intent stands in the stored status; look again after them, at `until` at last."""

    effects: tuple[Effect, ...]
    until: datetime


Step = Wait | Record | Act


@dataclass(frozen=True, slots=True)
class Case:
    """One decision: the operation, its node and playbook as they are, and everybody else."""

    operation: NodeOperation
    observation: Observation
    node: NodeView
    playbook: Playbook
    config: Config
    fleet: Fleet
    others: Sequence[NodeOperation]
    now: datetime
    allocation: Allocation | None = None

    @property
    def status(self) -> OperationStatus:
        """As it is stored."""
        return self.operation.status

    @property
    def rung(self) -> Rung:
        """The present rung; the common rules have made sure that there is one."""
        return self.playbook.ladder[self.status.rung]

    @property
    def tainted(self) -> bool:
        """Whether the node carries our taint for this operation."""
        return self.node.operation_taint == self.operation.name

    @property
    def overdue(self) -> bool:
        """Whether the phase has lasted too long."""
        return self.status.deadline is not None and self.now >= self.status.deadline

    def for_gates(self) -> GateCase:
        """The same for the gates."""
        return GateCase(
            self.operation,
            self.playbook,
            self.node,
            self.observation,
            self.config,
            self.fleet,
            self.others,
            self.now,
            self.allocation,
        )


_OUTCOMES = {
    Phase.SUCCEEDED: TimelineOutcome.HEALED,
    Phase.ESCALATED: TimelineOutcome.NOT_HEALED,
    Phase.CANCELLED: TimelineOutcome.CANCELLED,
    Phase.SUPERSEDED: TimelineOutcome.CANCELLED,
    Phase.NODE_GONE: TimelineOutcome.CANCELLED,
}


def record(
    operation: NodeOperation, now: datetime, phase: Phase, reason: Reason, text: str, **changes: Any
) -> Record:
    """The next status. A new phase starts its clocks anew and drops what belonged to the old one."""
    status = operation.status
    text = clipped(text)
    fresh: dict[str, Any] = {
        "phase": phase,
        "reason": reason,
        "message": text,
        "wake_at": None,
        "held_by": (),
    }
    if phase is not status.phase:
        fresh |= {"since": now, "deadline": None, "intent": None}
        fresh |= {"ended_at": now if phase.is_final else None, "outcome": _OUTCOMES.get(phase)}
    fresh |= changes
    if phase is not status.phase or reason is not status.reason:
        rung, attempt = fresh.get("rung", status.rung), fresh.get("attempt", status.attempt)
        fresh["history"] = _longer(status, now, phase, reason, rung, attempt, text)
    return Record(replace(status, **fresh))


def clipped(text: str) -> str:
    """A text as long as the API takes it."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + _SHORTENED


def _longer(  # noqa: PLR0913, PLR0917 - the fields of an entry
    status: OperationStatus,
    now: datetime,
    phase: Phase,
    reason: Reason,
    rung: int,
    attempt: int,
    text: str,
) -> tuple[HistoryEntry, ...]:
    number = status.history[-1].number + 1 if status.history else 1
    entry = HistoryEntry(number, now, phase, reason, rung, attempt, text)
    return (*status.history, entry)[-MAX_HISTORY:]


def go(case: Case, phase: Phase, reason: Reason, text: str, **changes: Any) -> Record:
    """To a phase, or to another reason within it."""
    return record(case.operation, case.now, phase, reason, text, **changes)


def stay(
    case: Case, reason: Reason, text: str, until: datetime | None = None, **changes: Any
) -> Step:
    """Wait in this phase; what is new about the reason is recorded first, so that people see it."""
    status = case.status
    differs = any(getattr(status, name) != value for name, value in changes.items())
    if status.reason is not reason or differs:
        return go(case, status.phase, reason, text, deadline=status.deadline, **changes)
    latest = case.now + LOOK_AGAIN
    moments = [each for each in (until, status.deadline, latest) if each and each > case.now]
    return Wait(min(moments), reason, text)


def act(case: Case, *effects: Effect) -> Act:
    """Effects that the stored status announces."""
    return Act(effects, case.now + LOOK_AGAIN)


def escalate(case: Case, reason: Reason, text: str, **changes: Any) -> Record:
    """To a person: the node stays as it is, isolated if it was, and nothing more is done to it."""
    return go(case, Phase.ESCALATED, reason, text, clear_since=None, wish=None, **changes)
