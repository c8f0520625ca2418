"""Runs custom rules in killable children. Judges nothing but the exit status."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Protocol

from chassis.contracts import ConditionReason
from chassis.errors import TemporaryError
from exporters.custom_checks.definitions import CustomMonitor, CustomRule
from exporters.custom_checks.judging import RuleOutcome, check_name
from exporters.killable_child import ChildEnd, EndKind
from exporters.verdict import Result

_RESULTS = {0: Result.OK, 1: Result.PROBLEM}
_OUTPUT_BYTES = 4096
"""As much as node-problem-detector reads, before its `max_output_length` cuts further."""


class Children(Protocol):
    """What is asked of `exporters.killable_child.ChildPool`."""

    def run(self, key: str, argv: Sequence[str], deadline: timedelta) -> ChildEnd: ...


def run_rules(
    monitor: CustomMonitor,
    rules: Sequence[CustomRule],
    children: Children,
    clock: Callable[[], datetime],
) -> tuple[RuleOutcome, ...]:
    """Run these rules of a monitor, as many at once as it allows. Takes as long as their time-outs at most."""
    if not rules:
        return ()
    with ThreadPoolExecutor(monitor.concurrency, thread_name_prefix="custom") as threads:
        return tuple(threads.map(lambda rule: _run(monitor, rule, children, clock), rules))


def _run(
    monitor: CustomMonitor, rule: CustomRule, children: Children, clock: Callable[[], datetime]
) -> RuleOutcome:
    try:
        end = children.run(
            check_name(monitor.source, rule), (str(rule.path), *rule.args), rule.timeout
        )
    except TemporaryError as error:
        return RuleOutcome(monitor.source, rule, Result.INCONCLUSIVE, str(error), clock())
    result, why, message = _judged(end, monitor.max_output_bytes)
    return RuleOutcome(monitor.source, rule, result, message, clock(), why)


def _judged(end: ChildEnd, limit: int) -> tuple[Result, ConditionReason, str]:
    if end.kind is EndKind.BUSY:
        text = "the run before has not ended and cannot be killed"
        return Result.INCONCLUSIVE, ConditionReason.TIMEOUT, text
    if end.kind is not EndKind.EXITED:
        text = f"no answer in {end.seconds:.1f} s"
        return Result.INCONCLUSIVE, ConditionReason.TIMEOUT, text
    result = _RESULTS.get(-1 if end.exit_code is None else end.exit_code, Result.INCONCLUSIVE)
    return result, ConditionReason.OTHER, _message(end.stdout, limit) or f"exit {end.exit_code}"


def _message(output: bytes, limit: int) -> str:
    """The first `limit` bytes, whole characters only."""
    return output[:_OUTPUT_BYTES].strip()[:limit].decode("utf-8", "replace").rstrip("\ufffd")
