"""Answers that take their time, fetched in a thread of their own, so that no slow peer holds up a decision.

Whoever needs an answer gets the last one with its age, and is told when a newer one has come.
"""

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from structlog.typing import FilteringBoundLogger

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Answered(Generic[V]):
    """An answer; `as_of` is from before the question was sent."""

    value: V
    as_of: datetime


class Asked(Generic[V]):
    """Asks for keys one after the other.

    Args:
        ask: Gives the answer to a key; must not raise.
        clock: The time.
        max_age: How old an answer may become before it is asked for again.
        told: Gets the names of those who waited for an answer that has come.
    """

    def __init__(
        self,
        ask: Callable[[str], V],
        *,
        clock: Callable[[], datetime],
        max_age: timedelta,
        told: Callable[[Collection[str]], None],
        log: FilteringBoundLogger,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._max_age = max_age
        self._told = told
        self._log = log
        self._answers: dict[str, Answered[V]] = {}
        self._waiting: dict[str, set[str]] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def get(self, key: str, who: str, newer_than: datetime | None = None) -> Answered[V] | None:
        """The last answer; one that is too old is asked for anew, and `who` is told about it."""
        with self._changed:
            found = self._answers.get(key)
            old = found is None or self._clock() - found.as_of >= self._max_age
            if found is not None and newer_than is not None and found.as_of <= newer_than:
                old, found = True, None
            if old:
                self._waiting.setdefault(key, set()).add(who)
                self._changed.notify()
            return found

    def start(self) -> None:
        """Begin to ask."""
        self._thread = threading.Thread(target=self._run, name="asking", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the question that is under way."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def _run(self) -> None:
        while (key := self._next()) is not None:
            as_of = self._clock()
            try:
                answer = Answered(self._ask(key), as_of)
            except Exception:  # noqa: BLE001 - the thread must go on asking for all others
                self._log.exception("asking_failed", key=key)
                self._changed_after(key, None)
                continue
            self._changed_after(key, answer)

    def _next(self) -> str | None:
        with self._changed:
            while not self._waiting and not self._stopping:
                self._changed.wait()
            return None if self._stopping else next(iter(self._waiting))

    def _changed_after(self, key: str, answer: Answered[V] | None) -> None:
        with self._changed:
            names = self._waiting.pop(key, set())
            if answer is not None:
                self._answers[key] = answer
                oldest = answer.as_of - 10 * self._max_age
                for other in [k for k, each in self._answers.items() if each.as_of < oldest]:
                    del self._answers[other]
        self._told(names)
