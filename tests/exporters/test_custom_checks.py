"""Custom checks: node-problem-detector's files as they are, programs that behave and programs that do not."""

import contextlib
import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import ConfigError
from exporters.custom_checks import (
    CustomMonitor,
    RuleKind,
    RuleOutcome,
    events_of,
    load_monitor,
    load_monitors,
    parse_go_duration,
    policies_of,
    reports_of,
    run_rules,
)
from exporters.killable_child import ChildPool
from exporters.verdict import ConditionState, Result, step
from tests.exporters.check_builders import MINUTE, NOW

FIXTURE = Path(__file__).parent / "fixtures" / "custom_plugin_monitor" / "clock.json"
PASS, FAIL, NO_VERDICT = "echo fine", "echo 'off by 3 s'; exit 1", "echo dunno; exit 2"


def a_program(base: Path, body: str = PASS, name: str = "check.sh") -> None:
    path = base / "plugin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def a_rule(**changes: Any) -> dict[str, Any]:
    rule = {
        "type": "permanent",
        "condition": "Thing",
        "reason": "ThingIsBad",
        "path": "plugin/check.sh",
    }
    return rule | changes


def a_definition(*rules: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "plugin": "custom",
        "source": "thing-monitor",
        "conditions": [{"type": "Thing", "reason": "ThingIsFine", "message": "all is well"}],
        "rules": list(rules) or [a_rule()],
    } | changes


def load(base: Path, definition: object, name: str = "thing.json") -> CustomMonitor:
    path = base / name
    path.write_text(definition if isinstance(definition, str) else json.dumps(definition))
    if not (base / "plugin").exists():
        a_program(base)
    return load_monitor(path, base)


def run(monitor: CustomMonitor, pool: ChildPool | None = None) -> tuple[RuleOutcome, ...]:
    return run_rules(monitor, monitor.rules, pool or a_pool(), lambda: NOW)


def a_pool() -> ChildPool:
    return ChildPool({"PATH": "/usr/bin:/bin"}, reap_wait=timedelta(seconds=0.5))


def after(monitor: CustomMonitor, *rounds: tuple[RuleOutcome, ...]) -> ConditionState:
    [policy] = policies_of([monitor])
    state: ConditionState | None = None
    for minute, outcomes in enumerate(rounds):
        for report in reports_of(outcomes):
            state = step(state, report, policy, NOW + minute * MINUTE)
    assert state is not None
    return state


def outcomes(monitor: CustomMonitor, *results: Result) -> tuple[RuleOutcome, ...]:
    return tuple(
        RuleOutcome(monitor.source, rule, result, f"says {result}", NOW)
        for rule, result in zip(monitor.rules, results, strict=True)
    )


# The files.


def test_a_file_of_node_problem_detector_is_read_as_it_is(tmp_path: Path) -> None:
    a_program(tmp_path)
    monitor = load_monitor(FIXTURE, tmp_path)

    first, second, third = monitor.rules
    assert (monitor.source, monitor.concurrency, monitor.max_output_bytes) == (
        "clock-monitor",
        3,
        80,
    )
    assert (first.kind, first.args, first.timeout) == (
        RuleKind.PERMANENT,
        ("--offset", "1"),
        timedelta(seconds=3),
    )
    assert (first.interval, second.interval) == (timedelta(seconds=30), timedelta(seconds=90))
    assert (third.kind, third.timeout) == (RuleKind.TEMPORARY, timedelta(seconds=5))
    assert monitor.conditions["ClockProblem"].reason == "ClockIsRight"
    assert monitor.remarks == ()


def test_what_is_left_out_has_the_defaults_of_node_problem_detector(tmp_path: Path) -> None:
    monitor = load(tmp_path, a_definition())

    assert (monitor.concurrency, monitor.max_output_bytes, monitor.message_follows) == (
        3,
        80,
        False,
    )
    assert (monitor.rules[0].timeout, monitor.rules[0].interval, monitor.rules[0].args) == (
        timedelta(seconds=5),
        timedelta(seconds=30),
        (),
    )


def test_keys_count_in_any_case_and_an_unknown_one_is_remarked(tmp_path: Path) -> None:
    definition = a_definition(a_rule(comment="why")) | {"PluginConfig": {"Timeout": "7s"}}
    monitor = load(tmp_path, definition)

    assert monitor.rules[0].timeout == timedelta(seconds=7)
    assert monitor.remarks == (f"{tmp_path}/thing.json: rules[0].comment: nothing reads this key",)


