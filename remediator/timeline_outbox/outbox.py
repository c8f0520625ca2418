"""Tells alerts2gh how operations go, from what is stored in the cluster, as late as need be.

Runs in a thread of its own: failing to tell never holds up a remediation. It writes nothing itself; how far
it has told is handed to the leader, who stores it with its next write.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from pydantic import ValidationError
from structlog.typing import FilteringBoundLogger

from chassis.contracts import TimelineEntry
from chassis.errors import NodemendError, PermanentError
from remediator.config import TimelinePeer
from remediator.metrics import TimelineMetrics
from remediator.operation import Cause, NodeOperation
from remediator.timeline_outbox.entries import alerts_of, entries_of
from remediator.timeline_outbox.posting import Poster

_MOST_ENTRIES = 500
_LOOK_SECONDS = 15.0
_FIRST_BACKOFF = timedelta(seconds=1)
_LONGEST_BACKOFF = timedelta(minutes=1)


class Outbox:
    """The entries that are still to be told.

    Args:
        operations: All stored operations.
        peer: The alerts2gh of the present configuration, None for none.
        site: The address of this service for people, empty for none.
        told: Gets the name of an operation of which more has been told.
        clock: The time.
        metrics: Counts.
        log: One line when telling begins to fail, one when it works again.
        poster: Posts entries; made from the peer if not given.
    """

    def __init__(  # noqa: PLR0913 - composition, all by name
        self,
        operations: Callable[[], Sequence[NodeOperation]],
        peer: Callable[[], TimelinePeer | None],
        *,
        site: Callable[[], str] = lambda: "",
        told: Callable[[str], None],
        clock: Callable[[], datetime],
        metrics: TimelineMetrics,
        log: FilteringBoundLogger,
        poster: Callable[[TimelinePeer], Poster] = Poster,
    ) -> None:
        self._operations = operations
        self._peer = peer
        self._site = site
        self._told = told
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._new_poster = poster
        self._poster: tuple[TimelinePeer, Poster] | None = None
        self._up_to: dict[str, int] = {}
        self._from_start: set[tuple[str, str]] = set()
        self._failing = False
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def told_up_to(self, name: str) -> int:
        """The number of the last history entry of an operation that alerts2gh has; 0 if not known here."""
        return self._up_to.get(name, 0)

    def changed(self, operation: NodeOperation) -> None:
        """There is more to tell."""
        if alerts_of(operation):
            self._wake.set()

    def start(self) -> None:
        """Begin to tell; for leaders only."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="timeline", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; what is being posted may still arrive, and does no harm."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=2)

    def _run(self) -> None:
        backoff = _FIRST_BACKOFF
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                well = self.tell()
            except Exception:  # noqa: BLE001 - the thread must outlive whatever one operation holds
                self._log.exception("timeline_crashed")
                well = False
            if well:
                backoff = _FIRST_BACKOFF
                self._wake.wait(_LOOK_SECONDS)
            else:
                self._stopping.wait(backoff.total_seconds())
                backoff = min(_LONGEST_BACKOFF, 2 * backoff)
        self._leave_poster()

    def tell(self) -> bool:
        """Tell everything that is to be told; False when it failed and is to be tried again."""
        peer = self._peer()
        if peer is None:
            return True
        for operation in self._operations():
            if self._stopping.is_set():
                return True
            if not self._tell_one(operation, peer):
                return False
        self._forget({each.name: each.uid for each in self._operations()})
        return True

    def _forget(self, stored: Mapping[str, str]) -> None:
        """What has been told of operations that are gone is of no use any more."""
        uids = set(stored.values())
        self._up_to = {name: number for name, number in self._up_to.items() if name in stored}
        self._from_start = {each for each in self._from_start if each[0] in uids}

    def _tell_one(self, operation: NodeOperation, peer: TimelinePeer) -> bool:
        history = operation.status.history
        causes = alerts_of(operation)
        if not history or not causes:
            return True
        known = max(operation.status.told, self._up_to.get(operation.name, 0))
        try:
            entries = self._entries(operation, causes, known, peer)
        except ValidationError as error:
            # Somebody wrote what no entry can hold: that must hold up no other operation.
            fields = [str(each["loc"]) for each in error.errors(include_input=False)]
            self._metrics.entries("refused", 1)
            self._log.error("timeline_impossible", operation=operation.name, fields=fields)
            entries = []
        for start in range(0, len(entries), _MOST_ENTRIES):
            if not self._post(peer, operation, entries[start : start + _MOST_ENTRIES]):
                return False
        self._from_start |= {(operation.uid, cause.fingerprint) for cause in causes}
        if history[-1].number > known:
            self._up_to[operation.name] = history[-1].number
            self._told(operation.name)
        return True

    def _entries(
        self, operation: NodeOperation, causes: Sequence[Cause], known: int, peer: TimelinePeer
    ) -> list[TimelineEntry]:
        site = self._site()
        return [
            entry
            for cause in causes
            for entry in entries_of(
                operation,
                cause,
                self._after(operation, cause.fingerprint, known),
                peer.cluster,
                site,
            )
        ]

    def _after(self, operation: NodeOperation, fingerprint: str, known: int) -> int:
        """An alert that has joined is told the story from its beginning."""
        joined = (operation.uid, fingerprint) not in self._from_start
        return 0 if joined and operation.active else known

    def _post(
        self, peer: TimelinePeer, operation: NodeOperation, entries: list[TimelineEntry]
    ) -> bool:
        try:
            self._poster_for(peer).post(entries)
        except PermanentError as error:
            self._metrics.entries("refused", len(entries))
            self._log.error("timeline_refused", operation=operation.name, error=str(error))
            return True
        except NodemendError as error:
            self._metrics.entries("deferred", len(entries))
            if not self._failing:
                self._log.warning("timeline_deferred", error=str(error))
            self._failing = True
            return False
        if self._failing:
            self._log.info("timeline_works_again")
        self._failing = False
        self._metrics.entries("told", len(entries))
        return True

    def _poster_for(self, peer: TimelinePeer) -> Poster:
        if self._poster is None or self._poster[0] != peer:
            self._leave_poster()
            self._poster = (peer, self._new_poster(peer))
        return self._poster[1]

    def _leave_poster(self) -> None:
        if self._poster is not None:
            self._poster[1].close()
        self._poster = None
