"""PodDisruptionBudgets in the embedded Kubernetes: their status, and which eviction may happen."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sandbox.kubernetes_rules.disruption import budget_status, eviction

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def a_pod(name: str, *, ready: bool = True, phase: str = "Running", **meta: Any) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "metadata": {"name": name, "namespace": "n", "labels": {"app": "w"}, **meta},
        "status": {"phase": phase, "conditions": [condition]},
    }


def a_budget(name: str = "b", status: Any = None, **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "w"}}
    meta = {"name": name, "namespace": "n", "generation": 1}
    return {"metadata": meta, "spec": {"selector": selector, **spec}, "status": status or {}}


FIVE = [a_pod(f"p{index}") for index in range(5)]


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        pytest.param({"minAvailable": 3}, FIVE, (5, 5, 3, 2), id="a number must stay"),
        pytest.param({"minAvailable": "50%"}, FIVE, (5, 5, 3, 2), id="half must stay, rounded up"),
        pytest.param({"maxUnavailable": 1}, FIVE, (5, 5, 4, 1), id="one may go"),
        pytest.param(
            {"maxUnavailable": "30%"}, FIVE, (5, 5, 3, 2), id="a third may go, rounded up"
        ),
        pytest.param({"maxUnavailable": 9}, FIVE, (5, 5, 0, 5), id="more may go than there are"),
        pytest.param({"minAvailable": 3}, [], (0, 0, 3, 0), id="no pods, nothing may go"),
        pytest.param(
            {"minAvailable": 1},
            [
                FIVE[0],
                a_pod("x", ready=False),
                a_pod("y", deletionTimestamp="2026-03-01T12:00:00Z"),
            ],
            (3, 1, 1, 0),
            id="unready and ending pods are expected, not healthy",
        ),
        pytest.param(
            {"minAvailable": 1},
            [FIVE[0], a_pod("x", phase="Succeeded")],
            (1, 1, 1, 0),
            id="ended pods do not count",
        ),
        pytest.param(
            {"minAvailable": 1, "selector": None}, FIVE, (0, 0, 1, 0), id="no selector, no pods"
        ),
    ],
)
def test_a_budgets_status_follows_its_pods(
    spec: dict[str, Any], pods: list[Any], expected: tuple[int, ...]
) -> None:
    status = budget_status(a_budget(**spec), pods, NOW)

    names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    assert tuple(status[name] for name in names) == expected


def test_the_controllers_replicas_are_what_is_expected() -> None:
    status = budget_status(a_budget(maxUnavailable="50%"), FIVE[:2], NOW, expected=4)

    assert (status["expectedPods"], status["disruptionsAllowed"]) == (4, 0)


@pytest.mark.parametrize(("age", "allowed"), [(1, 0), (3, 1)])
def test_a_granted_eviction_counts_for_two_minutes(age: int, allowed: int) -> None:
    since = (NOW - timedelta(minutes=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    budget = a_budget(minAvailable=4, status={"disruptedPods": {"p0": since}})

    assert budget_status(budget, FIVE, NOW)["disruptionsAllowed"] == allowed


def observed(**counts: int) -> dict[str, Any]:
    return {"observedGeneration": 1, **counts}


FULL = observed(disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
SHORT = observed(disruptionsAllowed=0, currentHealthy=0, desiredHealthy=1)
ROOM = observed(disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)


@pytest.mark.parametrize(
    ("pod", "budgets", "code"),
    [
        pytest.param(FIVE[0], [], None, id="no budget"),
        pytest.param(FIVE[0], [a_budget(status=ROOM)], None, id="room"),
        pytest.param(FIVE[0], [a_budget(status=FULL)], 429, id="no room"),
        pytest.param(
            FIVE[0], [a_budget("a", status=ROOM), a_budget("b", status=ROOM)], 500, id="two budgets"
        ),
        pytest.param(a_pod("x", phase="Succeeded"), [a_budget(status=FULL)], None, id="ended"),
        pytest.param(a_pod("x", phase="Pending"), [a_budget(status=FULL)], None, id="not started"),
        pytest.param(
            a_pod("x", deletionTimestamp="2026-03-01T12:00:00Z"),
            [a_budget(status=FULL)],
            None,
            id="terminating already",
        ),
        pytest.param(
            a_pod("x", ready=False), [a_budget(status=FULL)], None, id="unready, others suffice"
        ),
        pytest.param(a_pod("x", ready=False), [a_budget(status=SHORT)], 429, id="unready, too few"),
        pytest.param(
            a_pod("x", ready=False),
            [a_budget(status=SHORT, unhealthyPodEvictionPolicy="AlwaysAllow")],
            None,
            id="unready may always go",
        ),
    ],
)
def test_an_eviction_is_decided_by_the_stored_status(
    pod: dict[str, Any], budgets: list[Any], code: int | None
) -> None:
    decided = eviction(pod, budgets, NOW)

    assert (decided.refusal.code if decided.refusal else None) == code


def test_a_refused_eviction_names_the_budget_in_its_cause() -> None:
    refusal = eviction(FIVE[0], [a_budget(status=FULL)], NOW).refusal

    assert refusal is not None
    assert refusal.status["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
        }
    ]


def test_a_budget_not_looked_at_yet_asks_to_come_again() -> None:
    refusal = eviction(FIVE[0], [a_budget()], NOW).refusal

    assert refusal is not None
    assert (refusal.code, refusal.retry_after) == (429, 10)


def test_a_granted_eviction_is_charged_to_the_budget_at_once() -> None:
    charged = eviction(FIVE[0], [a_budget(status=ROOM)], NOW).budget

    assert charged is not None
    assert charged["status"]["disruptionsAllowed"] == 0
    assert charged["status"]["disruptedPods"] == {"p0": "2026-03-01T12:00:00Z"}
    refused = eviction(FIVE[1], [charged], NOW).refusal
    assert refused is not None
