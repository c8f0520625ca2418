"""What is told of stored operations: who waits for a person and in whose issue it stands, and what is overdue."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.core import GaugeMetricFamily

from remediator.metrics import StateCollector
from remediator.operation import (
    Cause,
    CauseKind,
    NodeOperation,
    OperationSpec,
    OperationStatus,
    Phase,
    Reason,
    Trigger,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ALERT = Cause(CauseKind.ALERT, "GPUIsLost", NOW, fingerprint="0" * 16)
CONDITION = Cause(CauseKind.CONDITION, "GPUIsLost", NOW)


def an_operation(phase: Phase, *causes: Cause, deadline: datetime | None = None) -> NodeOperation:
    spec = OperationSpec("n1", "gpu-is-lost", Trigger.ALERT, 1, causes=causes)
    status = OperationStatus(phase=phase, reason=Reason.RUNGS_EXHAUSTED, deadline=deadline)
    return NodeOperation("no-1", "uid-1", "1", NOW, spec, status=status)


def told(*operations: NodeOperation, tells: bool = True, listed: bool = True) -> dict[str, object]:
    """The families by name, each with its samples."""
    collector = StateCollector(
        lambda: operations,
        lambda: 0,
        lambda: (),
        lambda: (False, False),
        listed=lambda: listed,
        tells=lambda: tells,
    )
    return {family.name: samples(family) for family in collector.collect()}


def samples(family: GaugeMetricFamily) -> list[tuple[dict[str, str], float]]:
    return [(each.labels, each.value) for each in family.samples]


@pytest.mark.parametrize(
    ("causes", "tells", "in_issue"),
    [
        pytest.param((ALERT,), True, "true", id="its alert's issue is told"),
        pytest.param((CONDITION, ALERT), True, "true", id="an alert that joined has an issue"),
        pytest.param((CONDITION,), True, "false", id="a condition alone has no issue"),
        pytest.param((), True, "false", id="one by hand has no issue"),
        pytest.param((ALERT,), False, "false", id="without an alerts2gh nobody is told"),
    ],
)
def test_one_that_waits_for_a_person(causes: tuple[Cause, ...], tells: bool, in_issue: str) -> None:
    found = told(an_operation(Phase.ESCALATED, *causes), tells=tells)

    labels = {
        "operation": "no-1",
        "node": "n1",
        "playbook": "gpu-is-lost",
        "reason": "RungsExhausted",
        "in_issue": in_issue,
    }
    assert found["remediator_operation_escalated"] == [(labels, 1)]


@pytest.mark.parametrize("phase", [each for each in Phase if each is not Phase.ESCALATED])
def test_all_others_wait_for_nobody(phase: Phase) -> None:
    assert told(an_operation(phase))["remediator_operation_escalated"] == []


@pytest.mark.parametrize("phase", Phase)
def test_what_has_not_ended_is_to_be_over_by_a_time(phase: Phase) -> None:
    deadline = NOW + timedelta(minutes=5)

    found = told(an_operation(phase, deadline=deadline))

    labels = {"operation": "no-1", "node": "n1", "playbook": "gpu-is-lost", "phase": phase.value}
    running = [] if phase.is_final else [(labels, deadline.timestamp())]
    assert found["remediator_operation_deadline_timestamp_seconds"] == running


def test_a_phase_without_a_time_is_never_overdue() -> None:
    found = told(replace(an_operation(Phase.GATED), name="no-2"))

    assert found["remediator_operation_deadline_timestamp_seconds"] == []


def test_before_the_cluster_is_listed_nothing_is_told_as_none_is_not_known() -> None:
    assert told(an_operation(Phase.ESCALATED), listed=False) == {}
