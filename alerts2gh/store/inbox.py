"""Group commit: many webhooks, one transaction, one fsync.

Callers hand rows over and wait; one thread writes whatever has queued meanwhile. It knows nothing of what the
rows are. A caller returns only after its own rows are committed, or with the error that kept them from it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitedTooLongError
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Condition, Thread
from typing import Generic, TypeVar

from chassis.errors import TemporaryError

R = TypeVar("R")

_BATCH_BYTES = 16 * 1024 * 1024
_PATIENCE = timedelta(seconds=30)  # longer than a sender waits; it will send again


@dataclass(frozen=True, slots=True)
class _Ticket(Generic[R]):
    rows: Sequence[R]
    size: int
    done: Future[None] = field(default_factory=Future)


class Inbox(Generic[R]):
    """The queue and its one writer thread."""

    def __init__(self, write: Callable[[Sequence[R]], None]) -> None:
        """`write` commits rows, all or none, and raises if it could not."""
        self._write = write
        self._waiting: deque[_Ticket[R]] = deque()
        self._changed = Condition()
        self._closed = False
        self._thread = Thread(target=self._run, name="store-inbox", daemon=True)
        self._thread.start()

    def commit(self, rows: Sequence[R], size: int) -> None:
        """Return once `rows` (of `size` bytes) are durable.

        Raises:
            TemporaryError: They are not, or nobody knows within half a minute.
        """
        ticket = _Ticket(rows, size)
        with self._changed:
            if self._closed:
                raise TemporaryError("the store is closed")
            self._waiting.append(ticket)
            self._changed.notify()
        try:
            ticket.done.result(_PATIENCE.total_seconds())
        except WaitedTooLongError as error:
            raise TemporaryError("storing a delivery takes too long") from error
        except BaseException as error:  # an error of the other thread, told to this caller
            raise TemporaryError(str(error) or type(error).__name__) from error

    def close(self) -> None:
        """Write what has queued, then end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            try:
                self._write([row for ticket in batch for row in ticket.rows])
            except BaseException as error:  # noqa: BLE001  the callers raise it; the thread must live on
                for ticket in batch:
                    ticket.done.set_exception(error)
            else:
                for ticket in batch:
                    ticket.done.set_result(None)

    def _next_batch(self) -> list[_Ticket[R]]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            batch: list[_Ticket[R]] = []
            size = 0
            while self._waiting and (not batch or size + self._waiting[0].size <= _BATCH_BYTES):
                batch.append(self._waiting.popleft())
                size += batch[-1].size
            return batch
