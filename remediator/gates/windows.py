"""Maintenance windows in their own time zone, summer time included. Pure."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from remediator.config import DAYS, Window

_DAY = timedelta(days=1)
_LOOK_AHEAD = 9


def next_opening(windows: Iterable[Window], now: datetime) -> datetime | None:
    """`now` if one is open, else when the first one opens (UTC); None if there is none."""
    openings = [opening for window in windows if (opening := _opening(window, now)) is not None]
    return min(openings, default=None)


def _opening(window: Window, now: datetime) -> datetime | None:
    zone = ZoneInfo(window.time_zone)
    today = now.astimezone(zone).date()
    # Yesterday's may last over midnight; a week ahead holds every day at least once.
    for offset in range(-1, _LOOK_AHEAD):
        day = today + offset * _DAY
        if DAYS[day.weekday()] not in window.days:
            continue
        start, end = _span(window, day, zone)
        if now < end:
            return max(start, now)
    return None


def _span(window: Window, day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    last = day if window.end > window.start else day + _DAY
    return _moment(day, window.start, zone), _moment(last, window.end, zone)


def _moment(day: date, clock: str, zone: ZoneInfo) -> datetime:
    hour, minute = (int(part) for part in clock.split(":"))
    if hour == 24:  # noqa: PLR2004 - the end of the day, which `time` has no word for
        day, hour = day + _DAY, 0
    return datetime.combine(day, time(hour, minute), zone).astimezone(UTC)
