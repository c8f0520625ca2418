"""One decision for one operation on n1, and operations in the middle of things."""

from dataclasses import replace
from typing import Any

from remediator.cluster import (
    Fleet,
    JobState,
    JobView,
    NodeView,
    Observation,
)
from remediator.lifecycle import Policy, Record, Step, next_step
from remediator.operation import (
    Attempt,
    AttemptOutcome,
    Intent,
    IntentAction,
    NodeOperation,
    OperationStatus,
    Phase,
    Reason,
)
from tests.remediator.building import (
    HOUR,
    MINUTE,
    NOW,
    condition_of,
    config_of,
    faulty,
    fleet_of,
    pinned,
    playbook_of,
)

RESET = {"name": "reboot", "repair": {"reset_gpu": {}}, "attempts": 2}
RESTART = {"name": "reboot", "repair": {"restart_unit": {"unit": "kubelet.service"}}, "attempts": 2}
POWER = {
    "ladder": [{"name": "reboot", "repair": {"power_cycle": {"template": "bmc"}}}],
}
TEMPLATES = {"bmc": {"pod": {"containers": [{"name": "bmc", "image": "bmc:1"}]}}}
PODS = {
    "name": "reboot",
    "repair": {"restart_pods": {"namespace": "gpu", "selector": 'app="plugin"'}},
}


def decide(
    operation: NodeOperation,
    observation: Observation,
    *others: NodeOperation,
    fleet: Fleet | None = None,
    playbook: dict[str, Any] | None = None,
    **config: Any,
) -> Step:
    fleet = fleet or fleet_of(*([observation.node] if observation.node else []))
    whole = config_of(playbook_of(**(playbook or {})), **config)
    return next_step(operation, observation, Policy(whole), fleet, others, NOW)


def status(step: Step) -> OperationStatus:
    assert isinstance(step, Record)
    return step.status


def went(step: Step) -> tuple[Phase, Reason]:
    return status(step).phase, status(step).reason


def ours(**changes: Any) -> NodeView:
    return faulty(**({"operation_taint": "no-1"} | changes))


def cured(**changes: Any) -> NodeView:
    return ours(conditions={"GPUIsLost": condition_of("False")}, **changes)


def executing(**changes: Any) -> NodeOperation:
    intent = {"destructive": True, "job_seen": True} | changes.pop("intent_is", {})
    whole: dict[str, Any] = {
        "attempt": 1,
        "attempts": (Attempt(0, 1, NOW - MINUTE),),
        "intent": Intent(IntentAction.RUN_JOB, NOW - MINUTE, "boot-1", "op-1", **intent),
    }
    return pinned(phase=Phase.EXECUTING, **(whole | changes))


def job(state: JobState, **changes: Any) -> JobView:
    return replace(JobView("op-1", state, began=True), **changes)


def verifying(**changes: Any) -> NodeOperation:
    attempts = (Attempt(0, 1, NOW - HOUR, NOW, AttemptOutcome.DONE),)
    whole: dict[str, Any] = {"fixed_at": NOW - 5 * MINUTE, "attempt": 1, "attempts": attempts}
    return pinned(phase=Phase.VERIFYING, **(whole | changes))
