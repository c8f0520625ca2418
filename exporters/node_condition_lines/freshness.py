"""Which conditions of a node nobody vouches for any more. The only family that changes by time alone.

The node controller sets `Ready` to Unknown when a kubelet falls silent, and leaves all other conditions as they were;
so a custom condition of a dead node reads False for ever.
"""

from array import array
from dataclasses import dataclass
from datetime import datetime, timedelta

_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Freshness:
    """What is needed to say later which conditions of a node are stale.

    `node` and `types` are label values. `heartbeats` belong to the types in order, in seconds since 1970, NaN where
    there is none. `silent` is a node whose `Ready` is Unknown: nothing that it once wrote holds.
    """

    node: str
    types: tuple[str, ...]
    heartbeats: "array[float]"
    silent: bool


@dataclass(frozen=True, slots=True)
class StaleLines:
    """The stale family of a node at one moment, and until when (seconds since 1970) it stays as it is."""

    chunk: bytes
    until: float


def stale_lines(freshness: Freshness, stale_after: timedelta, now: datetime) -> StaleLines:
    """Which conditions are stale now: 1 where the heartbeat is older than `stale_after`, or as far in the future.

    A condition without a heartbeat is stale: nothing says that anybody has looked since it was written.
    """
    after, at = stale_after.total_seconds(), now.timestamp()
    until = _NEVER
    lines: list[str] = []
    start = f'nodemend_node_condition_stale{{node="{freshness.node}",condition="'
    for kind, heartbeat in zip(freshness.types, freshness.heartbeats, strict=True):
        age = at - heartbeat
        stale = freshness.silent or not -after <= age <= after
        lines.append(f'{start}{kind}"}} {int(stale)}\n')
        if age < -after:
            until = min(until, heartbeat - after)
        elif age <= after:
            until = min(until, heartbeat + after)
    return StaleLines("".join(lines).encode(), _NEVER if freshness.silent else until)
