"""A watch's bytes cut into lines, with a way for another thread to end it.

Knows nothing of what the lines say.
"""

import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import urllib3

from chassis.kube_client.errors import Unavailable

_CHUNK = 1 << 16


class LineStream:
    """Iterates over the lines of an answer that goes on and on; a context manager.

    The iteration ends when the server ends the answer or `close` was called.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse, what: str) -> None:
        self._response = response
        self._what = what
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        # Only the reading thread gets here, so nothing reads any more.
        with contextlib.suppress(OSError, ValueError, urllib3.exceptions.HTTPError):
            self._response.close()

    def close(self) -> None:
        """End the iteration at once, also while it waits for bytes. From any thread, repeatedly."""
        self._closed.set()
        shutdown = getattr(self._response, "shutdown", None)
        if shutdown is not None:
            # Closing the file object instead would wait for the thread that reads from it.
            with contextlib.suppress(OSError, ValueError, RuntimeError):  # it had ended already
                shutdown()

    def __iter__(self) -> Iterator[bytes]:
        """Lines without their end, empty ones left out.

        Raises:
            Unavailable: The connection broke, or was silent for the read timeout.
        """
        pending: list[bytes] = []
        for chunk in self._chunks():
            first, *rest = chunk.split(b"\n")
            pending.append(first)
            for following in rest:
                if line := b"".join(pending):
                    yield line
                pending = [following]

    def _chunks(self) -> Iterator[bytes]:
        while not self._closed.is_set():
            try:
                chunk = self._response.read1(_CHUNK)
            except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
                # ValueError, AttributeError: the TLS object vanishes under a `close` from outside.
                if self._closed.is_set():
                    return
                raise Unavailable(
                    f"{self._what}: the stream broke: {error}", status=0, reason="StreamBroken"
                ) from error
            if not chunk:
                return
            yield chunk
