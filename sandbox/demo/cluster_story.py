"""What must be true of the demo's cluster at the end, from what Kubernetes, the node and Prometheus remember of it."""

from collections.abc import Iterator

from chassis.contracts import TimelinePhase
from sandbox.demo.fleet import (
    CONDITION,
    Fleet,
    boot_id_in,
    in_turn,
    operation_taint_in,
)
from sandbox.demo.monitoring import Alerts
from sandbox.demo.services import ALERT, NODE_CONDITIONS, REMEDIATOR
from sandbox.demo.story import Check
from sandbox.kubernetes_server import AuditEntry

_WAY = (
    TimelinePhase.GATED,
    TimelinePhase.RESERVED,
    TimelinePhase.ISOLATED,
    TimelinePhase.DRAINING,
    TimelinePhase.EXECUTING,
    TimelinePhase.AWAITING_RETURN,
    TimelinePhase.VERIFYING,
    TimelinePhase.RELEASING,
    TimelinePhase.SUCCEEDED,
)


def check_cluster(fleet: Fleet, alerts: Alerts) -> tuple[Check, ...]:
    """Compare the end with what the story promises."""
    return (
        _check_condition(fleet),
        _check_rights(fleet),
        *_check_alerts(fleet, alerts),
        *_check_way(fleet),
        _check_taint(fleet),
        *_check_reboot(fleet),
        *_check_training(fleet),
    )


def _check_condition(fleet: Fleet) -> Check:
    seen = fleet.past_conditions()
    return Check(
        f"Kubernetes saw {CONDITION} of {fleet.node} become True and then False",
        seen == ["False", "True", "False"],
        ", ".join(seen) or "nothing",
    )


def _check_rights(fleet: Fleet) -> Check:
    entries = fleet.kubernetes.log(keep=lambda each: each.user == NODE_CONDITIONS)
    asked = {f"{entry.verb} {entry.resource or entry.path}" for entry in entries}
    return Check(
        "the exporter asked Kubernetes for nothing but to list and to watch nodes",
        asked == {"list nodes", "watch nodes"},
        ", ".join(sorted(asked)) or "nothing",
    )


def _check_alerts(fleet: Fleet, alerts: Alerts) -> Iterator[Check]:
    changes, nodes = alerts.changes(fleet.node), alerts.alerted()
    yield Check(f"{alerts.reads} saw the metric rise and fall", changes == 2, f"{changes} changes")  # noqa: PLR2004
    yield Check(
        f"{ALERT} fired for {fleet.node} and no other node",
        nodes == {fleet.node},
        ", ".join(sorted(nodes)) or "none",
    )


def _check_way(fleet: Fleet) -> Iterator[Check]:
    """How many there were, the history that the operation tells, and the phases that Kubernetes saw it in."""
    statuses = [each.get("status") or {} for each in fleet.past_operations()]
    last = statuses[-1] if statuses else {}
    told = in_turn(each["phase"] for each in last.get("history") or ())
    seen = in_turn(each.get("phase", "") for each in statuses)
    in_order = seen == [phase for phase in (TimelinePhase.RECEIVED, *_WAY) if phase in seen]
    count = len(fleet.operations())
    yield Check("there was exactly one node operation", count == 1, f"{count}")
    yield Check(
        "the operation went its whole way and succeeded",
        told == list(_WAY) and in_order and last.get("phase") == TimelinePhase.SUCCEEDED,
        f"{' '.join(told) or 'none'} ({last.get('reason', '')})",
    )


def _check_taint(fleet: Fleet) -> Check:
    """Our taint came and went, and nobody cordoned the node."""
    nodes = fleet.past_nodes()
    operation = fleet.operation().get("metadata", {}).get("name", "")
    seen = in_turn(operation_taint_in(node) or "nobody" for node in nodes)
    left = [str(each["key"]) for each in nodes[-1]["spec"].get("taints") or ()]
    cordoned = any(node["spec"].get("unschedulable") for node in nodes)
    return Check(
        "the node was isolated for the operation, and takes pods again",
        seen == ["nobody", operation, "nobody"] and not left and not cordoned,
        f"isolated for {', '.join(seen)}; now {' '.join(left) or 'without a taint'}",
    )


def _check_reboot(fleet: Fleet) -> Iterator[Check]:
    boots = in_turn(boot_id_in(node) for node in fleet.past_nodes())
    reboots = fleet.sick_node.history.reboots
    yield Check(
        "its boot id changed exactly once, and so often it really went down",
        (len(boots), reboots) == (2, 1),
        f"{len(boots) - 1} changes, {reboots} times down",
    )
    jobs = fleet.kubernetes.log(keep=_made_a_job)
    yield Check("the remediator made one repair Job", len(jobs) == 1, f"{len(jobs)}")


def _check_training(fleet: Fleet) -> Iterator[Check]:
    evictions = fleet.kubernetes.log(keep=_evicted)
    yield Check("the training pod was evicted once", len(evictions) == 1, f"{len(evictions)}")
    where = fleet.people.trains_on()
    yield Check(
        f"the training goes on elsewhere than on {fleet.node}",
        where not in {"", fleet.node},
        where or "nowhere",
    )


def _made_a_job(entry: AuditEntry) -> bool:
    return (entry.user, entry.verb, entry.resource) == (REMEDIATOR, "create", "jobs")


def _evicted(entry: AuditEntry) -> bool:
    asked = (entry.user, entry.verb, entry.subresource, entry.took_effect)
    return asked == (REMEDIATOR, "create", "eviction", True)
