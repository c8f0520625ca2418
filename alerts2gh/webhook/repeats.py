"""Remembers what became of webhooks, by their bytes: Alertmanager repeats a group word for word while nothing changes.

What is found here was parsed and routed before, and by the same routes; whether it is news is for the store to say.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from alerts2gh.ports import Repeat
from alerts2gh.routing import Router

_MOST_PARTS = 20_000
"""Some 300 bytes each; a webhook has one part for each incident."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A webhook that was committed: its parts, and its alerts by status."""

    router: Router
    repeats: tuple[Repeat, ...]
    alerts: Mapping[str, int]


class Repeats:
    """The webhooks of late, the least recently seen forgotten first. Threads share it."""

    def __init__(self, most_parts: int = _MOST_PARTS) -> None:
        self._most_parts = most_parts
        self._lock = Lock()
        self._parts = 0
        self._known: OrderedDict[bytes, Remembered] = OrderedDict()

    def find(self, name: bytes, router: Router) -> Remembered | None:
        """What this webhook became when it was last routed by this very router."""
        with self._lock:
            found = self._known.get(name)
            if found is None or found.router is not router:
                return None
            self._known.move_to_end(name)
            return found

    def remember(self, name: bytes, committed: Remembered) -> None:
        with self._lock:
            before = self._known.pop(name, None)
            self._parts += len(committed.repeats) - (len(before.repeats) if before else 0)
            self._known[name] = committed
            while self._parts > self._most_parts:
                _, oldest = self._known.popitem(last=False)
                self._parts -= len(oldest.repeats)


def name_of(body: bytes, query: Mapping[str, Sequence[str]]) -> bytes:
    """A digest of everything that decides what becomes of a webhook, but for the routes."""
    digest = hashlib.blake2b(body, digest_size=32)
    if query:
        digest.update(
            repr(sorted((name, list(values)) for name, values in query.items())).encode(
                "utf-8", "surrogatepass"
            )
        )
    return digest.digest()
