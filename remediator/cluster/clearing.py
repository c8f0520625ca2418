"""Whether the fault that an operation is for is gone: one reading of a cause for all who ask.

Pure. What is not known is None, and neither clear nor firing.
"""

from datetime import datetime, timedelta

from remediator.cluster.observation import Observation
from remediator.cluster.views import Sight
from remediator.operation import Cause, CauseKind, NodeOperation

STATUS_LABEL = "status"
"""In the labels of a cause that is a Node Condition: the status that began the operation."""


def cause_is_clear(cause: Cause, observation: Observation) -> bool | None:
    """Whether a cause is seen to be gone; None is unknown. A person's wish is never gone by itself."""
    if cause.kind is CauseKind.PERSON:
        return None
    if cause.kind is CauseKind.ALERT:
        alert = observation.alerts.get(cause.fingerprint)
        if alert is None or alert.sight is Sight.UNKNOWN:
            return None
        return alert.sight is Sight.ABSENT
    return _condition_is_clear(cause, observation)


def _condition_is_clear(cause: Cause, observation: Observation) -> bool | None:
    node = observation.node
    condition = node.conditions.get(cause.name) if node else None
    if condition is None or condition.status not in {"True", "False"}:
        return None
    return condition.status != cause.labels.get(STATUS_LABEL, "True")


def fault_is_clear(
    operation: NodeOperation, observation: Observation, now: datetime, freshness: timedelta
) -> bool:
    """Whether every cause is seen, by a fresh reading, to be gone."""
    causes = [each for each in operation.spec.causes if each.kind is not CauseKind.PERSON]
    if not causes or len(causes) != len(operation.spec.causes):
        return False
    return all(
        cause_is_clear(each, observation) is True and _is_fresh(each, observation, now, freshness)
        for each in causes
    )


def _is_fresh(cause: Cause, observation: Observation, now: datetime, freshness: timedelta) -> bool:
    if cause.kind is not CauseKind.ALERT:
        return not observation.stale(now, freshness)
    return abs(now - observation.alerts[cause.fingerprint].as_of) <= freshness
