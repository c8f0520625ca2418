"""What keeps happening and what it costs: the firings of some days by alert and node, for people to choose what to automate.

Pure: episodes in, rows and texts out.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from alerts2gh.ports import Ending, Episode
from chassis.config import format_duration

STILL_FIRING = "still_firing"
_ENDINGS: Mapping[str, str] = {
    Ending.RESOLVED.value: "resolved by itself",
    Ending.CLOSED.value: "closed by a person",
    Ending.NOT_PLANNED.value: "not planned",
    Ending.DELETED.value: "deleted",
    STILL_FIRING: "still firing",
}
_FORMULA = ("=", "+", "-", "@")


@dataclass(frozen=True, slots=True)
class Row:
    """An alert on a node. `total` and `median` are how long it fired inside the time reported on.

    `endings` counts how its firings ended, by `Ending` or STILL_FIRING. `playbook` is empty when the alert names none.
    """

    alertname: str
    node: str
    times: int
    total: timedelta
    median: timedelta
    endings: Mapping[str, int]
    playbook: str


@dataclass(frozen=True, slots=True)
class Report:
    """The dearest row first: occurrences times their mean duration, which is `total`."""

    since: datetime
    until: datetime
    rows: tuple[Row, ...]


def report(episodes: Iterable[Episode], since: datetime, until: datetime) -> Report:
    """Sum up what fired between `since` and `until`, as much of it as lies between them."""
    groups: dict[tuple[str, str], list[Episode]] = {}
    for episode in _each_once(episodes):
        groups.setdefault((episode.alertname, episode.node), []).append(episode)
    rows = (_row(*key, group, since, until) for key, group in groups.items())
    return Report(since, until, tuple(sorted(rows, key=_dearest_first)))


def _each_once(episodes: Iterable[Episode]) -> Iterable[Episode]:
    """An alert that is filed in two repositories fires once; it is over when it is over in both."""
    once: dict[tuple[str, datetime], Episode] = {}
    for episode in episodes:
        key = (episode.fingerprint, episode.starts_at)
        known = once.get(key)
        if known is None or _later(episode, known):
            once[key] = episode
    return once.values()


def _later(one: Episode, other: Episode) -> bool:
    if one.ended_at is None or other.ended_at is None:
        return one.ended_at is None
    return one.ended_at > other.ended_at


def _row(
    alertname: str, node: str, group: Sequence[Episode], since: datetime, until: datetime
) -> Row:
    spans = [_span(episode, since, until) for episode in group]
    endings = Counter(e.ending.value if e.ending else STILL_FIRING for e in group)
    last = max(group, key=lambda episode: episode.starts_at)
    return Row(
        alertname=alertname,
        node=node,
        times=len(group),
        total=sum(spans, timedelta()),
        median=timedelta(seconds=median(span.total_seconds() for span in spans)),
        endings={name: endings[name] for name in _ENDINGS if endings[name]},
        playbook=last.playbook,
    )


def _span(episode: Episode, since: datetime, until: datetime) -> timedelta:
    begin, end = max(episode.starts_at, since), min(episode.ended_at or until, until)
    return max(end - begin, timedelta())


def _dearest_first(row: Row) -> tuple[timedelta, int, str, str]:
    return -row.total, -row.times, row.alertname, row.node


def as_markdown(found: Report) -> str:
    """A heading, a summary and a table, the dearest first."""
    days = round((found.until - found.since) / timedelta(days=1))
    lines = [
        f"# Alerts of the last {days} days",
        "",
        _summary(found.rows),
    ]
    if found.rows:
        lines += ["", "| alert | node | times | fired for | median | ended | playbook |"]
        lines += ["|---|---|---:|---:|---:|---|---|"]
        lines += [f"| {' | '.join(map(_cell, _told(row)))} |" for row in found.rows]
    return "\n".join(lines) + "\n"


def _summary(rows: Sequence[Row]) -> str:
    if not rows:
        return "Nothing fired."
    bare = [row for row in rows if not row.playbook]
    return (
        f"{_counted(rows)}. Without a playbook: {_counted(bare)}."
        " The dearest stands first; automate those without a playbook from the top."
    )


def _counted(rows: Sequence[Row]) -> str:
    times = sum(row.times for row in rows)
    total = sum((row.total for row in rows), timedelta())
    return f"{times} firing{'' if times == 1 else 's'}, {_duration(total)}"


def _told(row: Row) -> Iterator[str]:
    yield row.alertname
    yield row.node or "-"
    yield str(row.times)
    yield _duration(row.total)
    yield _duration(row.median)
    yield ", ".join(f"{count} {_ENDINGS[name]}" for name, count in row.endings.items())
    yield row.playbook or "none"


def _cell(text: str) -> str:
    """Text of an alert that cannot leave its cell or become markup."""
    return "".join(f"\\{c}" if c in r"\|`*_[]<>#!~&@" else c for c in _one_line(text))


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _duration(span: timedelta) -> str:
    """To the minute, or to the second when shorter than that."""
    step = timedelta(minutes=1) if span >= timedelta(minutes=1) else timedelta(seconds=1)
    return format_duration(round(span / step) * step)


def as_csv(found: Report) -> str:
    """One line a row, durations in seconds, no cell that a spreadsheet would calculate."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["alertname", "node", "times", "total_seconds", "median_seconds", *_ENDINGS, "playbook"]
    )
    for row in found.rows:
        writer.writerow(
            [
                _harmless(row.alertname),
                _harmless(row.node),
                row.times,
                round(row.total.total_seconds()),
                round(row.median.total_seconds()),
                *(row.endings.get(name, 0) for name in _ENDINGS),
                _harmless(row.playbook),
            ]
        )
    return text.getvalue()


def _harmless(cell: str) -> str:
    cell = _one_line(cell).strip()
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
