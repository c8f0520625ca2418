"""Runs what is due: tasks of one lane in order and never two at once, those of different lanes on a few threads.

A task that raises is logged; it never ends its thread. Nothing here knows nodes.
"""

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

Task = Callable[[], None]


class Due:
    """A task that waits for its time."""

    __slots__ = ("is_cancelled", "lane", "task")

    def __init__(self, lane: str, task: Task) -> None:
        self.lane = lane
        self.task = task
        self.is_cancelled = False

    def cancel(self) -> None:
        """Not to be run, if it has not been handed to its lane yet."""
        self.is_cancelled = True


class Timetable:
    """Threads that run tasks now or later, lane by lane."""

    def __init__(self, log: FilteringBoundLogger, *, workers: int = 8) -> None:
        self._log = log
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Due]] = []
        self._numbers = itertools.count()
        self._lanes: dict[str, deque[Task]] = {}
        self._ready: deque[str] = deque()
        self._work = threading.Semaphore(0)
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._keep_time, name="simulated-time", daemon=True),
            *(
                threading.Thread(target=self._work_on, name=f"simulated-{n}", daemon=True)
                for n in range(workers)
            ),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Run nothing more; returns when the running tasks have ended."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for _ in self._threads:
            self._work.release()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join()

    def now(self, lane: str, task: Task) -> None:
        """Run `task` behind those of its lane."""
        with self._changed:
            self._enter(lane, task)

    def after(self, seconds: float, lane: str, task: Task) -> Due:
        """Run `task` when the time is over."""
        due = Due(lane, task)
        with self._changed:
            entry = (time.monotonic() + seconds, next(self._numbers), due)
            heapq.heappush(self._waiting, entry)
            if self._waiting[0] is entry:
                self._changed.notify()
        return due

    def _enter(self, lane: str, task: Task) -> None:
        queue = self._lanes.get(lane)
        if queue is None:  # nobody works on this lane
            self._lanes[lane] = deque((task,))
            self._ready.append(lane)
            self._work.release()
        else:
            queue.append(task)

    def _keep_time(self) -> None:
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                while self._waiting and self._waiting[0][0] <= now:
                    due = heapq.heappop(self._waiting)[2]
                    if not due.is_cancelled:
                        self._enter(due.lane, due.task)
                self._changed.wait(self._waiting[0][0] - now if self._waiting else None)

    def _work_on(self) -> None:
        while True:
            self._work.acquire()
            with self._changed:
                if self._stopping:
                    return
                lane = self._ready.popleft()
                task = self._lanes[lane].popleft()
            self._run(lane, task)
            with self._changed:
                if self._lanes[lane]:
                    self._ready.append(lane)
                    self._work.release()
                else:
                    del self._lanes[lane]

    def _run(self, lane: str, task: Task) -> None:
        try:
            task()
        except Exception:  # noqa: BLE001  (a mistake in one node's task must not stop the others)
            self._log.exception("simulated_task_failed", lane=lane)
