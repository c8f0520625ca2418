"""What the remediator's node operations mean for an incident: what is yet to be told, and what holds back the close.

The entries come as they were posted, in any order; the newest of a node's for an alert says where the matter stands. No I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from alerts2gh.incident import Incident, Member
from chassis.contracts import TimelineEntry, TimelinePhase

SILENT_AFTER = timedelta(days=7)
"""A running operation that told nothing for so long holds nothing back any more."""
EARLY_FOR = timedelta(hours=24)
"""How long an entry waits for its alert."""
UNTIL_TOLD_OTHERWISE = datetime.max.replace(tzinfo=UTC)
MAX_STORIES = 100


def with_entries(
    incident: Incident,
    known: Sequence[TimelineEntry],
    unseen: Sequence[TimelineEntry],
    now: datetime,
) -> Incident:
    """Take entries that the incident has not seen; `known` are all, those among them."""
    stories = sorted((*incident.stories, *unseen), key=lambda entry: entry.at)
    # A comment under way tells the first of them, so their order must stay as it was.
    pending = incident.intent.tells if incident.intent else 0
    stories = [*incident.stories[:pending], *_without(stories, incident.stories[:pending])]
    dropped = 0 if pending else max(0, len(stories) - MAX_STORIES)
    return replace(
        incident,
        stories=tuple(stories[dropped:]),
        stories_dropped=incident.stories_dropped + dropped,
        held_until=held_until(known, incident.members, now),
    )


def _without(
    entries: Iterable[TimelineEntry], these: Iterable[TimelineEntry]
) -> list[TimelineEntry]:
    keys = {entry.key for entry in these}
    return [entry for entry in entries if entry.key not in keys]


def held_until(
    entries: Iterable[TimelineEntry], members: Mapping[str, Member], now: datetime
) -> datetime | None:
    """Until when the issue must stay open for operations; None when none is at work.

    Entries of equal time count in the order given.
    """
    newest: dict[tuple[str, str], TimelineEntry] = {}
    for entry in sorted(entries, key=lambda each: each.at):
        newest[entry.fingerprint, entry.node] = entry
    holds = [_hold(entry, members.get(entry.fingerprint), now) for entry in newest.values()]
    return max((until for until in holds if until is not None and until > now), default=None)


def _hold(entry: TimelineEntry, member: Member | None, now: datetime) -> datetime | None:
    if not entry.phase.holds_auto_close:
        return None
    if entry.phase is not TimelinePhase.ESCALATED:
        until = min(entry.at, now) + SILENT_AFTER
        # To the day: the body tells it, and must not be written anew for every entry.
        return until.replace(hour=0, minute=0, second=0, microsecond=0)
    # It waits for a person; but once the alert fires anew, that is another operation's matter.
    anew = member is not None and member.starts_at > max(entry.at, entry.starts_at)
    return None if anew else UNTIL_TOLD_OTHERWISE
