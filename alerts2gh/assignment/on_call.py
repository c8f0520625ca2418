"""Who is on call at an instant.

The shifts change at a wall-clock time in a time zone, so a shift over the start of summer time is an hour short.
"""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from alerts2gh.config import OnCall


def on_call_at(rota: OnCall, now: datetime) -> tuple[str, ...]:
    """Name who is on call; nobody before the first shift.

    An override holds from its start up to, not including, its end; of two that overlap the later written one holds.
    """
    for override in reversed(rota.overrides):
        if override.start <= now < override.end:
            return override.logins
    shift = shift_at(rota, now)
    return () if shift < 0 else (rota.logins[shift % len(rota.logins)],)


def shift_at(rota: OnCall, now: datetime) -> int:
    """Count the shifts since the first one, which is 0; negative before it."""
    zone = ZoneInfo(rota.time_zone)
    today = now.astimezone(zone).date()
    begun = now.astimezone(UTC) >= _handover(rota, today, zone)
    day = today if begun else today - timedelta(days=1)
    return (day - rota.start).days // rota.period_days


def _handover(rota: OnCall, day: date, zone: ZoneInfo) -> datetime:
    """When that day's handover is: of a time that comes twice the first, of one left out the instant after the gap."""
    wall = datetime.combine(day, time.fromisoformat(rota.handover), tzinfo=zone)
    return wall.astimezone(UTC)
