"""A node counts as healthy only by what was seen after the repair, long enough, without a gap."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.cluster import (
    STATUS_LABEL,
    AlertView,
    ConditionView,
    Failed,
    Judgement,
    NotYet,
    Observation,
    ProbeState,
    ProbeView,
    Proven,
    QueryResult,
    QueryView,
    Sight,
)
from remediator.config import FreshnessSettings, ProofSettings
from remediator.operation import NodeOperation, Reason
from remediator.proof import judge
from tests.remediator.repair_inputs import (
    a_condition,
    a_node,
    an_alert,
    an_operation,
    at,
    judged,
)

FINGERPRINT = "00000000000000aa"
FRESH = 500
"""Seconds after the repair's end (0) at which everything below is looked at."""


def policy(**values: Any) -> ProofSettings:
    return ProofSettings.model_validate({"soak": "2m", "deadline": "30m", **values})


ALL = policy(conditions=["GPURuntimeError"], queries=[{"name": "dcgm", "expr": "up"}], probe=True)


def operation(clear: float | None = 300, **status: Any) -> NodeOperation:
    since = None if clear is None else at(clear)
    status = {"fixed_at": at(0), "clear_since": since, "boot_id": "boot-2", **status}
    return an_operation(an_alert(), a_condition(), **status)


def seen(seconds: float = FRESH, **changes: Any) -> Observation:
    """Everything is well, and was looked at so many seconds after the repair."""
    types = ("GPURuntimeError", "GPUIsLost")
    conditions = {name: judged(name, "False", at(seconds), at(100)) for name in types}
    whole = Observation(
        as_of=at(seconds),
        node=a_node(conditions=conditions),
        alerts={FINGERPRINT: AlertView(FINGERPRINT, Sight.ABSENT, at(seconds))},
        queries={"dcgm": QueryView("dcgm", QueryResult.PASSED, at(seconds))},
        probe=ProbeView(ProbeState.PASSED, "boot-2", at(max(seconds - 1, 1))),
    )
    return replace(whole, **changes)


def with_condition(view: ConditionView) -> Observation:
    node = seen().node
    assert node is not None
    return seen(node=replace(node, conditions={**node.conditions, view.type: view}))


def with_node(**values: Any) -> Observation:
    node = seen().node
    assert node is not None
    return seen(node=replace(node, **values))


def alert(sight: Sight, seconds: float = FRESH) -> Observation:
    return seen(alerts={FINGERPRINT: AlertView(FINGERPRINT, sight, at(seconds))})


def query(result: QueryResult, seconds: float = FRESH) -> Observation:
    return seen(queries={"dcgm": QueryView("dcgm", result, at(seconds))})


def look(observation: Observation, seconds: float = FRESH, **status: Any) -> Judgement:
    return judge(operation(**status), observation, ALL, at(seconds))


def test_what_holds_for_the_soak_time_and_is_probed_is_proven() -> None:
    judgement = look(seen())

    assert isinstance(judgement, Proven)
    assert judgement.clear_since == at(300)
    assert "alert GPULost is gone" in judgement.text
    assert "the probe passed on every GPU" in judgement.text


WRONG = {
    "the node is not Ready": with_node(ready="False"),
    "a cause's condition is there": with_condition(judged("GPUIsLost", "True", at(FRESH))),
    "a condition of the playbook is there": with_condition(
        judged("GPURuntimeError", "True", at(FRESH))
    ),
    "the alert fires": alert(Sight.FIRING),
    "a query fails": query(QueryResult.FAILED),
}
UNSEEN = {
    "there is no node": seen(node=None),
    "the kubelet is not heard": with_node(ready="Unknown"),
    "the node was read before the repair ended": seen(as_of=at(0)),
    "the node was read long ago": seen(as_of=at(300)),
    "the node was read in the future": seen(as_of=at(900)),
    "a condition is missing": with_node(conditions={}),
    "a condition was not judged since the repair": with_condition(
        judged("GPUIsLost", "False", at(0))
    ),
    "a condition is Unknown": with_condition(judged("GPUIsLost", "Unknown", at(FRESH))),
    "a condition that is still there was not judged since": with_condition(
        judged("GPUIsLost", "True", at(-5))
    ),
    "an Alertmanager cannot be asked": alert(Sight.UNKNOWN),
    "the alert was looked for before the repair ended": alert(Sight.ABSENT, 0),
    "the alert was looked for long ago": alert(Sight.ABSENT, 300),
    "the alert was not looked for": seen(alerts={}),
    "a query has no data": query(QueryResult.NO_DATA),
    "a query ends with an error": query(QueryResult.ERROR),
    "a query was asked before the repair ended": query(QueryResult.PASSED, 0),
    "a query was asked long ago": query(QueryResult.PASSED, 300),
    "a query was not asked": seen(queries={}),
}