def test_rules_with_one_reason_have_names_of_their_own(tmp_path: Path) -> None:
    monitor = load(tmp_path, a_definition(a_rule(), a_rule(), a_rule(reason="Else")))

    assert [rule.name for rule in monitor.rules] == ["ThingIsBad", "ThingIsBad#2", "Else"]


MISTAKES = {
    "not custom": ({"plugin": "kmsg"}, 'plugin: must be "custom"'),
    "a type of Kubernetes": (
        {"conditions": [{"type": "Ready", "reason": "R"}]},
        'conditions[0].type: "Ready" is written by Kubernetes; choose another type',
    ),
    "a type of Nodemend": (
        {"conditions": [{"type": "GPUIsLost", "reason": "R"}]},
        'conditions[0].type: "GPUIsLost" is written by a check of Nodemend',
    ),
    "a type that is none": (
        {"conditions": [{"type": "a b", "reason": "R"}]},
        "conditions[0].type: not the type of a condition",
    ),
    "no preset condition": (
        {"conditions": []},
        'rules[0].condition: "Thing" is not under conditions; add it there',
    ),
    "another kind of rule": (
        {"rules": [a_rule(type="often")]},
        'rules[0].type: must be "permanent" or "temporary"',
    ),
    "no reason": ({"rules": [a_rule(reason="")]}, "rules[0].reason: must be a text, not empty"),
    "a reason with spaces": (
        {"rules": [a_rule(reason="it is bad")]},
        "rules[0].reason: not a reason",
    ),
    "no program": ({"rules": [a_rule(path="plugin/none.sh")]}, "rules[0].path: there is no file"),
    "arguments that are no texts": (
        {"rules": [a_rule(args=[1])]},
        "rules[0].args: must be a list of texts",
    ),
    "a time-out above the common one": (
        {"rules": [a_rule(timeout="6s")]},
        "rules[0].timeout: is longer than pluginConfig.timeout",
    ),
    "a duration without unit": (
        {"pluginConfig": {"timeout": "5"}},
        "pluginConfig.timeout: not a duration",
    ),
    "a duration that is a number": (
        {"pluginConfig": {"timeout": 5}},
        "pluginConfig.timeout: must be a text",
    ),
    "an interval of 0": (
        {"pluginConfig": {"invoke_interval": "0s"}},
        "pluginConfig.invoke_interval: must be more than 0",
    ),
    "no concurrency": (
        {"pluginConfig": {"concurrency": 0}},
        "pluginConfig.concurrency: must be a whole",
    ),
    "a flag that is a text": (
        {"pluginConfig": {"enable_message_change_based_condition_update": "no"}},
        "must be true or false",
    ),
    "no rules": ({"rules": []}, "rules: there is none"),
    "rules that are none": ({"rules": {}}, "rules: must be a list"),
    "a rule that is a text": ({"rules": ["x"]}, "rules[0]: must be an object"),
}


@pytest.mark.parametrize(("changes", "mistake"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_with_file_and_key(
    tmp_path: Path, changes: dict[str, Any], mistake: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, a_definition(**changes))

    assert f"{tmp_path}/thing.json: " in refused.value.mistakes[0]
    assert mistake in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"a": 1,}'])
def test_a_file_that_is_no_json_object_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"thing\.json: "):
        load(tmp_path, text)


def test_the_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    load(tmp_path, a_definition(), "a.json")
    load(tmp_path, a_definition(), "b.json")
    paths = [tmp_path / "a.json", tmp_path / "b.json", tmp_path / "none.json"]

    with pytest.raises(ConfigError) as refused:
        load_monitors(paths, tmp_path)

    assert [mistake.partition(": ")[2] for mistake in refused.value.mistakes] == [
        f"source: {tmp_path}/a.json has the same; give each file its own",
        "cannot be read: No such file or directory",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", 30),
        ("1m30s", 90),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("300ms", 0.3),
        ("1s1m", 61),
        ("+2us", 0.000002),
        ("86400s", 86400),
        ("0", 0),
    ],
)
def test_durations_are_those_of_go(text: str, expected: float) -> None:
    assert parse_go_duration(text) == timedelta(seconds=expected)


@pytest.mark.parametrize(
    "text", ["", "5", "-5s", "1d", "s", "1 s", "5s ", "9" * 400 + "h", "1.2.3s"]
)
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_go_duration(text)


