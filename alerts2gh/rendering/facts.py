"""What a template may say about an incident, as plain values.

All of it follows from the stored incident and nothing else: no clock, so an unchanged incident gives an unchanged
text. The values are as the alert gave them; a template's output is made harmless later, not here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import MAXYEAR, UTC, datetime

from alerts2gh.incident import Incident, Member, Transition
from alerts2gh.rendering.alertmanager_links import group_url, silence_url
from alerts2gh.rendering.sanitising import Markdown, issue_link

MAX_ALERTS = 300  # nobody reads further, and GitHub has room for little more
MAX_COLUMNS = 6
MAX_LABELS = 30
MAX_ANNOTATIONS = 10
MAX_LINKS = 3
MAX_PAST = 5
MAX_NOTES = 10

_FIRST_COLUMNS = ("node", "instance", "namespace", "pod", "gpu", "device")
_RUNBOOKS = ("runbook_url", "runbook")
_DASHBOARDS = ("dashboard_url", "dashboard")
_TOLD_ELSEWHERE = frozenset({"summary", "description", "message", *_RUNBOOKS, *_DASHBOARDS})


class Values(Mapping[str, str]):
    """Labels or annotations; a name that is not there reads as an empty text."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values.get(name, "")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values


@dataclass(frozen=True, slots=True)
class AlertFacts:
    """One alert: `since` is when it began to fire, or when it ended."""

    status: str
    firing: bool
    since: str
    labels: Values
    annotations: Values
    summary: str
    graph: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """A change that a comment tells."""

    at: str
    status: str
    firing: bool
    reason: str
    alert: AlertFacts


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """A link for the line of links."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class PastFacts:
    """An earlier issue of the same incident."""

    link: Markdown
    ended: str
    opened: str
    closed: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything a template can name; the fields are the names."""

    alertname: str
    identity: Values
    labels: Values
    annotations: Values
    summary: str
    description: str
    severity: str
    since: str
    firing_count: int
    resolved_count: int
    truncated: int
    alerts: tuple[AlertFacts, ...]
    left_out: int
    columns: tuple[str, ...]
    own_summaries: bool
    own_graphs: bool
    links: tuple[LinkFacts, ...]
    past: tuple[PastFacts, ...]
    past_left_out: int
    assigned: tuple[str, ...]
    assignment_source: str
    notes: tuple[str, ...]
    flapping_until: str
    held: bool
    held_until: str
    receiver: str
    route: str
    repository: str
    details: bool = True
    changes: tuple[ChangeFacts, ...] = field(default=())
    changes_left_out: int = 0

    def shortened(self, rows: int, *, details: bool) -> "Facts":
        """Keep the first `rows` alerts and the newest `rows` changes, and the details or not."""
        changes = self.changes[max(0, len(self.changes) - rows) :]
        return replace(
            self,
            alerts=self.alerts[:rows],
            left_out=self.left_out + max(0, len(self.alerts) - rows),
            changes=changes,
            changes_left_out=self.changes_left_out + len(self.changes) - len(changes),
            details=details,
        )


PLAIN_TYPES = frozenset({AlertFacts, ChangeFacts, LinkFacts, PastFacts, Values})


def utc(at: datetime | None) -> str:
    """Write an instant to the second, in UTC; nothing for none and for the end of time."""
    if at is None or at.year == MAXYEAR:
        return ""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def facts_of(incident: Incident, transitions: Sequence[Transition] = (), dropped: int = 0) -> Facts:
    """Gather the facts; `transitions` and how many older ones were dropped are for a comment."""
    members = _in_order(incident.members.values())
    shown = tuple(_alert(member) for member in members[:MAX_ALERTS])
    common = _common([member.labels for member in members])
    known = _common([member.annotations for member in members])
    graphs = _distinct(alert.graph for alert in shown)
    firing = incident.firing
    return Facts(
        alertname=incident.labels.get("alertname") or common.get("alertname", ""),
        identity=Values(incident.labels),
        labels=Values(_first_items(common, MAX_LABELS)),
        annotations=Values(_further_annotations(known)),
        summary=known.get("summary", ""),
        description=known.get("description", "") or known.get("message", ""),
        severity=common.get("severity", ""),
        since=_since(incident),
        firing_count=len(firing),
        resolved_count=len(members) - len(firing),
        truncated=incident.truncated,
        alerts=shown,
        left_out=len(members) - len(shown),
        columns=_columns(members, common),
        own_summaries="summary" not in known and any(alert.summary for alert in shown),
        own_graphs=len(graphs) > 1,
        links=_links(incident, members, common, graphs),
        past=tuple(_past(incident)),
        past_left_out=max(0, len(incident.past) - MAX_PAST),
        assigned=incident.assignment.by_us,
        assignment_source=incident.assignment.source,
        notes=incident.assignment.notes[:MAX_NOTES],
        flapping_until=utc(incident.flapping_until),
        held=incident.held_until is not None,
        held_until=utc(incident.held_until),
        receiver=incident.receiver,
        route=incident.disposition.route,
        repository=incident.disposition.target.full_name,
        changes=_changes(incident, transitions),
        changes_left_out=dropped,
    )