@pytest.mark.parametrize("observation", [*WRONG.values(), *UNSEEN.values()], ids=[*WRONG, *UNSEEN])
def test_not_proven_and_the_soak_starts_anew_when(observation: Observation) -> None:
    """rem-C30"""
    judgement = look(observation)

    assert isinstance(judgement, NotYet)
    assert (judgement.reason, judgement.clear_since) == (Reason.WAITS_FOR_CHECKS, None)
    assert judgement.ask_probe is False
    assert judgement.wake_at == at(FRESH + 15)


@pytest.mark.parametrize(
    ("status", "age", "expected"),
    [
        pytest.param("False", 60, Proven, id="G1 what was judged a minute ago counts"),
        pytest.param("False", 61, NotYet, id="G2 of an agent that may be dead nothing does"),
        pytest.param("False", -61, NotYet, id="G3 nor of a node whose clock is ahead"),
        pytest.param("True", 61, NotYet, id="G4 an old problem stays a problem"),
    ],
)
def test_how_long_ago_a_condition_may_have_been_judged(
    status: str, age: float, expected: type
) -> None:
    freshness = FreshnessSettings(conditions="1m")
    look = with_condition(judged("GPUIsLost", status, at(FRESH - age), at(100)))
    judgement = judge(operation(), look, ALL, at(FRESH), freshness)

    assert isinstance(judgement, expected)
    assert ("last looked at" in judgement.text) is (expected is NotYet and status == "False")


def _late(observation: Observation) -> Observation:
    """The same, seen at the deadline."""
    later = lambda view: replace(view, as_of=at(1800)) if view.as_of == at(FRESH) else view  # noqa: E731
    return replace(
        observation,
        as_of=at(1800) if observation.as_of == at(FRESH) else observation.as_of,
        alerts={key: later(view) for key, view in observation.alerts.items()},
        queries={key: later(view) for key, view in observation.queries.items()},
    )


@pytest.mark.parametrize("observation", WRONG.values(), ids=WRONG)
def test_at_the_deadline_not_proven_when(observation: Observation) -> None:
    """rem-N05"""
    judgement = look(_late(observation), 1800)

    assert isinstance(judgement, Failed)
    assert judgement.reason is Reason.NOT_PROVEN


@pytest.mark.parametrize("observation", UNSEEN.values(), ids=UNSEEN)
def test_at_the_deadline_it_cannot_be_proven_when(observation: Observation) -> None:
    judgement = look(_late(observation), 1800)

    assert isinstance(judgement, Failed)
    assert judgement.reason is Reason.CANNOT_PROVE


def test_the_soak_begins_with_the_first_clear_look_and_ends_before_the_probe() -> None:
    first = look(seen(), clear=None)
    assert isinstance(first, NotYet)
    assert (first.reason, first.clear_since) == (Reason.SOAKING, at(FRESH))
    assert first.ask_probe is False
    early = look(seen(), clear=FRESH - 119)
    assert isinstance(early, NotYet)
    assert early.wake_at == at(FRESH + 1)
    assert isinstance(look(seen(), clear=FRESH - 120), Proven)


def test_a_clear_time_from_before_the_repair_or_from_the_future_is_none() -> None:
    for clear in (-1, FRESH + 60):
        judgement = look(seen(), clear=clear)
        assert isinstance(judgement, NotYet)
        assert judgement.clear_since == at(FRESH)


def test_a_condition_that_came_and_went_between_two_looks_starts_the_soak_anew() -> None:
    judgement = look(with_condition(judged("GPUIsLost", "False", at(FRESH), at(450))))

    assert isinstance(judgement, NotYet)
    assert (judgement.reason, judgement.clear_since) == (Reason.SOAKING, at(450))


def test_a_soak_that_cannot_end_in_time_is_not_proven() -> None:
    judgement = look(seen(1800), 1800, clear=1799)

    assert isinstance(judgement, Failed)
    assert judgement.reason is Reason.NOT_PROVEN


def test_ready_is_healthy_when_true() -> None:
    one = an_operation(a_condition("Ready"), fixed_at=at(0), clear_since=at(300))
    node = a_node(conditions={"Ready": judged("Ready", "True", at(FRESH))})
    observation = Observation(as_of=at(FRESH), node=node)

    assert isinstance(judge(one, observation, policy(), at(FRESH)), Proven)


def probed(
    state: ProbeState, seconds: float | None = FRESH - 1, boot: str = "boot-2"
) -> Observation:
    return seen(probe=ProbeView(state, boot, None if seconds is None else at(seconds), "said"))


ASKED_AGAIN = {
    "never asked for": probed(ProbeState.NOT_ASKED, None, ""),
    "answered before the repair ended": probed(ProbeState.PASSED, 0),
    "failed before the repair ended": probed(ProbeState.FAILED, 0),
    "answered in another boot": probed(ProbeState.PASSED, boot="boot-1"),
    "answered without a time": probed(ProbeState.PASSED, None),
    "unable to tell a minute ago": probed(ProbeState.INCONCLUSIVE, FRESH - 60),
}
WAITED_FOR = {
    "asked for": probed(ProbeState.ASKED, None, ""),
    "unable to tell just now": probed(ProbeState.INCONCLUSIVE, FRESH - 59),
}


