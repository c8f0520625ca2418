"""Reads what a child writes, up to a limit, until it ends or its time is up. Knows nothing of what it runs."""

import os
import selectors
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

_PIECE = 65536
_PIECES = 16
"""How many are read in a row: one that writes without end must not keep us from looking at the clock."""
_POLL = 0.02
"""Seconds between looks at a child where the kernel has no pidfd (before Linux 5.3)."""


@dataclass(slots=True)
class Captured:
    """What one of its pipes gave: the first `limit` bytes. The rest is read and thrown away, so that it never blocks."""

    pipe: IO[bytes]
    limit: int
    kept: bytearray = field(default_factory=bytearray)
    truncated: bool = False
    ended: bool = False

    def take(self) -> None:
        """Read what is there now, without waiting."""
        for _ in range(_PIECES):
            try:
                piece = os.read(self.pipe.fileno(), _PIECE)
            except BlockingIOError:
                return
            self.ended = not piece
            room = self.limit - len(self.kept)
            self.truncated = self.truncated or len(piece) > room
            self.kept += piece[:room]
            if len(piece) < _PIECE:  # at the end of file too
                return


def has_ended(pid: int) -> bool:
    """Whether our child has ended; it is left unreaped, so its number cannot become another's."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def read_until_end(
    pid: int, pipes: tuple[Captured, ...], seconds: float, monotonic: Callable[[], float]
) -> bool:
    """Read until the child has ended (True) or `seconds` have passed (False).

    A grandchild that keeps a pipe open is not waited for: the child's own end counts.
    """
    until = monotonic() + seconds
    end = _end_of(pid)
    try:
        with selectors.DefaultSelector() as selector:
            if end is not None:
                selector.register(end, selectors.EVENT_READ)
            for each in pipes:
                os.set_blocking(each.pipe.fileno(), False)
                selector.register(each.pipe, selectors.EVENT_READ, each)
            return _watch(pid, selector, until, monotonic, polled=end is None)
    finally:
        if end is not None:
            os.close(end)


def _watch(
    pid: int,
    selector: selectors.BaseSelector,
    until: float,
    monotonic: Callable[[], float],
    *,
    polled: bool,
) -> bool:
    while (left := until - monotonic()) > 0:
        for key, _ in selector.select(min(left, _POLL) if polled else left):
            if isinstance(key.data, Captured):
                key.data.take()
                if key.data.ended:
                    selector.unregister(key.fileobj)
        if has_ended(pid):
            _take_rest(selector)
            return True
    return has_ended(pid)


def _take_rest(selector: selectors.BaseSelector) -> None:
    for key in list(selector.get_map().values()):
        if isinstance(key.data, Captured):
            key.data.take()


def _end_of(pid: int) -> int | None:
    """A file descriptor that becomes readable when the process ends, None where the kernel has none."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
