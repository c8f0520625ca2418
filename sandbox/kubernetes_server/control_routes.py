"""The control over HTTP, below /_sandbox/: for programs that started the sandbox as a process of its own.

Takes no credentials: the sandbox is for one's own machine. A mistake in a request is a 400 that names it.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from sandbox.kubernetes_server.access import Token, named_user
from sandbox.kubernetes_server.cluster import Cluster
from sandbox.kubernetes_server.control import Fault
from sandbox.kubernetes_server.targets import parse_query
from sandbox.kubernetes_server.wire import Request, Response

_FAULT = TypeAdapter(Fault)
_PREFIX = "/_sandbox/"


class _Order(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WatchesOrder(_Order):
    resource: str | None = None


class LatencyOrder(_Order):
    seconds: float


class PodLogOrder(_Order):
    namespace: str
    name: str
    text: str
    container: str = ""


class TokenOrder(_Order):
    """`groups` as RBAC knows them."""

    user: str
    groups: tuple[str, ...] = ()


class ControlRoutes:
    """POST an order, GET `log?after=N` (JSON lines), DELETE `faults`."""

    def __init__(self, cluster: Cluster) -> None:
        self._control = cluster.control
        self._tokens = cluster.tokens
        self._orders: Mapping[str, Callable[[bytes], Any]] = {
            "faults": self._fault,
            "kill-watches": self._kill,
            "expire-watches": lambda _: self._control.expire_watches(),
            "pause": lambda _: self._control.pause(),
            "resume": lambda _: self._control.resume(),
            "latency": self._latency,
            "pod-logs": self._pod_log,
            "tokens": self._token,
        }

    def handle(self, request: Request) -> Response:
        order = request.path.removeprefix(_PREFIX)
        if request.method == "GET" and order == "log":
            return self._log(request)
        if request.method == "DELETE" and order == "faults":
            self._control.clear_faults()
            return Response(200, b"{}")
        obey = self._orders.get(order)
        if request.method != "POST" or obey is None:
            return _error(404, f"no order {order!r}; there are {', '.join(self._orders)}")
        try:
            answer = obey(request.body)
        except (ValidationError, ValueError) as error:
            return _error(400, str(error))
        return Response(200, orjson.dumps(answer or {}))

    def _log(self, request: Request) -> Response:
        try:
            after = parse_query(request.query).number("after") or 0
        except ValueError:
            return _error(400, "after: not a number")
        lines = [orjson.dumps(asdict(each)) for each in self._control.audit.entries(after)]
        return Response(200, b"".join(line + b"\n" for line in lines), "application/jsonl")

    def _fault(self, body: bytes) -> None:
        self._control.add(_FAULT.validate_json(body))

    def _kill(self, body: bytes) -> dict[str, int]:
        order = WatchesOrder.model_validate_json(body or b"{}")
        return {"killed": self._control.kill_watches(order.resource)}

    def _latency(self, body: bytes) -> None:
        self._control.latency = LatencyOrder.model_validate_json(body).seconds

    def _pod_log(self, body: bytes) -> None:
        order = PodLogOrder.model_validate_json(body)
        self._control.set_pod_log(order.namespace, order.name, order.text, order.container)

    def _token(self, body: bytes) -> dict[str, str]:
        order = TokenOrder.model_validate_json(body)
        return {"token": self._tokens.issue(Token(named_user(order.user, order.groups)))}


def _error(code: int, message: str) -> Response:
    return Response(code, orjson.dumps({"error": message}))
