"""CPUs of GPU nodes: high-priority pods without a GPU carry their CPUs as a second resource.

GPU nodes have little of that resource, so such pods can never fill them; all other pods carry none of
it, and the low ones among them tolerate the GPU nodes' taints. Pure.
"""

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from gpu_admission.catalogue import CPUPolicy, GPUClass, parse_quantity
from gpu_admission.gpu_request import containers_of
from gpu_admission.gpu_request.shapes import mapping
from gpu_admission.placement import toleration_operations
from gpu_admission.review import Operation, added, escaped, removed

_PARTS = ("limits", "requests")


def cpu_operations(
    spec: Mapping[str, Any], policy: CPUPolicy, gpu_class: GPUClass
) -> list[Operation]:
    """What a pod without any GPU gets by its class; nothing if it has it already."""
    if gpu_class.name in policy.classes:
        return list(_carrying(spec, policy))
    return [
        *dropping_operations(spec, policy),
        *toleration_operations(spec, policy.low_tolerations),
    ]


def uses_devices(spec: Mapping[str, Any], policy: CPUPolicy) -> bool:
    """Whether the pod asks for a device of the policy's list, or claims one: then it is no CPU pod."""
    if spec.get("resourceClaims"):
        return True
    return any(
        isinstance(key, str) and policy.device_resources.match(key) and parse_quantity(amount) != 0
        for _, _, container in containers_of(spec)
        for key, amount in mapping(mapping(container.get("resources")).get("limits")).items()
    )


def dropping_operations(spec: Mapping[str, Any], policy: CPUPolicy) -> list[Operation]:
    """Takes the resource away from a pod that must not carry it: it would use up the high ones' part."""
    return [
        removed(f"{path}/resources/{part}/{escaped(policy.resource)}")
        for path, _, container in containers_of(spec)
        for part in _PARTS
        if policy.resource in mapping(mapping(container.get("resources")).get(part))
    ]


def amount_of(container: Mapping[str, Any], policy: CPUPolicy) -> int:
    """The container's CPU request in units of the resource, rounded up; 0 if it has none."""
    return math.ceil(_cpus(container) * policy.per_cpu)


def capacity_of(node: Mapping[str, Any], policy: CPUPolicy) -> int | None:
    """How much of the resource a Node must have, None if no entry of the policy is for it.

    A fixed part is rounded down, so that it is never exceeded; all that the node has is rounded up,
    so that the resource is never what a pod on a CPU node lacks.
    """
    labels = mapping(mapping(node.get("metadata")).get("labels"))
    for entry in policy.capacity:
        if all(labels.get(key) == value for key, value in entry.match_labels.items()):
            if entry.cpus is not None:
                return math.floor(entry.cpus * policy.per_cpu)
            has = parse_quantity(mapping(mapping(node.get("status")).get("allocatable")).get("cpu"))
            return None if has is None else math.ceil(has * policy.per_cpu)
    return None


def _carrying(spec: Mapping[str, Any], policy: CPUPolicy) -> Iterator[Operation]:
    extra = _beyond_containers(spec, policy)
    for path, is_init, container in containers_of(spec):
        amount = amount_of(container, policy)
        if not is_init:
            amount, extra = amount + extra, 0
        yield from _set(f"{path}/resources", container, policy.resource, amount)


def _beyond_containers(spec: Mapping[str, Any], policy: CPUPolicy) -> int:
    """What the pod requests as a whole beyond its containers: that is what the scheduler counts."""
    whole = amount_of(spec, policy)
    if not whole:
        return 0
    own = sum(amount_of(each, policy) for _, is_init, each in containers_of(spec) if not is_init)
    return max(0, whole - own)


def _set(
    path: str, container: Mapping[str, Any], resource: str, amount: int
) -> Iterator[Operation]:
    resources = container.get("resources")
    if amount and not isinstance(resources, dict):
        both = {part: {resource: str(amount)} for part in _PARTS}
        yield added(path, both)
        return
    for part in _PARTS:
        present = mapping(resources).get(part)
        there = mapping(present).get(resource)
        if amount and not isinstance(present, dict):
            yield added(f"{path}/{part}", {resource: str(amount)})
        elif amount and parse_quantity(there) != amount:
            yield added(f"{path}/{part}/{escaped(resource)}", str(amount))
        elif not amount and there is not None:
            yield removed(f"{path}/{part}/{escaped(resource)}")


def _cpus(container: Mapping[str, Any]) -> Fraction:
    """Requests, or limits where only they are given: the API server copies them, templates don't."""
    resources = mapping(container.get("resources"))
    for part in ("requests", "limits"):
        number = parse_quantity(mapping(resources.get(part)).get("cpu"))
        if number is not None:
            return max(number, Fraction(0))
    return Fraction(0)
