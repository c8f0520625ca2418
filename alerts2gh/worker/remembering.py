"""Keeps texts that were rendered lately: one look at an incident asks for its block several times.

A text follows from the incident alone, so one is found again by the incident, without what no text tells. It must
never give a text for another incident than it was made from.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Lock

from alerts2gh.incident import Incident
from alerts2gh.rendering import Renderer, TemplateTexts

_MOST_MEMBERS = 4_000
"""Of all that are kept, together; some 2 KB each."""


class RenderedBlocks:
    """The least recently used goes first. Threads share it."""

    def __init__(self, most_members: int = _MOST_MEMBERS) -> None:
        self._most_members = most_members
        self._lock = Lock()
        self._members = 0
        self._kept: OrderedDict[str, tuple[Incident, str]] = OrderedDict()

    def get(self, incident: Incident, make: Callable[[], str]) -> str:
        """The text for this incident, made if it is not there."""
        told = _told(incident)
        with self._lock:
            kept = self._kept.get(incident.id)
        if kept is not None and kept[0] == told:
            return kept[1]
        text = make()
        self._keep(told, text)
        return text

    def _keep(self, told: Incident, text: str) -> None:
        with self._lock:
            before = self._kept.pop(told.id, None)
            self._members += _weight(told) - (_weight(before[0]) if before else 0)
            self._kept[told.id] = (told, text)
            while self._members > self._most_members:
                _, (oldest, _) = self._kept.popitem(last=False)
                self._members -= _weight(oldest)


class RememberingRenderer(Renderer):
    """A renderer that keeps the blocks it wrote lately."""

    def __init__(self, builtin: TemplateTexts, own: Mapping[str, str] | None = None) -> None:
        super().__init__(builtin, own)
        self._blocks = RenderedBlocks()

    def whole_block(self, incident: Incident) -> str:
        """As a renderer's, made once while nothing changes that it tells."""
        make = super().whole_block
        return self._blocks.get(incident, lambda: make(incident))


def _weight(incident: Incident) -> int:
    return max(1, len(incident.members))


def _told(incident: Incident) -> Incident:
    """Without what changes while the texts do not. What is not named here counts, so a new field is safe."""
    return replace(
        incident,
        last_delivery_at=incident.first_seen_at,
        issue=None,
        intent=None,
        untold=(),
        untold_dropped=0,
        flips=(),
        audit_at=None,
        settled_by="",
        attempts=0,
        retry_at=None,
        version=0,
    )
