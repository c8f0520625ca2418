"""Everything that the agent believes: reports go in, condition states come out. No I/O; any thread may call.

A report is judged at once. Until the node has been seen, reports are kept as well, and judged again on top of what
the node says: a True that another process wrote before the restart is not ours to forget.
"""

import re
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from chassis.contracts import ConditionReason, ConditionType
from exporters.checks import gpu_lost, xid
from exporters.condition_writer import NodeView
from exporters.node_agent.state_file import Saved
from exporters.verdict import (
    CheckReport,
    ConditionPolicy,
    ConditionState,
    Memory,
    Status,
    adopt,
    step,
    unchecked,
)

_MOST_WAITING = 2000
_XID = re.compile(r"Xid([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Boot:
    """Which boot this is and when it began."""

    id: str
    time: datetime


class Board:
    """Conditions by type, memories by check. `on_change` is called, without a lock, when a condition changed."""

    def __init__(
        self,
        policies: Mapping[str, ConditionPolicy],
        boot: Boot,
        saved: Saved | None,
        clock: Callable[[], datetime],
    ) -> None:
        self._policies = policies
        self._boot = boot
        self._clock = clock
        self._lock = threading.RLock()
        self._on_change: Callable[[], None] = _nobody
        same_boot = saved is not None and saved.boot_id == boot.id
        self._memories: dict[str, Memory] = dict(saved.memories) if saved else {}
        self._positions = dict(saved.positions) if saved and same_boot else {}
        found = saved.states if saved and same_boot else {}
        self._states = {kind: state for kind, state in found.items() if kind in policies}
        self._node_uid = saved.node_uid if saved and same_boot else ""
        self._met = False
        self._waiting: deque[CheckReport] = deque(maxlen=_MOST_WAITING)
        self._last: dict[str, CheckReport] = {}
        self._blind = {each for each in _HOLDS if not self._remembers(each)}
        self._edits: dict[str, list[_Edit]] = {}
        self._in_round: dict[str, int] = {}
        self._version = 0

    def tell(self, listener: Callable[[], None]) -> None:
        """Call this whenever a condition has changed; it must not wait for anything."""
        self._on_change = listener

    @property
    def boot(self) -> Boot:
        return self._boot

    @property
    def has_met_the_node(self) -> bool:
        return self._met

    @property
    def version(self) -> int:
        """Counts up with everything that is worth saving."""
        return self._version

    @property
    def positions(self) -> Mapping[str, int]:
        """Where the readers of the kernel's log stood when they last reported in this boot."""
        with self._lock:
            return dict(self._positions)

    def conditions(self) -> Mapping[str, ConditionState]:
        """The states, one a policy."""
        with self._lock:
            return {kind: self._state(kind) for kind in self._policies}

    def memory(self, check: str) -> Memory | None:
        """What the check remembers, for its next round, which must end in `submit`."""
        with self._lock:
            self._in_round[check] = len(self._edits.get(check, ()))
            return self._memories.get(check)

    def peek(self, check: str) -> Memory | None:
        """What the check remembers, to look at."""
        with self._lock:
            return self._memories.get(check)

    def submit(
        self, report: CheckReport, memory: Memory | None = None, position: int | None = None
    ) -> None:
        """Take a round's report, what the check wants to remember, and where it stands in the kernel's log."""
        with self._lock:
            edits = self._edits_since(report.check)
            if memory is not None:
                for edit in edits:
                    memory = edit(memory)
                self._memories[report.check] = memory or {}
            if position is not None:
                self._positions[report.check] = position
            self._version += 1
            # A round that began before its memory was changed does not know what it should.
            changed = not edits and self._take(report)
        if changed:
            self._on_change()

    def forget(self, kinds: Collection[str]) -> None:
        """A person has looked, and says that these conditions shall be found out anew."""
        with self._lock:
            for kind in self._states.keys() & set(kinds):
                self._states[kind] = unchecked(kind, self._clock())
                check = _CHECK_OF.get(kind)
                if check is not None:
                    self._edit(check, _FORGETS[check])
            self._last = {
                check: each for check, each in self._last.items() if each.condition not in kinds
            }
            self._version += 1
        self._on_change()

    def meet(self, view: NodeView) -> None:
        """Take over what the node says, unless we know better from this boot.

        A node under a new UID is begun anew, from the last report of each check.
        """
        with self._lock:
            if self._met and view.uid == self._node_uid:
                return
            known = self._node_uid in {"", view.uid} and not self._met
            states = dict(self._states) if known and self._node_uid else {}
            reports = list(self._last.values()) if self._met else list(self._waiting)
            fresh = {kind for kind in self._policies if kind not in states}
            self._states = {kind: each for kind, each in states.items() if kind not in fresh}
            for kind in fresh:
                self._states[kind] = self._adopted(kind, view)
            for report in reports:
                # What a check said before it was told of a fault that it cannot see speaks for nothing.
                if report.condition in fresh and report.check not in self._edits:
                    self._judge(report)
            self._waiting.clear()
            self._met, self._node_uid = True, view.uid
            self._version += 1
        self._on_change()

    def saved(self, probes: Mapping[str, Mapping[str, float]]) -> Saved:
        """All of it, for the state file."""
        with self._lock:
            return Saved(
                self._boot.id,
                self._node_uid if self._met else "",
                dict(self._memories),
                dict(self._states) if self._met else {},
                dict(self._positions),
                probes,
            )

    def _take(self, report: CheckReport) -> bool:
        if not self._met:
            self._waiting.append(report)
        self._last[report.check] = report
        return self._judge(report)

    def _edit(self, check: str, edit: "_Edit") -> None:
        """Change what a check remembers, also under the hands of a round that runs now."""
        self._edits.setdefault(check, []).append(edit)
        changed = edit(self._memories.get(check))
        if changed is not None:
            self._memories[check] = changed

    def _edits_since(self, check: str) -> list["_Edit"]:
        return self._edits.get(check, [])[self._in_round.get(check, 0) :]

    def _state(self, kind: str) -> ConditionState:
        return self._states.get(kind) or unchecked(kind, self._clock())

    def _judge(self, report: CheckReport) -> bool:
        """One more step; whether it shows."""
        policy = self._policies.get(report.condition)
        if policy is None:
            return False
        before = self._states.get(report.condition)
        after = step(before, report, policy, report.completed_at)
        self._states[report.condition] = after
        return before is None or (before.status, before.reason, before.message) != (
            after.status,
            after.reason,
            after.message,
        )

    def _adopted(self, kind: str, view: NodeView) -> ConditionState:
        found = view.conditions.get(kind)
        beat = view.heartbeats.get(kind)
        if found is not None and found.status is Status.TRUE:
            self._hold(kind, found)
        return adopt(found, beat, self._boot.time, self._policies[kind], self._clock())

    def _hold(self, kind: str, found: ConditionState) -> None:
        """A True of this boot that we remember nothing of: what cannot be seen a second time is to stay."""
        check = _CHECK_OF.get(kind)
        since_boot = found.last_transition >= self._boot.time
        if (
            check is not None
            and check in self._blind
            and since_boot
            and found.reason != ConditionReason.RESET_REQUIRED
        ):
            hold, reason, boot = _HOLDS[check], found.reason, self._boot.id
            self._edit(check, lambda memory: hold(memory, reason, boot))

    def _remembers(self, check: str) -> bool:
        return (self._memories.get(check) or {}).get("boot_id") == self._boot.id


_Edit = Callable[[Memory | None], Memory | None]


def _forget_xid(memory: Memory | None) -> Memory | None:
    """Without faults; what tells a later reset from an earlier one stays."""
    return None if memory is None else {**memory, "faults": {}}


def _hold_xid(memory: Memory | None, reason: str, boot_id: str) -> Memory:
    code = _XID.fullmatch(reason)
    return xid.hold(memory, int(code[1]) if code else 0, boot_id)


_HOLDS: Mapping[str, Callable[[Memory | None, str, str], Memory]] = {
    gpu_lost.SPEC.name: gpu_lost.hold,
    xid.SPEC.name: _hold_xid,
}
_FORGETS: Mapping[str, _Edit] = {gpu_lost.SPEC.name: gpu_lost.forget, xid.SPEC.name: _forget_xid}
_CHECK_OF: Mapping[str, str] = {
    ConditionType.GPU_IS_LOST: gpu_lost.SPEC.name,
    ConditionType.GPU_XID_ERROR: xid.SPEC.name,
}


def _nobody() -> None:
    """For a board that nobody listens to."""
