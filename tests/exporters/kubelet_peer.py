"""A kubelet's pod-resources API on a socket: it answers bytes that are encoded here by hand, from the documented fields."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import grpc  # type: ignore[import-untyped]

GPU = "nvidia.com/gpu"


def field(number: int, value: str | bytes) -> bytes:
    """A length-delimited field of protobuf's wire format."""
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def devices(resource: str, ids: Iterable[str]) -> bytes:
    # Field 3 is the topology, which is not read: it must do no harm.
    return field(1, resource) + b"".join(field(2, each) for each in ids) + field(3, b"\x0a\x02\x08\x01")  # fmt: skip


class Kubelet:
    """Serves on `socket`. Set `allocatable`, `pods` and `claims`, or `fails`, at any time."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.allocatable: Mapping[str, Iterable[str]] = {}
        self.pods: Mapping[str, Iterable[str]] = {}
        self.claims: Iterable[str] = ()
        self.fails: grpc.StatusCode | None = None
        self.calls: list[str] = []
        self.answer_list: Callable[[bytes, Any], bytes] = self._list
        self._server = grpc.server(ThreadPoolExecutor(2))
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(handler)
            for name, handler in (
                ("List", self._list_as_told),
                ("GetAllocatableResources", self._all),
            )
        }
        service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers)
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix://{socket}")

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def _list_as_told(self, request: bytes, context: Any) -> bytes:
        return self.answer_list(request, context)

    def _list(self, _request: bytes, context: Any) -> bytes:
        self._note("List", context)
        held = b"".join(field(2, devices(name, ids)) for name, ids in self.pods.items())
        claims = b"".join(
            field(5, field(2, "claim") + field(4, field(2, driver) + field(4, "gpu-0")))
            for driver in self.claims
        )
        container = field(1, "main") + held + field(3, b"\x01\x02") + claims
        pod = field(1, "train-0") + field(2, "team") + field(3, container)
        return field(1, pod)

    def _all(self, _request: bytes, context: Any) -> bytes:
        self._note("GetAllocatableResources", context)
        return b"".join(field(1, devices(name, ids)) for name, ids in self.allocatable.items())

    def _note(self, name: str, context: Any) -> None:
        self.calls.append(name)
        if self.fails is not None:
            context.abort(self.fails, "the kubelet says no")
