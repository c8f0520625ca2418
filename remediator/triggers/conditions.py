"""Node Conditions to playbooks: status and how long, all together or any of them. Pure."""

from datetime import datetime

from chassis.alertmanager import all_match
from remediator.cluster import STATUS_LABEL, ConditionView, NodeView
from remediator.config import Config, Playbook
from remediator.config.playbooks import ConditionTrigger
from remediator.operation import Cause, CauseKind
from remediator.triggers.matching import Later, Match

MAX_TEXT = 256


def from_conditions(node: NodeView, config: Config, now: datetime) -> tuple[Match | Later, ...]:
    """A match for each condition that a playbook acts on, and when others will have lasted.

    Virtual nodes and nodes being scaled in have none. Of several playbooks the first one counts.
    """
    if not node.counts:
        return ()
    later: list[Match | Later] = []
    for playbook in config.playbooks:
        found = _of_playbook(node, playbook, now)
        if any(isinstance(each, Match) for each in found):
            return (*later, *found)
        later += found
    return tuple(later)


def _of_playbook(node: NodeView, playbook: Playbook, now: datetime) -> list[Match | Later]:
    if playbook.conditions is None or not all_match(playbook.nodes, node.labels):
        return []
    wanted = playbook.conditions.all or playbook.conditions.any
    standing = [(each, condition) for each in wanted if (condition := _standing(node, each))]
    if playbook.conditions.all:
        if len(standing) < len(wanted):
            return []
        ready = max(condition.since + each.for_ for each, condition in standing)
        if now < ready:
            return [Later(playbook.name, ready)]
        return [_match(playbook, node, each, condition) for each, condition in standing]
    return [
        _match(playbook, node, each, condition)
        if now >= condition.since + each.for_
        else Later(playbook.name, condition.since + each.for_)
        for each, condition in standing
    ]


def _standing(node: NodeView, wanted: ConditionTrigger) -> ConditionView | None:
    condition = node.conditions.get(wanted.type)
    return condition if condition is not None and condition.status == wanted.status else None


def _match(
    playbook: Playbook, node: NodeView, wanted: ConditionTrigger, condition: ConditionView
) -> Match:
    cause = Cause(
        kind=CauseKind.CONDITION,
        name=wanted.type,
        since=condition.since,
        text=f"{condition.reason}: {condition.message}".strip(": ")[:MAX_TEXT],
        labels={STATUS_LABEL: wanted.status},
    )
    return Match(playbook.name, node.name, cause)
