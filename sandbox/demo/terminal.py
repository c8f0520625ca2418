"""Tells the demo's story on a terminal, step by step, and waits for what each step promises."""

import sys
import threading
import time
from collections.abc import Callable


class DemoError(Exception):
    """A step did not show in time, or something else came in its place."""


class StoppedError(Exception):
    """Ctrl-C, before the story was over."""


def say(text: str) -> None:
    """A line or more, seen at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def aside(text: str) -> None:
    """Something that belongs to the last step."""
    for line in text.splitlines():
        say(f"   {line}")


class Story:
    """Says numbered steps, and waits for what they promise."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._number = 0

    def step(self, text: str) -> None:
        """Say it. Raises StoppedError: the demo was stopped meanwhile."""
        if self._stop.is_set():
            raise StoppedError
        self._number += 1
        say(f"{self._number}. {text}")

    def wait_for(
        self,
        what: str,
        shown: Callable[[], bool],
        seconds: float,
        instead: Callable[[], str] = lambda: "",
    ) -> None:
        """Return once it shows.

        Raises:
            DemoError: It does not in time, or `instead` says what came in its place.
            StoppedError: The demo was stopped meanwhile.
        """
        deadline = time.monotonic() + seconds
        while not shown():
            if other := instead():
                raise DemoError(f"waited for {what}, and {other}")
            if time.monotonic() > deadline:
                raise DemoError(f"waited {seconds} s for {what}, and it did not come")
            if self._stop.wait(0.05):
                raise StoppedError
