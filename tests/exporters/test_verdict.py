"""From reports to a Node Condition: damping, aggregation, adoption, and what must never happen."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.contracts import ConditionReason
from chassis.errors import PermanentError
from exporters.verdict import (
    NODE,
    CheckReport,
    ConditionPolicy,
    ConditionState,
    Damping,
    Finding,
    Result,
    Status,
    adopt,
    bounded_message,
    dump_state,
    load_state,
    standing_problems,
    step,
    unchecked,
)
from tests.exporters.check_builders import MINUTE, NOW, a_report, bad, ok, unclear

NOT_YET_CHECKED = ConditionReason.NOT_YET_CHECKED

POLICY = ConditionPolicy("Thing", {"one": Damping(fail=3, ok=2)}, severity=("Worst", "Bad"))
TWO = replace(POLICY, checks={"one": Damping(fail=1, ok=2), "two": Damping(fail=1, ok=2)})


def run(
    *rounds: tuple[Finding, ...] | Finding,
    policy: ConditionPolicy = POLICY,
    start: ConditionState | None = None,
) -> ConditionState:
    state = start or unchecked("Thing", NOW - MINUTE)
    for minute, findings in enumerate(rounds):
        found = (findings,) if isinstance(findings, Finding) else findings
        state = step(state, a_report(*found, minutes=minute), policy, NOW + minute * MINUTE)
    return state


def seen(state: ConditionState) -> tuple[str, str]:
    return (str(state.status), state.reason)


def on_node(status: Status, reason: str = "Bad", *, hours: int = 1) -> ConditionState:
    return ConditionState("Thing", status, reason, "as it was", NOW - timedelta(hours=hours))


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        pytest.param([], ("Unknown", NOT_YET_CHECKED), id="nothing is known before a check"),
        pytest.param([ok()], ("False", "Healthy"), id="one ok makes a first False"),
        pytest.param([unclear()], ("Unknown", "Timeout"), id="no verdict is never healthy"),
        pytest.param(
            [bad()],
            ("Unknown", NOT_YET_CHECKED),
            id="a first problem is not yet True",
        ),
        pytest.param([ok(), bad(), bad()], ("False", "Healthy"), id="two problems of three wait"),
        pytest.param([bad(), bad(), bad()], ("True", "Bad"), id="three problems in a row set"),
        pytest.param(
            [ok(), bad(), ok(), bad(), ok(), bad()], ("False", "Healthy"), id="flapping is damped"
        ),
        pytest.param([bad(definite=True)], ("True", "Bad"), id="a definite one sets at once"),
        pytest.param([bad(definite=True), ok()], ("True", "Bad"), id="one ok clears nothing"),
        pytest.param([bad(definite=True), ok(), ok()], ("False", "Healthy"), id="two oks clear"),
        pytest.param(
            [bad(definite=True), *[unclear()] * 9], ("True", "Bad"), id="no verdict clears nothing"
        ),
        pytest.param(
            [bad(), unclear(), bad(), unclear(), bad()],
            ("True", "Bad"),
            id="no verdict interrupts no row",
        ),
        pytest.param(
            [ok(), unclear(), unclear()], ("False", "Healthy"), id="two doubts keep False"
        ),
        pytest.param(
            [ok(), *[unclear()] * 3], ("Unknown", "Timeout"), id="three doubts make Unknown"
        ),
        pytest.param(
            [ok(), *[unclear()] * 3, ok()], ("False", "Healthy"), id="an ok ends the doubt"
        ),
        pytest.param(
            [ok(), *[unclear(reason="GPUBusy")] * 9], ("False", "Healthy"), id="busy is no doubt"
        ),
        pytest.param(
            [unclear(reason="GPUBusy")],
            ("Unknown", "GPUBusy"),
            id="busy from the start is not healthy",
        ),
        pytest.param(
            [(ok("a"), unclear("b"))],
            ("Unknown", "Timeout"),
            id="one of two unjudged is not healthy",
        ),
        pytest.param(
            [bad(definite=True), (), ()],
            ("Unknown", NOT_YET_CHECKED),
            id="a subject that is gone is over",
        ),
        pytest.param(
            [bad(definite=True), *[unclear(NODE)] * 3],
            ("True", "Bad"),
            id="blindness is no absence",
        ),
        pytest.param(
            [(bad("a", definite=True), bad("b", "Worst", definite=True))],
            ("True", "Worst"),
            id="the worst reason is told",
        ),
    ],
)
def test_rounds_lead_to_a_status(rounds: list[Finding], expected: tuple[str, str]) -> None:
    assert seen(run(*rounds)) == expected


def test_the_transition_moves_with_the_status_alone() -> None:
    state = run(ok(), bad("a", definite=True), (ok("a"), bad("b", "Worst", definite=True)))

    assert seen(state) == ("True", "Worst")
    assert state.last_transition == NOW + MINUTE


def test_a_true_without_news_says_when_the_last_verdict_was() -> None:
    state = run(bad(definite=True), *[unclear()] * 3)

    assert state.message == "a=Bad; last verdict 2026-11-30T12:00:00Z"


# Several checks of one condition.


def both(first: Finding, second: Finding, *, start: ConditionState | None = None) -> ConditionState:
    state = step(start, a_report(first, check="one"), TWO, NOW)
    return step(state, a_report(second, check="two"), TWO, NOW)


def test_one_failing_check_of_two_is_true_and_does_not_flip() -> None:
    state = both(bad(), ok())
    again = both(bad(), ok(), start=state)

    assert seen(state) == seen(again) == ("True", "Bad")
    assert again.last_transition == state.last_transition


def test_a_pass_clears_only_what_its_own_check_has_set() -> None:
    state = both(bad(), ok())
    for _ in range(5):
        state = step(state, a_report(ok(), check="two"), TWO, NOW)

    assert seen(state) == ("True", "Bad")


def test_a_check_that_has_not_run_yet_holds_back_false() -> None:
    state = step(None, a_report(ok(), check="one"), TWO, NOW)

    assert seen(state) == ("Unknown", NOT_YET_CHECKED)


def test_a_check_that_is_not_required_holds_back_nothing() -> None:
    policy = replace(TWO, checks={**TWO.checks, "two": Damping(required=False)})
    state = step(None, a_report(ok(), check="one"), policy, NOW)

    assert seen(state) == ("False", "Healthy")
    assert seen(step(state, a_report(bad(definite=True), check="two"), policy, NOW)) == (
        "True",
        "Bad",
    )


def test_a_removed_check_takes_its_problems_along() -> None:
    state = both(bad(), ok())

    assert seen(
        step(state, a_report(ok(), check="two"), replace(TWO, checks={"two": Damping()}), NOW)
    ) == (
        "False",
        "Healthy",
    )


def test_a_report_of_an_unknown_check_changes_nothing() -> None:
    state = run(ok())

    assert step(state, a_report(bad(definite=True), check="other"), POLICY, NOW) == state


# What was found on the node.


@pytest.mark.parametrize(
    ("found", "heartbeat_hours", "expected"),
    [
        pytest.param(None, 0, ("Unknown", NOT_YET_CHECKED), id="nothing there is Unknown"),
        pytest.param(on_node(Status.TRUE), 9, ("True", "Bad"), id="a True stays, however old"),
        pytest.param(
            on_node(Status.FALSE, "Healthy"),
            0,
            ("False", "Healthy"),
            id="a False of this boot stays",
        ),
        pytest.param(
            on_node(Status.FALSE, "Healthy"),
            9,
            ("Unknown", NOT_YET_CHECKED),
            id="a False of another boot does not count",
        ),
        pytest.param(
            on_node(Status.UNKNOWN, "Timeout"),
            0,
            ("Unknown", NOT_YET_CHECKED),
            id="Unknown stays Unknown",
        ),
    ],
)
def test_a_start_adopts_what_the_node_says(
    found: ConditionState | None, heartbeat_hours: int, expected: tuple[str, str]
) -> None:
    heartbeat = NOW - timedelta(hours=heartbeat_hours)

    assert seen(adopt(found, heartbeat, NOW - timedelta(hours=5), POLICY, NOW)) == expected


def test_a_crash_loop_never_moves_an_adopted_condition() -> None:
    state = on_node(Status.TRUE)
    for minute in range(10):
        now = NOW + minute * MINUTE
        state = step(adopt(state, now, NOW - MINUTE, POLICY, now), a_report(ok()), POLICY, now)

    assert (seen(state), state.last_transition) == (("True", "Bad"), NOW - timedelta(hours=1))


def test_an_adopted_true_needs_the_oks_of_every_check() -> None:
    start = adopt(on_node(Status.TRUE), NOW, NOW, TWO, NOW)
    for _ in range(3):
        start = step(start, a_report(ok(), check="one"), TWO, NOW)
    assert seen(start) == ("True", "Bad")

    start = step(start, a_report(ok(), check="two"), TWO, NOW)
    assert seen(start) == ("True", "Bad")

    assert seen(step(start, a_report(ok(), check="two"), TWO, NOW)) == ("False", "Healthy")


def test_an_adopted_true_does_not_wait_for_a_check_that_this_hardware_has_not() -> None:
    policy = replace(TWO, checks={"one": Damping(ok=1), "two": Damping(required=False)})
    state = adopt(on_node(Status.TRUE), NOW, NOW, policy, NOW)
    state = step(state, a_report(unclear(NODE, "NotSupported"), check="two"), policy, NOW)

    assert seen(step(state, a_report(ok(), check="one"), policy, NOW)) == ("False", "Healthy")


# Messages.


def test_a_message_stays_within_its_bound_and_drops_whole_entries() -> None:
    state = run(tuple(bad(f"GPU-{number:04}-{'x' * 72}", definite=True) for number in range(400)))

    assert len(state.message.encode()) <= 1024
    assert state.message.endswith(f"+{400 - state.message.count('=Bad')} more")
    assert all(entry.endswith("=Bad") for entry in state.message.split(", ")[:-1])
    assert len(standing_problems(state)) == 400


@given(st.lists(st.text(max_size=300), max_size=40), st.integers(min_value=12, max_value=1024))
def test_any_entries_make_one_printable_bounded_line(entries: list[str], limit: int) -> None:
    message = bounded_message(entries, limit=limit)

    assert len(message.encode()) <= limit
    assert not set("\n\r\t\0\u2028") & set(message)


def test_the_message_of_a_custom_rule_is_its_own_and_stays_unless_it_is_to_follow() -> None:
    policy = replace(POLICY, plain_messages=True, message_follows=False)
    first = replace(bad(definite=True), message="clock is off by 3 s")
    state = run(first, replace(first, message="clock is off by 4 s"), policy=policy)

    assert state.message == "clock is off by 3 s"


# The state file.


def test_a_state_survives_its_file() -> None:
    state = run(ok("a"), (bad("a", definite=True), unclear("b")))

    assert load_state(dump_state(state)) == state


@pytest.mark.parametrize("data", [None, {}, [], {"type": "Thing"}, "x", 7])
def test_another_file_is_refused(data: object) -> None:
    with pytest.raises(PermanentError, match="not the state of a condition"):
        load_state(data)


def test_a_state_whose_times_have_no_zone_is_refused() -> None:
    data = dump_state(run(ok())) | {"last_transition": "2026-11-30T12:00:00"}

    with pytest.raises(PermanentError, match="no zone"):
        load_state(data)


# What must never happen, over any history.

SUBJECTS = st.sampled_from(["a", "b", NODE])
FINDINGS = st.builds(
    Finding,
    SUBJECTS,
    st.sampled_from(Result),
    st.sampled_from(["Bad", "Worst", "Timeout", "GPUBusy"]),
    st.just(""),
    st.booleans(),
)
REPORTS = st.builds(
    CheckReport,
    st.sampled_from(["one", "two"]),
    st.just("Thing"),
    st.lists(FINDINGS, max_size=4).map(tuple),
    st.just(NOW),
)
HISTORIES = st.lists(REPORTS, max_size=12)
TIMES = st.lists(st.integers(-500, 500), min_size=12, max_size=12)  # the clock may jump


def states(
    history: list[CheckReport], times: list[int], start: ConditionState | None = None
) -> list[tuple[ConditionState, datetime]]:
    found = [(start or unchecked("Thing", NOW), NOW)]
    for report, minutes in zip(history, times, strict=False):
        now = NOW + minutes * MINUTE
        found.append((step(found[-1][0], report, TWO, now), now))
    return found


@given(HISTORIES, TIMES)
def test_never_false_without_an_ok_of_every_check(
    history: list[CheckReport], times: list[int]
) -> None:
    passed: set[str] = set()
    for report, (state, _) in zip(history, states(history, times)[1:], strict=True):
        if any(each.result is Result.OK for each in report.findings):
            passed.add(report.check)
        assert state.status is not Status.FALSE or passed == {"one", "two"}


@given(HISTORIES, TIMES, st.booleans())
def test_a_true_is_never_cleared_by_a_round_without_a_verdict(
    history: list[CheckReport], times: list[int], adopted: bool
) -> None:
    start = adopt(on_node(Status.TRUE), NOW, NOW, TWO, NOW) if adopted else None
    before, _ = states(history, times, start)[-1]
    after = step(before, a_report(unclear(NODE), unclear("a"), check="one"), TWO, NOW)

    assert before.status is not Status.TRUE or seen(after) == seen(before)


@given(HISTORIES, TIMES)
def test_the_order_of_findings_does_not_matter(
    history: list[CheckReport], times: list[int]
) -> None:
    shuffled = [
        replace(each, findings=tuple(sorted(each.findings, key=repr, reverse=True)))
        for each in history
    ]

    assert states(history, times)[-1] == states(shuffled, times)[-1]


@given(REPORTS, REPORTS)
def test_the_order_of_checks_in_a_round_does_not_matter(
    first: CheckReport, second: CheckReport
) -> None:
    first, second = replace(first, check="one"), replace(second, check="two")
    there = states([first, second], [0, 0])[-1][0]
    back = states([second, first], [0, 0])[-1][0]

    assert (seen(there), there.message) == (seen(back), back.message)


@given(HISTORIES, TIMES)
def test_the_transition_is_the_moment_of_a_change_of_status_and_no_other(
    history: list[CheckReport], times: list[int]
) -> None:
    steps = states(history, times)
    for (before, _), (after, now) in pairwise(steps):
        expected = before.last_transition if before.status is after.status else now
        assert after.last_transition == expected


@given(HISTORIES, TIMES)
def test_any_state_survives_its_file_and_keeps_its_message_bounded(
    history: list[CheckReport], times: list[int]
) -> None:
    state, _ = states(history, times)[-1]

    assert load_state(dump_state(state)) == state
    assert len(state.message.encode()) <= 1024


@given(st.lists(st.booleans(), max_size=40))
def test_a_row_shorter_than_the_bound_never_moves_the_status(flips: list[bool]) -> None:
    damped = ConditionPolicy("Thing", {"one": Damping(fail=41, ok=2)})

    assert seen(run(ok(), *(bad() if each else ok() for each in flips), policy=damped)) == (
        "False",
        "Healthy",
    )
