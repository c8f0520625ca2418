"""The judgement over all findings: proven, not yet, or failed.

Pure. The soak starts anew whenever something is wrong or cannot be seen.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from remediator.cluster import Failed, Judgement, NotYet, Observation, Proven
from remediator.config import FreshnessSettings, Playbook, ProofSettings
from remediator.operation import CauseKind, NodeOperation, Reason
from remediator.proof.findings import (
    Finding,
    Sign,
    Times,
    alert_findings,
    condition_types,
    node_findings,
    query_findings,
)
from remediator.proof.probing import ProbeSays, probe_says

_LOOK_AGAIN = timedelta(seconds=15)
_NAMED = 5


def judge(
    operation: NodeOperation,
    observation: Observation,
    policy: ProofSettings,
    now: datetime,
    freshness: FreshnessSettings = FreshnessSettings(),  # noqa: B008  (frozen)
) -> Judgement:
    """Whether the node is proven healthy since the repair ended (`status.fixed_at`).

    What holds must hold `soak` long without a gap; then the probe is asked for, if the playbook
    wants it. Without an end by the deadline it has failed: NOT_PROVEN if something was seen to be
    wrong, CANNOT_PROVE if it could not be seen. With nothing to prove by, it has failed at once.
    """
    if nothing := nothing_to_prove_by(operation, policy):
        return Failed(Reason.CANNOT_PROVE, nothing)
    fixed = operation.status.fixed_at or operation.status.since or now
    times = Times(fixed, now, freshness)
    findings = tuple(_findings(operation, observation, policy, times))
    if any(each.sign is not Sign.CLEAR for each in findings):
        return _not_clear(findings, times, fixed + policy.deadline)
    since = _clear_since(operation, findings, times)
    if now < since + policy.soak:
        return _soaking(since, policy, times)
    if not policy.probe:
        return Proven(_proven_text(findings, since), since)
    return _by_probe(observation, findings, policy, times, since)


def settings_for(operation: NodeOperation, playbook: Playbook) -> ProofSettings:
    """What proves a repair of this playbook for this operation.

    What an alert or a person began, and the playbook names no proof for, is proven by the conditions that would have
    begun it.
    """
    policy = playbook.proof
    if playbook.conditions is None or not nothing_to_prove_by(operation, policy):
        return policy
    wanted = (*playbook.conditions.all, *playbook.conditions.any)
    types = {each.type for each in wanted if each.status == "True" or each.type == "Ready"}
    return policy.model_copy(update={"conditions": tuple(sorted(types))})


def nothing_to_prove_by(operation: NodeOperation, policy: ProofSettings) -> str:
    """Why no repair for this operation could ever be proven, empty if it could."""
    by_alerts = policy.alerts and any(
        cause.kind is CauseKind.ALERT for cause in operation.spec.causes
    )
    if by_alerts or condition_types(operation, policy) or policy.queries or policy.probe:
        return ""
    return (
        "there is nothing to prove it by: no cause is a condition or an alert, and the playbook's"
        " proof names no conditions, queries or probe"
    )


def _findings(
    operation: NodeOperation, observation: Observation, policy: ProofSettings, times: Times
) -> Iterator[Finding]:
    yield from node_findings(operation, observation, policy, times)
    if policy.alerts:
        yield from alert_findings(operation, observation, times)
    yield from query_findings(observation, policy, times)


def _not_clear(findings: tuple[Finding, ...], times: Times, deadline: datetime) -> Judgement:
    wrong = [each.text for each in findings if each.sign is Sign.WRONG]
    unseen = [each.text for each in findings if each.sign is Sign.UNSEEN]
    text = _joined(wrong + unseen)
    if times.now >= deadline:
        return Failed(Reason.NOT_PROVEN if wrong else Reason.CANNOT_PROVE, text)
    wake = min(deadline, times.now + _LOOK_AGAIN)
    return NotYet(Reason.WAITS_FOR_CHECKS, text, wake_at=wake)


def _clear_since(operation: NodeOperation, findings: tuple[Finding, ...], times: Times) -> datetime:
    """Since when all of it has been seen clear; a time before the repair or in the future is none."""
    told = operation.status.clear_since
    if told is None or not times.fixed <= told <= times.now:
        return times.now
    # What flipped and came back between two looks shows in the condition's own time.
    changes = [each.since for each in findings if each.since is not None]
    return min(max([told, *changes]), times.now)


def _soaking(since: datetime, policy: ProofSettings, times: Times) -> Judgement:
    deadline = times.fixed + policy.deadline
    if times.now >= deadline:
        return Failed(Reason.NOT_PROVEN, f"clear only since {since:%H:%M:%S}, too late to last")
    end = since + policy.soak
    wake = min(end, deadline, times.now + _LOOK_AGAIN)
    return NotYet(
        Reason.SOAKING, f"clear since {since:%H:%M:%S}, until {end:%H:%M:%S}", since, wake
    )


def _by_probe(
    observation: Observation,
    findings: tuple[Finding, ...],
    policy: ProofSettings,
    times: Times,
    since: datetime,
) -> Judgement:
    probe = observation.probe
    says = probe_says(probe, observation.node, times)
    if says is ProbeSays.PASSED:
        return Proven(f"{_proven_text(findings, since)}; the probe passed on every GPU", since)
    if says is ProbeSays.FAILED:
        return Failed(Reason.NOT_PROVEN, f"the probe found a problem: {probe.text}".rstrip(": "))
    deadline = times.fixed + policy.deadline
    if times.now >= deadline:
        text = f"the probe has not answered ({probe.state}): {probe.text}".rstrip(": ")
        return Failed(Reason.CANNOT_PROVE, text)
    ask = says is ProbeSays.ASK
    text = "the probe is asked for" if ask else f"the probe is {probe.state}"
    wake = min(deadline, times.now + _LOOK_AGAIN)
    return NotYet(Reason.WAITS_FOR_PROBE, text, since, wake, ask)


def _proven_text(findings: tuple[Finding, ...], since: datetime) -> str:
    return f"{_joined([each.text for each in findings])}, since {since:%H:%M:%S}"


def _joined(texts: list[str]) -> str:
    more = f"; and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return "; ".join(texts[:_NAMED]) + more
