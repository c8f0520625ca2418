"""Sends what `plan` finds to be missing, in a thread of its own.

Decides when and how often, never what is healthy. While the API is away the last verdicts wait here.
"""

import random
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError
from chassis.kube_client import (
    NODES,
    Conflict,
    Invalid,
    KubeClient,
    NotFound,
    PatchKind,
    Throttled,
    Unavailable,
)
from chassis.kube_watch import Backoff
from exporters.condition_writer.plan import (
    NodeView,
    Wanted,
    next_heartbeat,
    plan_patch,
    view_of,
)
from exporters.verdict import ConditionState

_COALESCE = timedelta(milliseconds=300)
_MOST_WAIT = timedelta(seconds=60)
_IDLE_WAIT = timedelta(minutes=1)
_STOP_SECONDS = 2.0


class PatchResult(StrEnum):
    """What became of a patch."""

    OK = "ok"
    CONFLICT = "conflict"
    """The node is another by now, or somebody else was faster."""
    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    GONE = "gone"
    """There is no such node."""
    REFUSED = "refused"
    """Not allowed, or not accepted; a person must change something."""


class Goal(Protocol):
    """Who knows what the node shall have."""

    def meet(self, view: NodeView) -> None:
        """Take note of a node that was seen for the first time, or under a new UID, or again."""

    def wanted(self, view: NodeView) -> Wanted | None:
        """What it shall have; None while that is not known."""

    def wrote(self, view: NodeView) -> None:
        """Take note of the node as a patch has left it; somebody may have changed it since."""


class ConditionWriter:
    """Keeps one node's conditions as `goal` wants them. `see` and `wake` may be called from any thread."""

    def __init__(  # noqa: PLR0913 - composition, all by name
        self,
        client: KubeClient,
        node: str,
        goal: Goal,
        *,
        heartbeat: timedelta,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
        count: Callable[[PatchResult], None],
        dice: Callable[[], float] = random.random,
        coalesce: timedelta = _COALESCE,
        backoff: Backoff | None = None,
        before_write: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing runs before `start`.

        Args:
            client: Writes.
            node: Its name.
            goal: Asked before each write.
            heartbeat: How often all conditions are written anew, on average.
            clock: The time, aware.
            log: Takes one line when writing begins to fail and one when it works again.
            count: Told how each patch ended.
            dice: Numbers from 0 to below 1.
            coalesce: How long to wait for more changes after the first.
            backoff: The waits after failures.
            before_write: Called before each patch, to put what it rests on safely on disk.
        """
        self._client = client
        self._node = node
        self._goal = goal
        self._period = heartbeat
        self._clock = clock
        self._log = log
        self._count = count
        self._dice = dice
        self._coalesce = coalesce.total_seconds()
        self._backoff = backoff or Backoff(limit=_MOST_WAIT)
        self._before_write = before_write
        self._view: NodeView | None = None
        self._written: Mapping[str, ConditionState] = {}
        self._due: datetime | None = None
        self._failing = ""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def view(self) -> NodeView | None:
        """The node as last seen; None before, and while there is none."""
        return self._view

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="condition-writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. What was not written yet is left to the next start."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=_STOP_SECONDS)

    def wake(self) -> None:
        """Something that is wanted may have changed."""
        self._wake.set()

    def see(self, view: NodeView | None) -> None:
        """The node as the API tells it; None when it was deleted."""
        with self._lock:
            if view is not None and self._view is not None and _is_older(view, self._view):
                return
            is_new = view is not None and (self._view is None or view.uid != self._view.uid)
            self._view = view
            if view is None or is_new:
                self._written, self._due = {}, None
            if view is not None and is_new:
                self._goal.meet(view)
                self._written = view.conditions
                # What holds already need not be said at once by 5,000 agents that start together.
                self._due = self._clock() + self._period * self._dice()
        self._wake.set()

    def _run(self) -> None:
        wait = 0.0
        while not self._stopping.is_set():
            self._wake.wait(wait)
            if self._stopping.wait(self._coalesce):
                return
            self._wake.clear()
            try:
                wait = self._round()
            except Exception:  # noqa: BLE001 - a dead writer would leave stale verdicts on the node
                self._log.exception("condition_writer_crashed")
                wait = self._backoff.next_wait().total_seconds()

    def _round(self) -> float:
        """Write if there is something to write; the seconds until the next look."""
        with self._lock:
            view, written, now = self._view, self._written, self._clock()
            is_due = self._due is not None and now >= self._due
        wanted = None if view is None else self._goal.wanted(view)
        if view is None or wanted is None:
            return _IDLE_WAIT.total_seconds()
        body = plan_patch(wanted, view, written, now=now, heartbeat=is_due)
        if body is None:
            return self._until_due(now)
        try:
            self._before_write()
            node = self._client.patch(
                NODES, self._node, body, kind=PatchKind.STRATEGIC, subresource="status"
            )
        except NodemendError as error:
            return self._after_failure(error)
        self._after_success(view_of(node), wanted, "conditions" in body.get("status", {}))
        return self._until_due(now)

    def _until_due(self, now: datetime) -> float:
        if self._due is None:
            self._due = next_heartbeat(now, self._period, self._dice())
        return max(0.05, min((self._due - now).total_seconds(), _IDLE_WAIT.total_seconds()))

    def _after_success(self, view: NodeView, wanted: Wanted, told_conditions: bool) -> None:  # noqa: FBT001
        self._count(PatchResult.OK)
        self._backoff.went_well_for(timedelta(days=1))
        if self._failing:
            self._failing = ""
            self._log.info("conditions_written_again")
        self._goal.wrote(view)
        with self._lock:
            if self._view is None or view.uid != self._view.uid:
                return
            if not _is_older(view, self._view):
                self._view = view
            self._written = dict(wanted.conditions)
            if told_conditions:
                self._due = next_heartbeat(self._clock(), self._period, self._dice())

    def _after_failure(self, error: NodemendError) -> float:
        result = _result_of(error)
        self._count(result)
        if self._failing != result:
            self._failing = result
            self._log.warning("conditions_not_written", result=result, error=str(error))
        if result in {PatchResult.CONFLICT, PatchResult.REFUSED}:
            self._look_again()
        if result is PatchResult.GONE:
            self.see(None)
            return _IDLE_WAIT.total_seconds()  # the watch tells when it is there again
        wait = self._backoff.next_wait(getattr(error, "retry_after", None))
        self._stopping.wait(wait.total_seconds())
        return 0.0

    def _look_again(self) -> None:
        """After a refusal: it may be another node under the same name."""
        try:
            self.see(view_of(self._client.get(NODES, self._node)))
        except NodemendError as error:
            self._log.debug("node_not_read", error=str(error))


def _result_of(error: NodemendError) -> PatchResult:
    if isinstance(error, Conflict):
        return PatchResult.CONFLICT
    if isinstance(error, Throttled):
        return PatchResult.THROTTLED
    if isinstance(error, NotFound):
        return PatchResult.GONE
    if isinstance(error, Invalid):
        # The API calls another UID than the object's an invalid change of it.
        return PatchResult.CONFLICT if "uid" in str(error) else PatchResult.REFUSED
    return PatchResult.UNAVAILABLE if isinstance(error, Unavailable) else PatchResult.REFUSED


def _is_older(one: NodeView, other: NodeView) -> bool:
    """Whether the API told of `one` before `other`: a watch may lag behind our own writes."""
    if one.uid != other.uid:
        return False
    try:
        return int(one.version) < int(other.version)
    except ValueError:
        return False
