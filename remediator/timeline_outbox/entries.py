"""From an operation's history to the entries that alerts2gh takes.

Pure. Each coming to a phase is one entry for each alert; telling one again changes nothing over there.
"""

import re
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

from chassis.contracts import TimelineEntry
from remediator.operation import Cause, CauseKind, HistoryEntry, NodeOperation, Phase, what_next

_MOST_TEXT = 4000
_MOST_ADDRESS = 1000
_FINGERPRINT = re.compile(r"[0-9a-f]{16}", re.ASCII)


def alerts_of(operation: NodeOperation) -> list[Cause]:
    """The causes that alerts2gh can know; one that a person wrote may be no alert of an Alertmanager."""
    alerts = (each for each in operation.spec.causes if each.kind is CauseKind.ALERT)
    return [each for each in alerts if _FINGERPRINT.fullmatch(each.fingerprint)]


def entries_of(
    operation: NodeOperation, cause: Cause, after: int, cluster: str, site: str = ""
) -> Iterator[TimelineEntry]:
    """The entries for one alert from the history's number `after` on, oldest first.

    `site` is the http(s) address of this service, if people can reach it: where something begins, ends or waits for
    a person, the text has the address of the operation's page.
    """
    name = f"{cluster}/{operation.name}" if cluster else operation.name
    for entry, attempt in _comings(operation):
        if entry.number <= after:
            continue
        yield TimelineEntry(
            fingerprint=cause.fingerprint,
            starts_at=cause.since,
            operation=name,
            phase=entry.phase,
            node=operation.spec.node,
            at=entry.at,
            text=_text(operation, entry, site),
            attempt=attempt,
            outcome=operation.status.outcome if _is_last(operation, entry) else None,
        )


def _comings(operation: NodeOperation) -> Iterator[tuple[HistoryEntry, int]]:
    """The entries at which a phase began, with how often it did so far.

    Of a history that was cut short the number stands in: it is as unique, and never smaller.
    """
    history = operation.status.history
    complete = bool(history) and history[0].number == 1
    times: dict[Phase, int] = {}
    before: Phase | None = None
    for entry in history:
        if entry.phase is not before:
            times[entry.phase] = times.get(entry.phase, 0) + 1
            yield entry, times[entry.phase] if complete else entry.number
        before = entry.phase


def _is_last(operation: NodeOperation, entry: HistoryEntry) -> bool:
    return entry.phase.is_final and entry.phase is operation.status.phase


def _text(operation: NodeOperation, entry: HistoryEntry, site: str) -> str:
    text = entry.text or entry.reason.value
    if entry.phase is Phase.ESCALATED:
        text = f"{text}. Next: {what_next(operation, entry.reason)}."
    linked = entry.number == operation.status.history[0].number or entry.phase.is_final
    page = _page_of(site, operation.name) if linked else ""
    return text[: _MOST_TEXT - len(page)] + page


def _page_of(site: str, operation: str) -> str:
    """The address of an operation's page on a line of its own; none that is too long or holds a password."""
    page = f"\n{site}/operations/{quote(operation, safe='')}" if site else ""
    return page if len(page) <= _MOST_ADDRESS and "@" not in urlsplit(site).netloc else ""
