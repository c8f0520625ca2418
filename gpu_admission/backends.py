"""From our key to what the nodes' back-end understands, by patches of single keys.

`device_plugin` is an extended resource of the node, whatever its name: nvidia.com/gpu, amd.com/gpu,
preferred.jp/mncore, a MIG profile. A further type is one more function beside `_extended_resource`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gpu_admission.catalogue import Backend
from gpu_admission.gpu_request import ContainerRequest
from gpu_admission.gpu_request.shapes import mapping, mappings, text
from gpu_admission.review import Operation, added, escaped, removed

_DEFAULT_SCHEDULER = "default-scheduler"
_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"

Rewrite = Callable[[ContainerRequest, int, Backend], list[Operation]]


def container_operations(request: ContainerRequest, backend: Backend | None) -> list[Operation]:
    """Take the container's keys away, and ask `backend` for their sum if that is above zero."""
    operations = [
        removed(f"{request.path}/resources/{part}/{escaped(each.spec.key)}")
        for each in request.specs
        for part in (("limits", "requests") if each.in_requests else ("limits",))
    ]
    amount = sum(each.amount for each in request.specs)
    if backend is not None and amount:
        operations += _REWRITES[backend.type](request, amount, backend)
    return operations


def pod_operations(spec: Mapping[str, Any], backend: Backend) -> list[Operation]:
    """The scheduler and runtime class that the back-end needs, where the pod names none."""
    operations = []
    if backend.scheduler_name and text(spec.get("schedulerName")) in {"", _DEFAULT_SCHEDULER}:
        operations.append(added("/spec/schedulerName", backend.scheduler_name))
    if backend.runtime_class_name and not spec.get("runtimeClassName"):
        operations.append(added("/spec/runtimeClassName", backend.runtime_class_name))
    return operations


def hiding_operations(request: ContainerRequest) -> list[Operation]:
    """Show no GPU to a container that asked for zero.

    NVIDIA's container runtime gives every GPU of the node to an image that says so in this variable
    and a container that asks for none; what the pod itself sets stays.
    """
    env = request.container.get("env")
    if any(each.get("name") == _VISIBLE_DEVICES for _, each in mappings(env)):
        return []
    variable = {"name": _VISIBLE_DEVICES, "value": "none"}
    if isinstance(env, list):
        return [added(f"{request.path}/env/-", variable)]
    return [added(f"{request.path}/env", [variable])]


def _extended_resource(request: ContainerRequest, amount: int, backend: Backend) -> list[Operation]:
    """The same amount in limits and requests: Kubernetes takes extended resources only so."""
    resources = mapping(request.container.get("resources"))
    key, value = backend.resource, str(amount)
    operations = []
    for part in ("limits", "requests"):
        path = f"{request.path}/resources/{part}"
        if isinstance(resources.get(part), dict):
            operations.append(added(f"{path}/{escaped(key)}", value))
        else:
            operations.append(added(path, {key: value}))
    return operations


_REWRITES: Mapping[str, Rewrite] = {"device_plugin": _extended_resource}

__all__ = ["container_operations", "hiding_operations", "pod_operations"]
