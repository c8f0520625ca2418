"""Which GPUs the kubelet has given to pods, from its pod-resources API (gRPC on a socket of the node).

The messages are described here, field by field, as Kubernetes documents them (package v1, kubelet's PodResourcesLister);
only the fields that are read. grpc and protobuf are loaded at the first call. Decides nothing about who may use a GPU.
"""

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from chassis.errors import PermanentError, TemporaryError
from exporters.readings import GpuReading

_SERVICE = "/v1.PodResourcesLister"
_MOST_BYTES = 16 << 20
_MESSAGES: Mapping[str, tuple[tuple[str, int, str, bool], ...]] = {
    "ListPodResourcesRequest": (),
    "AllocatableResourcesRequest": (),
    "ListPodResourcesResponse": (("pod_resources", 1, "PodResources", True),),
    "AllocatableResourcesResponse": (("devices", 1, "ContainerDevices", True),),
    "PodResources": (
        ("name", 1, "", False),
        ("namespace", 2, "", False),
        ("containers", 3, "ContainerResources", True),
    ),
    "ContainerResources": (
        ("name", 1, "", False),
        ("devices", 2, "ContainerDevices", True),
        ("dynamic_resources", 5, "DynamicResource", True),
    ),
    "ContainerDevices": (("resource_name", 1, "", False), ("device_ids", 2, "", True)),
    "DynamicResource": (("claim_resources", 4, "ClaimResource", True),),
    "ClaimResource": (("driver_name", 2, "", False),),
}
"""Name to fields: name, number, message type (none: text), repeated."""

_MIG_OF = re.compile(r"MIG-(GPU-[0-9a-fA-F-]+)/[0-9]+/[0-9]+")
_REPLICA = "::"


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The kubelet's devices of some resources: all that it can give, and those that pods have.

    `claimed` tells that a pod has a device through dynamic allocation, which names no device here.
    """

    allocatable: frozenset[str]
    allocated: frozenset[str]
    claimed: bool = False


class PodResources:
    """Asks one kubelet. Each call opens and closes its connection: the kubelet may have been replaced."""

    def __init__(
        self,
        socket: Path,
        prefixes: tuple[str, ...],
        *,
        deadline: timedelta = timedelta(seconds=10),
    ) -> None:
        """Args: the kubelet's socket, how names of GPU resources begin, and how long a call may take."""
        self._target = f"unix://{socket.absolute()}"
        self._prefixes = prefixes
        self._deadline = deadline.total_seconds()

    def read(self) -> DeviceUse:
        """The devices now.

        Raises:
            TemporaryError: The kubelet did not answer, or not in time.
            PermanentError: grpcio or protobuf is not installed.
        """
        grpc, messages = _loaded()
        options = [("grpc.max_receive_message_length", _MOST_BYTES)]
        try:
            with grpc.insecure_channel(self._target, options=options) as channel:
                pods = self._call(channel, messages, "List", "ListPodResources")
                all_devices = self._call(
                    channel, messages, "GetAllocatableResources", "AllocatableResources"
                )
        except grpc.RpcError as error:
            raise TemporaryError(f"the kubelet's pod-resources: {_told(error)}") from error
        containers = [each for pod in pods.pod_resources for each in pod.containers]
        return DeviceUse(
            allocatable=frozenset(self._ids(all_devices.devices)),
            allocated=frozenset(each for one in containers for each in self._ids(one.devices)),
            claimed=any(self._claims(one.dynamic_resources) for one in containers),
        )

    def _call(self, channel: Any, messages: Mapping[str, Any], method: str, name: str) -> Any:
        request, response = messages[f"{name}Request"], messages[f"{name}Response"]
        call = channel.unary_unary(
            f"{_SERVICE}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return call(request(), timeout=self._deadline)

    def _ids(self, devices: Any) -> Iterator[str]:
        for each in devices:
            if each.resource_name.startswith(self._prefixes):
                yield from each.device_ids

    def _claims(self, resources: Any) -> bool:
        """Whether a claim is on a driver of these vendors, such as gpu.nvidia.com."""
        vendors = [prefix.rstrip("/") for prefix in self._prefixes]
        return any(
            claim.driver_name.endswith(vendor)
            for one in resources
            for claim in one.claim_resources
            for vendor in vendors
        )


@functools.cache
def _loaded() -> tuple[Any, Mapping[str, Any]]:
    """The gRPC library and the classes of the messages."""
    try:
        import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 - large; only the probe needs it
        from google.protobuf import (  # type: ignore[import-untyped]  # noqa: PLC0415 - as above
            descriptor_pb2,
            descriptor_pool,
            message_factory,
        )
    except ImportError as error:
        raise PermanentError(
            "pod-resources needs grpcio and protobuf: pip install 'nodemend[gpu]'"
        ) from error
    file = descriptor_pb2.FileDescriptorProto(name="podresources", package="v1", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            message.field.add(
                name=field,
                number=number,
                label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL,
                type=kinds.TYPE_MESSAGE if kind else kinds.TYPE_STRING,
                type_name=f".v1.{kind}" if kind else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}"))
        for name in _MESSAGES
    }
    return grpc, classes


def _told(error: Any) -> str:
    code = getattr(error, "code", lambda: None)()
    details = getattr(error, "details", lambda: None)()
    return f"{getattr(code, 'name', 'no answer')}: {details or ''}"[:300].rstrip(": ")


# From the kubelet's device ids to GPUs. Pure.


def gpus_of_devices(ids: Collection[str], gpus: Collection[GpuReading]) -> Mapping[str, str | None]:
    """For each id the UUID of the GPU that it is, or is a part of; None for one that tells no GPU."""
    known = {gpu.uuid: gpu.uuid for gpu in gpus}
    known |= {part.uuid: gpu.uuid for gpu in gpus for part in gpu.mig_devices}
    known |= {str(gpu.index): gpu.uuid for gpu in gpus}
    return {each: _gpu_of(each, known) for each in ids}


def _gpu_of(device: str, known: Mapping[str, str]) -> str | None:
    bare = device.partition(_REPLICA)[0]  # a GPU that is shared by time has an id a share
    old = _MIG_OF.fullmatch(bare)
    return known.get(old[1] if old else bare)
