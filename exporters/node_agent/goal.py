"""What the node shall have of us: which conditions are ours to write, and which annotations.

The only place that decides on ownership; what a condition says is the board's affair.
"""

import threading
from collections.abc import Callable
from datetime import datetime

from structlog.typing import FilteringBoundLogger

from chassis.contracts import (
    DOMAIN,
    PROBE_OWNER_ANNOTATION,
    PROBE_REQUEST_ANNOTATION,
    PROBE_RESULT_ANNOTATION,
    ConditionType,
    ProbeOwner,
    ProbeResult,
    probe_request,
)
from exporters.condition_writer import NodeView, Wanted
from exporters.config.node_agent import ProbeMode
from exporters.node_agent.answering import is_final
from exporters.node_agent.board import Board
from exporters.node_agent.gpu_rounds import Presence
from exporters.node_agent.metrics import AgentMetrics

FORGET_ANNOTATION = f"{DOMAIN}/forget-findings"
"""On a Node, set by a person: condition types, joined by commas, whose findings shall be made anew."""
PROBED = ConditionType.GPU_RUNTIME_ERROR
GPU_TYPES = frozenset(
    {
        ConditionType.GPU_RUNTIME_ERROR,
        ConditionType.GPU_IS_LOST,
        ConditionType.GPU_PENDING_PAGE,
        ConditionType.PCIE_LINK_DEGRADED,
        ConditionType.GPU_XID_ERROR,
    }
)


class NodeGoal:
    """The goal of this agent. Any thread may ask."""

    def __init__(
        self,
        *,
        mode: ProbeMode,
        board: Board,
        presence: Presence,
        metrics: AgentMetrics,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
    ) -> None:
        self._mode = mode
        self._board = board
        self._presence = presence
        self._metrics = metrics
        self._clock = clock
        self._log = log
        self._view: NodeView | None = None
        self._answer: ProbeResult | None = None
        """On its way to the node; not to be written again once it has stood there."""
        self._answer_lock = threading.Lock()
        self._refused = False
        self._forgot = ""

    # What the prober asks.

    def may_probe(self) -> bool:
        """Whether nobody else owns the probe; while the node is not known, nobody does."""
        return self._mode is ProbeMode.IN_PLACE and not self._other_owner()

    def request(self) -> str | None:
        """The operation that wants all GPUs probed, unless this boot's final answer stands on the node.

        Whoever takes the answer away from there asks again.
        """
        view = self._view
        if view is None:
            return None
        operation = probe_request(view.annotations.get(PROBE_REQUEST_ANNOTATION))
        if not operation:
            return None
        found = ProbeResult.parse(view.annotations.get(PROBE_RESULT_ANNOTATION, ""))
        if any(self._answers(each, operation) for each in (found, self._answer)):
            return None
        return operation

    def _answers(self, answer: ProbeResult | None, operation: str) -> bool:
        return (
            answer is not None
            and is_final(answer)
            and (answer.operation, answer.boot_id) == (operation, self._board.boot.id)
        )

    def answered(self, answer: ProbeResult) -> None:
        """An answer for the node."""
        with self._answer_lock:
            self._answer = answer

    # What the writer asks.

    def meet(self, view: NodeView) -> None:
        self.see(view)
        self._board.meet(view)

    def see(self, view: NodeView) -> None:
        """The node as it is now."""
        self._view = view
        self._see_answer(view.annotations.get(PROBE_RESULT_ANNOTATION))
        refused = self._mode is ProbeMode.IN_PLACE and self._other_owner()
        if refused != self._refused:
            self._refused = refused
            self._metrics.probe_refused.labels(self._metrics.node).set(refused)
            if refused:
                owner = view.annotations.get(PROBE_OWNER_ANNOTATION)
                self._log.warning("gpu_probe_refused", owner=owner, annotation=PROBE_OWNER_ANNOTATION)  # fmt: skip
        self._forget(view)

    def wanted(self, view: NodeView) -> Wanted | None:
        self.see(view)
        if not self._board.has_met_the_node:
            return None
        states = dict(self._board.conditions())
        undecided: set[str] = set()
        if self._presence.there is not True:
            gpu = {kind: states.pop(kind) for kind in GPU_TYPES & states.keys()}
            undecided = set(gpu) if self._presence.there is None else set()
        handed_over = set()
        if self._mode is ProbeMode.SCHEDULED or self._other_owner():
            states.pop(PROBED, None)
            undecided.discard(PROBED)
            handed_over.add(PROBED.value)
        return Wanted(
            conditions=states,
            undecided=frozenset(undecided),
            handed_over=frozenset(handed_over),
            annotations=self._annotations(view, owns=PROBED in states),
        )

    def wrote(self, view: NodeView) -> None:
        """An answer that has been written is not written again: if it is gone, it was taken away."""
        self._see_answer(view.annotations.get(PROBE_RESULT_ANNOTATION))

    def _see_answer(self, standing: str | None) -> None:
        with self._answer_lock:
            if self._answer is not None and self._answer.dump() == standing:
                self._answer = None

    def _annotations(self, view: NodeView, *, owns: bool) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        mine = view.annotations.get(PROBE_OWNER_ANNOTATION) == ProbeOwner.NODE_AGENT
        if owns:
            found[PROBE_OWNER_ANNOTATION] = ProbeOwner.NODE_AGENT.value
        elif mine and self._presence.there is not None:
            found[PROBE_OWNER_ANNOTATION] = None
        answer = self._answer
        wanted = view.annotations.get(PROBE_REQUEST_ANNOTATION)
        if answer is not None and answer.operation == wanted:
            found[PROBE_RESULT_ANNOTATION] = answer.dump()
        if FORGET_ANNOTATION in view.annotations:
            found[FORGET_ANNOTATION] = None
        return found

    def _other_owner(self) -> bool:
        owner = self._view.annotations.get(PROBE_OWNER_ANNOTATION) if self._view else None
        return owner not in {None, "", ProbeOwner.NODE_AGENT}

    def _forget(self, view: NodeView) -> None:
        """Once a request: it is taken off the node with the next patch."""
        asked = view.annotations.get(FORGET_ANNOTATION)
        if asked is None or view.version == self._forgot:
            return
        self._forgot = view.version
        kinds = {each.strip() for each in asked.split(",")} & self._board.conditions().keys()
        self._log.info("findings_forgotten", conditions=sorted(kinds))
        self._board.forget(kinds)
