"""When a storm is on, and what its rollup issue is told.

A storm is more new incidents of a repository than people can read issues of. Those that belong to it are told as
members of one incident of ours, the rollup, whose issue has a row for each; one that outlasts the storm gets an issue of its
own after all. Whether an incident belongs follows from when it and the others began, not from when it is
asked, so a blocked worker and a crash come to the same answer. No I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from alerts2gh.config import (
    CommentOn,
    FlappingPolicy,
    IssuePolicy,
    StormPolicy,
    TemplateNames,
)
from alerts2gh.incident import (
    ROLLUP_ALERTNAME,
    DeliveryPart,
    Disposition,
    Incident,
    Target,
    incident_id,
    label_key,
)
from chassis.alertmanager import Alert, AlertStatus
from chassis.config import format_duration

ROLLUP_LABELS: Mapping[str, str] = {"alertname": ROLLUP_ALERTNAME}
RESOLVED_ROWS = 500
"""How many rows of the past a rollup keeps; it may live for years."""


class StormReason(StrEnum):
    """Whether a new incident is rolled up."""

    STORM = "storm"
    CALM = "calm"
    SWITCHED_OFF = "switched_off"
    NOT_NEW = "not_new"
    """It has or had an issue, or is about to."""
    NEVER_ROLLED = "never_rolled"
    """Ours, or in the fallback repository already."""


class News(StrEnum):
    """What the rollup is told of one of its incidents."""

    ROLLED_UP = "rolled_up"
    OVER = "over"
    SPLIT = "split"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """How many other incidents of the target were new within the window before this one began, and after."""

    before: int
    after: int


def rollup_id(target: Target) -> str:
    """The incident of a repository's rollup issue."""
    return incident_id(target, ROLLUP_LABELS)


def began_at(incident: Incident) -> datetime:
    """When the incident was last new: it began to fire and had no issue."""
    return incident.new_since or incident.first_seen_at


def counts_as_new(incident: Incident) -> bool:
    """Whether it is one of those that make a storm, once it has fired."""
    return incident.new_since is not None and not incident.is_own and not incident.displaced


def may_be_rolled(incident: Incident, policy: StormPolicy) -> StormReason | None:
    """Why the incident is not rolled up, whatever goes on around it; None when the neighbours decide."""
    if not policy.enabled:
        return StormReason.SWITCHED_OFF
    if incident.is_own or incident.displaced:
        return StormReason.NEVER_ROLLED
    used = incident.issue or incident.past or incident.intent or incident.audit_at
    if used or incident.rolled_into or not incident.is_firing:
        return StormReason.NOT_NEW
    return None


def judge(incident: Incident, policy: StormPolicy, neighbours: Neighbours) -> StormReason:
    """Decide whether a new incident belongs to a storm: more than the policy allows around it, itself included."""
    barred = may_be_rolled(incident, policy)
    if barred is not None:
        return barred
    most = max(neighbours.before, neighbours.after) + 1
    return StormReason.STORM if most > policy.incidents else StormReason.CALM


def rolled(incident: Incident, policy: StormPolicy, now: datetime) -> Incident:
    """Note that the rollup stands in for the incident's own issue."""
    return replace(
        incident,
        rolled_into=rollup_id(incident.disposition.target),
        rolled_told=False,
        split_at=now + policy.split_after,
    )


def told(incident: Incident, news: News) -> Incident:
    """Note what the rollup knows now; after OVER and SPLIT the incident is on its own again."""
    if news is News.ROLLED_UP:
        return replace(incident, rolled_told=True)
    return replace(incident, rolled_into=None, rolled_told=False, split_at=None)


def rollup_part(
    incident: Incident, news: News, policy: StormPolicy, target: Target, now: datetime
) -> DeliveryPart:
    """What the rollup of `target` is told, as a delivery of one alert. Told twice it changes nothing."""
    return DeliveryPart(
        incident_id=incident.rolled_into or rollup_id(target),
        label_key=label_key(ROLLUP_LABELS),
        disposition=_disposition(incident.disposition, target),
        labels=ROLLUP_LABELS,
        alerts=(_row(incident, news, policy, now),),
        received_at=now,
        receiver="alerts2gh",
        group_labels=ROLLUP_LABELS,
    )


def _disposition(route: Disposition, target: Target) -> Disposition:
    return replace(
        route, target=target, policy=_rollup_policy(route.policy), templates=TemplateNames()
    )


def _rollup_policy(policy: IssuePolicy) -> IssuePolicy:
    """The route's, without comments and without damping: the table tells it all, in place."""
    calm = FlappingPolicy(changes=50, window=timedelta(milliseconds=1), hold=timedelta())
    return policy.model_copy(update={"comment_on": CommentOn.NOTHING, "flapping": calm})


def _row(incident: Incident, news: News, policy: StormPolicy, now: datetime) -> Alert:
    fires = news is News.ROLLED_UP
    return Alert(
        status=AlertStatus.FIRING if fires else AlertStatus.RESOLVED,
        labels=dict(incident.labels),
        annotations=_texts(incident, news, policy),
        starts_at=began_at(incident),
        ends_at=None if fires else now,
        generator_url="",
        fingerprint=incident.id[:16],
    )


def _texts(incident: Incident, news: News, policy: StormPolicy) -> Mapping[str, str]:
    summary = _summary(incident)
    if news is News.SPLIT and incident.issue:
        own = f"still fires, and has issue {incident.issue.number} of its own"
        summary = f"{summary} ({own})" if summary else own
    return {"summary": summary, "description": _description(policy)}


def _summary(incident: Incident) -> str:
    members = sorted(incident.members.values(), key=lambda m: (not m.firing, m.fingerprint))
    texts = [m.annotations.get("summary") or m.annotations.get("message", "") for m in members]
    more = f" (and {len(members) - 1} more alerts)" if len(members) > 1 else ""
    return f"{texts[0]}{more}" if texts and texts[0] else more.strip(" ()")


def _description(policy: StormPolicy) -> str:
    return (
        f"More than {policy.incidents} new incidents in {format_duration(policy.window)}: they are told here together."
        f" One that lasts longer than {format_duration(policy.split_after)} gets an issue of its own."
    )


def tidied(incident: Incident) -> Incident:
    """Keep a rollup's table bounded: all rows that fire, and the newest of the others."""
    over = [m for m in incident.members.values() if not m.firing]
    if not incident.is_rollup or len(over) <= RESOLVED_ROWS:
        return incident
    oldest = sorted(over, key=lambda m: (m.changed_at, m.fingerprint))[:-RESOLVED_ROWS]
    gone = {m.fingerprint for m in oldest}
    kept = {k: m for k, m in incident.members.items() if k not in gone}
    return replace(incident, members=kept, settled_by="")
