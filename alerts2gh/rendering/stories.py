"""Writes the comment that tells what node operations did. The remediator's words are made harmless like an alert's."""

from collections.abc import Sequence

from alerts2gh.rendering.block import token_marker
from alerts2gh.rendering.facts import utc
from alerts2gh.rendering.sanitising import code, lines
from alerts2gh.rendering.sizes import BODY_LIMIT, utf16_length
from chassis.contracts import TimelineEntry

_ROOM = BODY_LIMIT - 500  # for the marker, the head line and what was left out
_TEXT_ROOM = 8192  # an entry's text is at most 4,096 characters


def story_comment(entries: Sequence[TimelineEntry], dropped: int, token: str) -> tuple[str, int]:
    """The comment, and how many of the entries it tells; the first is always told.

    Args:
        entries: What is to be told, in this order; at least one.
        dropped: How many older ones were given up.
        token: Names this write; the first line.
    """
    told: list[str] = []
    room = _ROOM
    for entry in entries:
        text = _told(entry)
        room -= utf16_length(text) + 1
        if told and room < 0:
            break
        told.append(text)
    head = "**Node operation**" if _alone(entries[: len(told)]) else "**Node operations**"
    left_out = [f"{dropped} earlier steps are not listed."] if dropped else []
    return "\n".join([token_marker(token), head, "", *told, *left_out]), len(told)


def _alone(entries: Sequence[TimelineEntry]) -> bool:
    return len({entry.operation for entry in entries}) == 1


def _told(entry: TimelineEntry) -> str:
    again = f" (attempt {entry.attempt})" if entry.attempt > 1 else ""
    outcome = f", {entry.outcome.value.replace('_', ' ')}" if entry.outcome else ""
    head = f"- {utc(entry.at)}: **{entry.phase.value}**{again}{outcome}"
    where = f"{code(entry.operation)} on {code(entry.node)}"
    text = lines(entry.text, _TEXT_ROOM).replace("\n", "\n  ")
    return f"{head} · {where}\n  {text}"
