"""What the runs of custom rules mean: reports for the conditions of permanent rules, events of temporary ones. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from chassis.contracts import ConditionReason
from exporters.custom_checks.definitions import CustomMonitor, CustomRule, RuleKind
from exporters.verdict import CheckReport, ConditionPolicy, Damping, Finding, Result

DAMPING = Damping(fail=1, ok=1, unknown=3)
"""A rule counts at once, as its author expects from node-problem-detector; only doubt is damped."""


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """How one run ended, with what it said on its standard output."""

    source: str
    rule: CustomRule
    result: Result
    message: str
    completed_at: datetime
    why: ConditionReason = ConditionReason.OTHER


@dataclass(frozen=True, slots=True)
class RuleEvent:
    """A temporary problem, seen once more."""

    source: str
    reason: str
    message: str
    at: datetime


def check_name(source: str, rule: CustomRule) -> str:
    """What the check of a rule is called in reports and metrics."""
    return f"custom/{source}/{rule.name}"


def reports_of(outcomes: Iterable[RuleOutcome]) -> tuple[CheckReport, ...]:
    """A report for each run of a permanent rule."""
    return tuple(
        CheckReport(
            check_name(outcome.source, outcome.rule),
            outcome.rule.condition,
            (_finding(outcome),),
            outcome.completed_at,
        )
        for outcome in outcomes
        if outcome.rule.kind is RuleKind.PERMANENT
    )


def _finding(outcome: RuleOutcome) -> Finding:
    subject = f"{outcome.source}/{outcome.rule.name}"
    if outcome.result is Result.INCONCLUSIVE:
        return Finding(subject, outcome.result, outcome.why, outcome.message)
    return Finding(subject, outcome.result, outcome.rule.reason, outcome.message)


def events_of(outcomes: Iterable[RuleOutcome]) -> tuple[RuleEvent, ...]:
    """An event for each run of a temporary rule that found its problem; a run without a verdict is none."""
    return tuple(
        RuleEvent(outcome.source, outcome.rule.reason, outcome.message, outcome.completed_at)
        for outcome in outcomes
        if outcome.rule.kind is RuleKind.TEMPORARY and outcome.result is Result.PROBLEM
    )


def policies_of(monitors: Sequence[CustomMonitor]) -> tuple[ConditionPolicy, ...]:
    """How the rules make up each condition, over all files: True when one of them says so.

    A condition without a permanent rule is never written: nothing would stand behind it.
    """
    checks: dict[str, dict[str, Damping]] = {}
    for monitor in monitors:
        for rule in monitor.rules:
            if rule.kind is RuleKind.PERMANENT:
                own = checks.setdefault(rule.condition, {})
                own[check_name(monitor.source, rule)] = DAMPING
    return tuple(_policy(kind, checks[kind], monitors) for kind in sorted(checks))


def _policy(
    kind: str, checks: dict[str, Damping], monitors: Sequence[CustomMonitor]
) -> ConditionPolicy:
    owners = [monitor for monitor in monitors if kind in monitor.conditions]
    healthy = owners[0].conditions[kind]
    reasons = [
        rule.reason for monitor in owners for rule in monitor.rules if rule.condition == kind
    ]
    return ConditionPolicy(
        type=kind,
        checks=checks,
        severity=tuple(dict.fromkeys(reasons)),
        healthy_reason=healthy.reason,
        healthy_message=healthy.message,
        plain_messages=True,
        message_follows=any(monitor.message_follows for monitor in owners),
    )