def _in_order(members: Iterable[Member]) -> list[Member]:
    """Firing before resolved, in each the newest first."""
    newest = sorted(members, key=lambda m: (-_instant(m).timestamp(), m.fingerprint))
    return sorted(newest, key=lambda m: not m.firing)


def _instant(member: Member) -> datetime:
    return member.starts_at if member.firing else (member.ends_at or member.changed_at)


def _alert(member: Member) -> AlertFacts:
    annotations = member.annotations
    return AlertFacts(
        status="firing" if member.firing else "resolved",
        firing=member.firing,
        since=utc(_instant(member)),
        labels=Values(member.labels),
        annotations=Values(annotations),
        summary=annotations.get("summary", "") or annotations.get("message", ""),
        graph=member.generator_url,
        fingerprint=member.fingerprint,
    )


def _since(incident: Incident) -> str:
    """When the oldest firing alert began; once all is quiet, when the last one ended."""
    if incident.is_firing:
        return utc(min(member.starts_at for member in incident.firing))
    return utc(max((_instant(member) for member in incident.members.values()), default=None))


def _common(several: Sequence[Mapping[str, str]]) -> dict[str, str]:
    if not several:
        return {}
    pairs = set(several[0].items()).intersection(*(each.items() for each in several[1:]))
    return dict(sorted(pairs))


def _columns(members: Sequence[Member], common: Mapping[str, str]) -> tuple[str, ...]:
    names = {name for member in members for name in member.labels} - common.keys()
    first = [name for name in _FIRST_COLUMNS if name in names]
    return tuple([*first, *sorted(names.difference(first))][:MAX_COLUMNS])


def _first_items(values: Mapping[str, str], limit: int) -> dict[str, str]:
    return dict(sorted(values.items())[:limit])


def _further_annotations(known: Mapping[str, str]) -> dict[str, str]:
    further = {name: value for name, value in known.items() if name not in _TOLD_ELSEWHERE}
    return _first_items(further, MAX_ANNOTATIONS)


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


def _links(
    incident: Incident, members: Sequence[Member], common: Mapping[str, str], graphs: Sequence[str]
) -> tuple[LinkFacts, ...]:
    found = [LinkFacts("Graph", graphs[0])] if len(graphs) == 1 else []
    for text, names in (("Runbook", _RUNBOOKS), ("Dashboard", _DASHBOARDS)):
        urls = _distinct(m.annotations.get(name, "") for m in members for name in names)
        found += [LinkFacts(text, url) for url in urls[:MAX_LINKS]]
    # The identity may hold names that no alert carries; a matcher on one of those would match nothing.
    named = {k: v for k, v in incident.labels.items() if common.get(k) == v} or common
    found += [
        LinkFacts("Silence", silence_url(incident.external_url, named)),
        LinkFacts(
            "Group in Alertmanager",
            group_url(incident.external_url, incident.group_labels or named),
        ),
    ]
    return tuple(each for each in found if each.url)


def _past(incident: Incident) -> Iterator[PastFacts]:
    newest = sorted(incident.past, key=lambda each: each.opened_at, reverse=True)
    for each in newest[:MAX_PAST]:
        opened, closed = utc(each.opened_at), utc(each.closed_at)
        yield PastFacts(issue_link(each.url, each.number), each.ended, opened, closed)


def _changes(incident: Incident, transitions: Sequence[Transition]) -> tuple[ChangeFacts, ...]:
    known = incident.members
    return tuple(
        ChangeFacts(
            at=utc(each.at),
            status=each.status.value,
            firing=each.status.value == "firing",
            reason=each.reason.value,
            alert=_alert(known[each.fingerprint]),
        )
        for each in transitions
        if each.fingerprint in known
    )
