"""What each thing that must hold looks like now: clear, wrong, or not to be seen.

Pure. A reading that is not newer than the repair's end, or too old by now, counts as not seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from remediator.cluster import (
    STATUS_LABEL,
    AlertView,
    ConditionView,
    NodeView,
    Observation,
    QueryResult,
    QueryView,
    Sight,
)
from remediator.config import FreshnessSettings, ProofSettings
from remediator.operation import CauseKind, NodeOperation

_HEALTHY_IF_TRUE = frozenset({"Ready"})
"""All other conditions are a problem when True, unless the operation began for another status."""


class Sign(StrEnum):
    """How one thing that must hold looks."""

    CLEAR = "clear"
    WRONG = "wrong"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing, how it looks, and since when it is clear if that is known."""

    sign: Sign
    text: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """When the repair ended, what time it is, and how old a reading may be."""

    fixed: datetime
    now: datetime
    freshness: FreshnessSettings

    def unusable(self, as_of: datetime, limit: timedelta) -> str:
        """Why a reading of that time says nothing, or nothing if it does."""
        if as_of <= self.fixed:
            return "not looked at since the repair"
        if abs(self.now - as_of) > limit:
            return f"last looked at {as_of:%H:%M:%S}"
        return ""


def node_findings(
    operation: NodeOperation, observation: Observation, policy: ProofSettings, times: Times
) -> Iterator[Finding]:
    """Whether the node is Ready in the boot that is proven, and the conditions of causes and playbook are gone."""
    node = observation.node
    if node is None:
        yield Finding(Sign.UNSEEN, "there is no such node")
        return
    if why := times.unusable(observation.as_of, times.freshness.nodes):
        yield Finding(Sign.UNSEEN, f"node: {why}")
        return
    yield from _boot(node, operation.status.boot_id)
    yield _ready(node)
    faults = _fault_statuses(operation)
    for name in condition_types(operation, policy):
        wrong = faults.get(name) or ("False" if name in _HEALTHY_IF_TRUE else "True")
        yield _condition(name, node.conditions.get(name), times, wrong)


def condition_types(operation: NodeOperation, policy: ProofSettings) -> tuple[str, ...]:
    """The conditions that must be gone, each once."""
    causes = (each.name for each in operation.spec.causes if each.kind is CauseKind.CONDITION)
    return tuple(dict.fromkeys((*causes, *policy.conditions)))


def _fault_statuses(operation: NodeOperation) -> dict[str, str]:
    """By condition, the status that began the operation, where it is one that may be judged."""
    told = {
        each.name: each.labels.get(STATUS_LABEL, "")
        for each in operation.spec.causes
        if each.kind is CauseKind.CONDITION
    }
    return {name: status for name, status in told.items() if status in {"True", "False"}}


def alert_findings(
    operation: NodeOperation, observation: Observation, times: Times
) -> Iterator[Finding]:
    """Whether the alerts of all causes are gone from every Alertmanager."""
    for cause in operation.spec.causes:
        if cause.kind is CauseKind.ALERT:
            view = observation.alerts.get(cause.fingerprint)
            yield _alert(f"alert {cause.name}", view, times)


def query_findings(
    observation: Observation, policy: ProofSettings, times: Times
) -> Iterator[Finding]:
    """Whether the playbook's queries pass."""
    for query in policy.queries:
        yield _query(f"query {query.name}", observation.queries.get(query.name), times)


def _boot(node: NodeView, proven: str) -> Iterator[Finding]:
    if not node.boot_id:
        yield Finding(Sign.UNSEEN, "the node shows no boot id")
    elif node.boot_id != proven:
        yield Finding(Sign.UNSEEN, "the node is in another boot than the one that is proven")


def _ready(node: NodeView) -> Finding:
    if node.ready == "Unknown":
        return Finding(Sign.UNSEEN, "the kubelet is not heard")
    sign = Sign.CLEAR if node.is_ready else Sign.WRONG
    return Finding(sign, "the node is Ready" if node.is_ready else "the node is not Ready")


def _condition(name: str, view: ConditionView | None, times: Times, wrong: str) -> Finding:
    if view is None:
        return Finding(Sign.UNSEEN, f"the node has no condition {name}")
    if view.heartbeat <= times.fixed:
        return Finding(Sign.UNSEEN, f"{name} was not judged since the repair")
    if view.status not in {"True", "False"}:
        return Finding(Sign.UNSEEN, f"{name} is {view.status}: {view.reason}")
    if view.status == wrong:
        return Finding(Sign.WRONG, f"{name} is {view.status}: {view.reason}")
    if why := times.unusable(view.heartbeat, times.freshness.conditions):
        return Finding(Sign.UNSEEN, f"{name}: {why}")
    return Finding(Sign.CLEAR, f"{name} is {view.status}", view.since)


def _alert(what: str, view: AlertView | None, times: Times) -> Finding:
    if view is None:
        return Finding(Sign.UNSEEN, f"{what}: not looked at")
    if why := times.unusable(view.as_of, times.freshness.alerts):
        return Finding(Sign.UNSEEN, f"{what}: {why}")
    match view.sight:
        case Sight.ABSENT:
            return Finding(Sign.CLEAR, f"{what} is gone")
        case Sight.FIRING:
            return Finding(Sign.WRONG, f"{what} fires")
        case Sight.UNKNOWN:
            return Finding(Sign.UNSEEN, f"{what}: not every Alertmanager can be asked")


def _query(what: str, view: QueryView | None, times: Times) -> Finding:
    if view is None:
        return Finding(Sign.UNSEEN, f"{what}: not asked")
    if why := times.unusable(view.as_of, times.freshness.queries):
        return Finding(Sign.UNSEEN, f"{what}: {why}")
    match view.result:
        case QueryResult.PASSED:
            return Finding(Sign.CLEAR, f"{what} passes")
        case QueryResult.FAILED:
            return Finding(Sign.WRONG, f"{what} fails: {view.text}")
        case QueryResult.NO_DATA:
            return Finding(Sign.UNSEEN, f"{what} has no data")
        case QueryResult.ERROR:
            return Finding(Sign.UNSEEN, f"{what}: {view.text or 'an error'}")
