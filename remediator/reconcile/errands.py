"""Carries out effects beside the leader's one deciding thread, so that a slow call for one node holds up no other.

Decides nothing. What belongs to one name is done by one thread at a time and in order; an error is kept until
the deciding thread asks for it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Errands:
    """A few threads; with none, each errand is run at once by whoever brings it.

    Args:
        threads: How many.
        ended: Told the name of each errand that has ended, well or not, from any thread.
    """

    def __init__(self, threads: int, ended: Callable[[str], None] = lambda _: None) -> None:
        self._ended = ended
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._failures: dict[str, Exception] = {}
        self._pool = None
        if threads:
            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="effects")

    def start(self, name: str, work: Callable[[], None]) -> bool:
        """Have it done; whether it is done already. The name must not be busy.

        Raises:
            Exception: What `work` raises, where there are no threads.
        """
        if self._pool is None:
            work()
            return True
        with self._lock:
            self._running.add(name)
        self._pool.submit(self._run, name, work)
        return False

    def busy(self, name: str) -> bool:
        """Whether an errand of this name has not ended."""
        with self._lock:
            return name in self._running

    def failure(self, name: str) -> Exception | None:
        """How the last errand of this name failed, told once; None if it did not."""
        with self._lock:
            return self._failures.pop(name, None)

    def close(self) -> None:
        """Wait for all that were started; what they must not do any more, they see by themselves."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    def _run(self, name: str, work: Callable[[], None]) -> None:
        failure = None
        try:
            work()
        except Exception as error:  # noqa: BLE001 - it is raised where it is asked for
            failure = error
        with self._lock:
            self._running.discard(name)
            if failure is not None:
                self._failures[name] = failure
        self._ended(name)