@pytest.mark.parametrize("observation", ASKED_AGAIN.values(), ids=ASKED_AGAIN)
def test_the_probe_is_asked_for_when_it_was(observation: Observation) -> None:
    judgement = look(observation)

    assert isinstance(judgement, NotYet)
    assert (judgement.reason, judgement.ask_probe) == (Reason.WAITS_FOR_PROBE, True)
    assert judgement.clear_since == at(300)


@pytest.mark.parametrize("observation", WAITED_FOR.values(), ids=WAITED_FOR)
def test_the_probe_is_awaited_when_it_was(observation: Observation) -> None:
    judgement = look(observation)

    assert isinstance(judgement, NotYet)
    assert (judgement.reason, judgement.ask_probe) == (Reason.WAITS_FOR_PROBE, False)


def test_a_probe_that_finds_a_problem_ends_it_at_once() -> None:
    judgement = look(probed(ProbeState.FAILED))

    assert judgement == Failed(Reason.NOT_PROVEN, "the probe found a problem: said")


def test_a_probe_that_never_answers_cannot_prove() -> None:
    observation = replace(seen(1800), probe=ProbeView(ProbeState.ASKED))
    judgement = look(observation, 1800)

    assert isinstance(judgement, Failed)
    assert judgement.reason is Reason.CANNOT_PROVE


def test_with_nothing_to_prove_it_by_nothing_is_proven() -> None:
    by_hand = an_operation(fixed_at=at(0), clear_since=at(1))
    judgement = judge(by_hand, seen(), policy(), at(FRESH))

    assert isinstance(judgement, Failed)
    assert judgement.reason is Reason.CANNOT_PROVE


MOMENTS = st.sampled_from([-10, 0, 1, 300, FRESH, 900])
VIEWS = st.builds(
    lambda ready, status, beat, sight, alert_at, result, query_at, state, probe_at, boot: (
        Observation(
            as_of=at(FRESH),
            node=a_node(
                ready=ready,
                conditions={
                    "GPUIsLost": judged("GPUIsLost", status, at(beat)),
                    "GPURuntimeError": judged("GPURuntimeError", "False", at(FRESH)),
                },
            ),
            alerts={FINGERPRINT: AlertView(FINGERPRINT, sight, at(alert_at))},
            queries={"dcgm": QueryView("dcgm", result, at(query_at))},
            probe=ProbeView(state, boot, at(probe_at)),
        )
    ),
    st.sampled_from(["True", "False", "Unknown"]),
    st.sampled_from(["True", "False", "Unknown"]),
    MOMENTS,
    st.sampled_from(Sight),
    MOMENTS,
    st.sampled_from(QueryResult),
    MOMENTS,
    st.sampled_from(ProbeState),
    MOMENTS,
    st.sampled_from(["boot-1", "boot-2", ""]),
)


@given(VIEWS, st.none() | MOMENTS)
def test_whatever_is_seen_only_a_healthy_node_is_proven(
    observation: Observation, clear: float | None
) -> None:
    judgement = look(observation, clear=clear)
    assert observation.node is not None

    if isinstance(judgement, Proven):
        condition = observation.node.conditions["GPUIsLost"]
        alert_view, query_view = observation.alerts[FINGERPRINT], observation.queries["dcgm"]
        probe = observation.probe
        assert observation.node.is_ready
        assert (condition.status, condition.heartbeat > at(0)) == ("False", True)
        assert (alert_view.sight, alert_view.as_of) == (Sight.ABSENT, at(FRESH))
        assert (query_view.result, query_view.as_of) == (QueryResult.PASSED, at(FRESH))
        assert (probe.state, probe.boot_id) == (ProbeState.PASSED, "boot-2")
        assert probe.at is not None
        assert probe.at > at(0)
        assert clear is not None
        assert 0 <= clear <= FRESH - 120
    if isinstance(judgement, NotYet):
        assert judgement.wake_at is not None
        assert judgement.wake_at > at(FRESH)


FAULTS = {
    "True by itself is a problem": ("GPUIsLost", "", "True", "False"),
    "Ready by itself is none": ("Ready", "", "False", "True"),
    "the status that began it is the problem": ("GPUHealthy", "False", "False", "True"),
    "one that began with Unknown is judged by itself": ("Ready", "Unknown", "False", "True"),
}


@pytest.mark.parametrize(("name", "began", "wrong", "clear"), FAULTS.values(), ids=FAULTS)
def test_a_condition_is_clear_when_it_has_left_the_status_that_began_it(
    name: str, began: str, wrong: str, clear: str
) -> None:
    cause = replace(a_condition(name), labels={STATUS_LABEL: began} if began else {})
    one = an_operation(cause, fixed_at=at(0), clear_since=at(300))

    def judged_as(status: str) -> Judgement:
        look = with_condition(judged(name, status, at(FRESH), at(100)))
        return judge(one, look, policy(alerts=False), at(FRESH))

    assert isinstance(judged_as(wrong), NotYet)
    assert isinstance(judged_as("Unknown"), NotYet)
    assert isinstance(judged_as(clear), Proven)