@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_a_mistake(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_go_duration(text) >= timedelta(0)


# The programs.


@pytest.mark.parametrize(
    ("body", "result", "message"),
    [
        (PASS, Result.OK, "fine"),
        (FAIL, Result.PROBLEM, "off by 3 s"),
        (NO_VERDICT, Result.INCONCLUSIVE, "dunno"),
        ("exit 1", Result.PROBLEM, "exit 1"),
        ("kill -9 $$", Result.INCONCLUSIVE, "exit -9"),
        ("printf '%0200d' 7; exit 1", Result.PROBLEM, "0" * 80),
        (
            "printf '%s' '\u00e4\u00e4\u00e4\u00e4'; exit 1",
            Result.PROBLEM,
            "\u00e4\u00e4\u00e4\u00e4",
        ),
        ("echo why >&2; exit 1", Result.PROBLEM, "exit 1"),
    ],
)
def test_the_exit_status_is_the_result(
    tmp_path: Path, body: str, result: Result, message: str
) -> None:
    a_program(tmp_path, body)
    [outcome] = run(load(tmp_path, a_definition()))

    assert (outcome.result, outcome.message) == (result, message)


def test_arguments_reach_the_program(tmp_path: Path) -> None:
    a_program(tmp_path, 'echo "$1|$2"')
    [outcome] = run(load(tmp_path, a_definition(a_rule(args=["a b", "$HOME"]))))

    assert outcome.message == "a b|$HOME"


def test_a_program_that_cannot_run_is_no_verdict(tmp_path: Path) -> None:
    monitor = load(tmp_path, a_definition())
    (tmp_path / "plugin" / "check.sh").chmod(0o644)
    [outcome] = run(monitor)

    assert outcome.result is Result.INCONCLUSIVE


def test_a_program_that_takes_too_long_is_killed_without_a_verdict_and_holds_up_no_other(
    tmp_path: Path,
) -> None:
    a_program(tmp_path, "sleep 60", "slow.sh")
    a_program(tmp_path, FAIL)
    slow = a_rule(path="plugin/slow.sh", reason="Slow", timeout="300ms")
    monitor = load(tmp_path, a_definition(slow, a_rule()))
    started = time.monotonic()
    first, second = run(monitor)

    assert time.monotonic() - started < 20
    assert (first.result, first.why, second.result) == (
        Result.INCONCLUSIVE,
        "Timeout",
        Result.PROBLEM,
    )


# What follows.


def test_a_failing_and_a_passing_rule_of_one_condition_make_it_true_without_flipping(
    tmp_path: Path,
) -> None:
    monitor = load(tmp_path, a_definition(a_rule(), a_rule(reason="Else")))
    rounds = [outcomes(monitor, Result.PROBLEM, Result.OK)] * 5
    state = after(monitor, *rounds)

    assert (state.status, state.reason, state.message) == ("True", "ThingIsBad", "says problem")
    assert state.last_transition == NOW


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([Result.OK], ("False", "ThingIsFine", "all is well")),
        ([Result.PROBLEM], ("True", "ThingIsBad", "says problem")),
        ([Result.PROBLEM, Result.OK], ("False", "ThingIsFine", "all is well")),
        ([Result.PROBLEM, Result.INCONCLUSIVE], ("True", "ThingIsBad", "says problem")),
        ([Result.OK, Result.INCONCLUSIVE], ("False", "ThingIsFine", "all is well")),
        (
            [Result.OK] + [Result.INCONCLUSIVE] * 3,
            ("Unknown", "Other", "thing-monitor/ThingIsBad=Other"),
        ),
        ([Result.INCONCLUSIVE], ("Unknown", "Other", "thing-monitor/ThingIsBad=Other")),
    ],
)
def test_runs_of_a_permanent_rule_make_its_condition(
    tmp_path: Path, results: list[Result], expected: tuple[str, str, str]
) -> None:
    monitor = load(tmp_path, a_definition())
    state = after(monitor, *(outcomes(monitor, result) for result in results))

    assert (state.status, state.reason, state.message) == expected


def test_each_failure_of_a_temporary_rule_is_an_event_and_touches_no_condition(
    tmp_path: Path,
) -> None:
    monitor = load(tmp_path, a_definition(a_rule(type="temporary", condition="")))
    runs = [result for result in Result for _ in range(2)]
    seen = [outcome for result in runs for outcome in outcomes(monitor, result)]

    assert [event.reason for event in events_of(seen)] == ["ThingIsBad"] * 2
    assert reports_of(seen) == ()
    assert policies_of([monitor]) == ()


def test_rules_of_several_files_make_up_one_condition(tmp_path: Path) -> None:
    first = load(tmp_path, a_definition(), "a.json")
    second = load(tmp_path, a_definition(a_rule(reason="Else"), source="other"), "b.json")
    [policy] = policies_of([first, second])

    assert set(policy.checks) == {"custom/thing-monitor/ThingIsBad", "custom/other/Else"}
    assert policy.severity == ("ThingIsBad", "Else")
