"""What must be true at the end of the pods that asked for GPUs, from Kubernetes' objects, their history and its log.

Which GPUs would do is worked out from the simulated hardware, not from gpu_admission's catalogue.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from sandbox.demo.fleet import Fleet, in_turn
from sandbox.demo.people import (
    MISTAKE,
    SERVICE,
    SERVICE_ASKS,
    SERVICE_NEEDS_GB,
    TRAINING,
    TRAINING_ASKS,
    TRAINING_NEEDS_GB,
    limits_of,
    products_of,
)
from sandbox.demo.story import Check
from sandbox.kubernetes_server import AuditEntry
from sandbox.simulated_nodes import MODELS

_NATIVE = {"nvidia.com/gpu": "1"}
_GB = 10**9
_MIB = 2**20
_REFUSED = range(400, 500)


def check_admission(fleet: Fleet) -> tuple[Check, ...]:
    """Compare the pods with what their people asked for."""
    trainings = fleet.people.past_pods(TRAINING)
    services = fleet.people.past_pods(SERVICE)
    return (
        _check_limits([*trainings, *services]),
        *_check_training(fleet, trainings),
        *_check_service(fleet, services),
        _check_mistake(fleet),
    )


def products_with(gigabytes: int) -> set[str]:
    """The simulated GPUs with so many GB or more."""
    return {name for name, each in MODELS.items() if each.memory_mib * _MIB >= gigabytes * _GB}


def smallest_with(gigabytes: int) -> set[str]:
    """Of those the ones with the least memory."""
    least = min(MODELS[name].memory_mib for name in products_with(gigabytes))
    return {name for name, each in MODELS.items() if each.memory_mib == least}


def _check_limits(pods: Iterable[Mapping[str, Any]]) -> Check:
    found = [limits_of(pod) for pod in pods]
    return Check(
        "what people asked for in gpu_admission's words is the nodes' own resource in their pods",
        bool(found) and all(each == _NATIVE for each in found),
        _listed(f"{key}: {value}" for each in found for key, value in each.items()),
    )


def _check_training(fleet: Fleet, pods: Collection[Mapping[str, Any]]) -> Iterator[Check]:
    wanted = products_with(TRAINING_NEEDS_GB)
    yield _check_affinity(f"the training ({TRAINING_ASKS})", pods, wanted)
    ran_on = [fleet.product(str(pod["spec"].get("nodeName", ""))) for pod in pods]
    first = fleet.product(fleet.node)
    yield Check(
        f"it ran on {first}, the cheapest of these, and then on another of them",
        ran_on[:1] == [first] and len(in_turn(ran_on)) > 1 and set(ran_on) <= wanted,
        ", ".join(in_turn(ran_on)) or "nowhere",
    )


def _check_service(fleet: Fleet, pods: Collection[Mapping[str, Any]]) -> Iterator[Check]:
    wanted = smallest_with(SERVICE_NEEDS_GB)
    yield _check_affinity(f"the service of high priority ({SERVICE_ASKS})", pods, wanted)
    where = fleet.product(fleet.people.runs_on(SERVICE))
    yield Check("it runs there", where in wanted, where or "nowhere")


def _check_affinity(
    what: str, pods: Collection[Mapping[str, Any]], wanted: Collection[str]
) -> Check:
    found = [products_of(pod) for pod in pods]
    return Check(
        f"{what} may run on {_listed(wanted)} only",
        bool(found) and all(each == sorted(wanted) for each in found),
        _listed(name for each in found for name in each),
    )


def _check_mistake(fleet: Fleet) -> Check:
    """The last pod that the administrator tried to make, and it was never there."""
    entries = fleet.kubernetes.log(keep=_tried_a_pod)
    codes = [entry.code for entry in entries]
    there = fleet.kubernetes.versions("pods", MISTAKE, "default")
    return Check(
        "the pod that asked for a GPU that there is not was refused",
        bool(codes) and codes[-1] in _REFUSED and not there,
        f"codes {', '.join(map(str, codes)) or 'none'}; {len(there) or 'no'} such pods",
    )


def _tried_a_pod(entry: AuditEntry) -> bool:
    asked = (entry.user, entry.verb, entry.resource, entry.subresource)
    return asked == ("admin", "create", "pods", "")


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words))) or "nothing"
