"""Keeps an open incident where it is filed when the routes have changed since.

An alert whose issue is open elsewhere is news of that issue, not of a new one. The same labels may
also name different incidents in different repositories (a route for each cluster, say), so only an
incident that knows one of the delivered alerts is taken for the earlier one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from alerts2gh.incident import DeliveryPart, Target


class Filed(Protocol):
    """An incident that has an issue, as far as it must be known here."""

    @property
    def id(self) -> str: ...

    @property
    def label_key(self) -> str: ...

    @property
    def target(self) -> Target: ...


F = TypeVar("F", bound=Filed)


def keep_filed_targets(
    parts: Sequence[DeliveryPart],
    filed: Iterable[Filed],
    members: Mapping[str, Collection[str]],
) -> tuple[DeliveryPart, ...]:
    """Send parts to the incident that is filed already under another repository, if there is one.

    Args:
        parts: What the routes of today say.
        filed: Open incidents with the label keys of the parts.
        members: The fingerprints of the alerts of those, by incident id.
    """
    open_now = list(filed)
    known = {each.id for each in open_now}
    routed = {part.incident_id for part in parts}
    left_behind = [each for each in open_now if each.id not in routed]
    kept = []
    for part in parts:
        earlier = None if part.incident_id in known else _earlier(part, left_behind, members)
        if earlier is None:
            kept.append(part)
            continue
        left_behind.remove(earlier)  # with `continue`, the other parts are new incidents
        disposition = replace(part.disposition, target=earlier.target)
        kept.append(replace(part, incident_id=earlier.id, disposition=disposition))
    return tuple(kept)


def _earlier(
    part: DeliveryPart, filed: Iterable[F], members: Mapping[str, Collection[str]]
) -> F | None:
    delivered = {alert.fingerprint for alert in part.alerts}
    for each in filed:
        if each.label_key == part.label_key and not delivered.isdisjoint(members.get(each.id, ())):
            return each
    return None
