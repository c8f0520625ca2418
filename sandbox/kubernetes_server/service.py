"""Answers one HTTP request: who asks, may they, which fault is armed, which verb; then the audit entry.

The order is the real server's: authentication, then authorisation, then whether the resource exists.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from chassis.errors import NodemendError
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import (
    Refusal,
    bad_request,
    forbidden,
    internal_error,
    method_not_allowed,
    no_such_path,
    unauthorized,
)
from sandbox.kubernetes_server import access, plain_paths
from sandbox.kubernetes_server.access import ADMINS, ANONYMOUS, AUTHENTICATED, Attributes, User
from sandbox.kubernetes_server.calls import Actor, Call
from sandbox.kubernetes_server.cluster import Cluster
from sandbox.kubernetes_server.control import Asked, Fault, FaultKind
from sandbox.kubernetes_server.control_routes import ControlRoutes
from sandbox.kubernetes_server.targets import Params, Target, parse_path, parse_query, verb_of
from sandbox.kubernetes_server.verbs import Verbs
from sandbox.kubernetes_server.wire import CutError, Request, Response

_READING = frozenset({"get", "list", "watch"})
_AFTER_THE_EFFECT = frozenset({FaultKind.RESET_AFTER, FaultKind.HOLD_AFTER})
_CREATED = 201


@dataclass(slots=True)
class _Turn:
    """One request on its way through; filled in step by step, for the audit log."""

    request: Request
    params: Params
    target: Target | None
    verb: str
    user: User = ANONYMOUS
    fault: str = ""
    code: int = 0
    warnings: list[str] = field(default_factory=list)
    created: str = ""

    @property
    def dry_run(self) -> bool:
        return self.params.text("dryRun") == "All"


class Service:
    """The handler of the wire server."""

    def __init__(self, cluster: Cluster, clock: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._control = cluster.control
        self._rbac = cluster.rbac
        self._clock = clock
        self._verbs = Verbs(cluster)
        self._routes = ControlRoutes(cluster)

    def handle(self, request: Request) -> Response:
        """Answer.

        Raises:
            CutError: A fault wants the connection to end, or the server was stopped meanwhile.
        """
        if request.path.startswith("/_sandbox/"):
            return self._routes.handle(request)
        self._control.wait_if_paused()
        params = parse_query(request.query)
        target = parse_path(request.path)
        verb = verb_of(request.method, target, params) if target else request.method.lower()
        turn = _Turn(request, params, target, verb)
        try:
            response = self._answered(turn)
        except CutError:
            self._log(turn, took_effect=turn.fault in _AFTER_THE_EFFECT)
            request.connection.cut(reset=True)
            raise
        turn.code = response.status
        self._log(turn, took_effect=response.status < 400 and verb not in _READING)  # noqa: PLR2004
        return response

    def _answered(self, turn: _Turn) -> Response:
        try:
            turn.user = self._authenticated(turn.request)
            fault = self._fault(turn)
            response = self._routed(turn)
        except Refusal as refusal:
            return refused(refusal, turn.warnings)
        except CutError:
            raise
        except NodemendError as error:
            return refused(internal_error(str(error)), turn.warnings)
        if fault is not None:
            self._afterwards(fault, turn)
        return response

    def _afterwards(self, fault: Fault, turn: _Turn) -> None:
        """What a fault does between the effect and the answer."""
        if fault.kind == FaultKind.RESET_AFTER:
            raise CutError
        if fault.kind == FaultKind.HOLD_AFTER:
            self._control.wait_while_held(_asked(turn), turn.request.connection)

    def _fault(self, turn: _Turn) -> Fault | None:
        """The fault that comes after the answer is made; one that comes before is done here."""
        self._control.delay(self._control.latency)
        asked = _asked(turn)
        fault = self._control.take_fault(asked)
        if fault is None:
            return None
        turn.fault = fault.kind
        if fault.kind == FaultKind.RESET_BEFORE:
            raise CutError
        if fault.kind == FaultKind.STATUS:
            raise _refusal_of(fault)
        if fault.kind == FaultKind.LATENCY:
            self._control.delay(fault.seconds)
        if fault.kind == FaultKind.HOLD_BEFORE:
            self._control.wait_while_held(asked, turn.request.connection)
        return fault

    def _routed(self, turn: _Turn) -> Response:
        self._authorise(turn)
        if turn.target is None:
            return plain_paths.answer(turn.request, self._cluster)
        kind = self._kind(turn.target)
        if not turn.verb:
            raise method_not_allowed()
        _check_scope(kind, turn)
        if turn.params.text("dryRun") not in {"", "All"}:
            raise bad_request(f"Invalid value: {turn.params.text('dryRun')!r}: dryRun must be All")
        call = Call(
            kind=kind,
            target=turn.target,
            params=turn.params,
            request=turn.request,
            actor=Actor(
                user=turn.user,
                dry_run=turn.dry_run,
                checking=turn.params.text("fieldValidation") or "Warn",
                warn=turn.warnings.append,
            ),
            warnings=turn.warnings,
        )
        response = self._verbs.answer(turn.verb, call)
        return with_warnings(response, turn.warnings)

    def _kind(self, target: Target) -> ResourceType:
        kind = self._cluster.catalogue.find(target.group, target.version, target.resource)
        if kind is None:
            raise no_such_path()
        return kind

    # Who, and whether.

    def _authenticated(self, request: Request) -> User:
        header = request.headers.get("authorization", "")
        if not header:
            return ANONYMOUS
        scheme, _, token = header.partition(" ")
        user = None
        if scheme.lower() == "bearer":
            user = self._cluster.tokens.user(token.strip(), self._cluster.store, self._clock())
        if user is None:
            raise unauthorized()
        return self._impersonated(user, request)

    def _impersonated(self, user: User, request: Request) -> User:
        name = request.headers.get("impersonate-user")
        if not name:
            return user
        wanted = Attributes("impersonate", resource="users", name=name)
        if self._rbac and not access.allowed(self._cluster.store, user, wanted):
            raise Refusal(403, "Forbidden", f'users "{name}" is forbidden: cannot impersonate', {})
        groups = request.headers.get("impersonate-group", "")
        listed = [each.strip() for each in groups.split(",") if each.strip()]
        return User(name, (*listed, AUTHENTICATED))

    def _authorise(self, turn: _Turn) -> None:
        if not self._rbac or ADMINS in turn.user.groups:
            return
        target = turn.target
        wanted = (
            Attributes(turn.verb, path=turn.request.path)
            if target is None
            else Attributes(
                turn.verb,
                target.group,
                target.resource,
                target.subresource,
                target.namespace,
                target.name,
            )
        )
        if access.allowed(self._cluster.store, turn.user, wanted):
            return
        if turn.user is ANONYMOUS:
            raise unauthorized()
        raise _forbidden(turn, target, self._cluster)

    def _log(self, turn: _Turn, *, took_effect: bool) -> None:
        target = turn.target or Target("", "", "")
        self._control.audit.add(
            at=self._clock(),
            verb=turn.verb,
            group=target.group,
            resource=target.resource,
            subresource=target.subresource,
            namespace=target.namespace,
            name=target.name,
            user=turn.user.name,
            user_agent=turn.request.headers.get("user-agent", ""),
            code=turn.code,
            path=turn.request.path,
            dry_run=turn.dry_run,
            took_effect=took_effect and not turn.dry_run,
            fault=str(turn.fault),
        )


def _asked(turn: _Turn) -> Asked:
    target = turn.target or Target("", "", "")
    return Asked(
        turn.verb,
        target.group,
        target.resource,
        target.subresource,
        target.namespace,
        target.name,
        turn.user.name,
    )


def refused(refusal: Refusal, warnings: list[str]) -> Response:
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    response = Response(refusal.code, orjson.dumps(refusal.status), headers=headers)
    return with_warnings(response, warnings)


def with_warnings(response: Response, warnings: list[str]) -> Response:
    """With the header `Warning` as RFC 7234 has it, several in one line."""
    if not warnings:
        return response
    quoted = [each.replace("\\", "\\\\").replace('"', '\\"') for each in warnings]
    text = ", ".join(f'299 - "{each}"' for each in quoted)
    safe = text.encode("ascii", "replace").decode().replace("\r", " ").replace("\n", " ")
    return Response(
        response.status,
        response.body,
        response.content_type,
        {**response.headers, "Warning": safe},
        response.stream,
    )


def _check_scope(kind: ResourceType, turn: _Turn) -> None:
    """A namespace where there is none, or none where one is needed, is no address."""
    target = turn.target
    if target is None:
        return
    if target.namespace and not kind.namespaced:
        raise no_such_path()
    across = not target.namespace and not target.name and turn.verb in {"list", "watch"}
    if kind.namespaced and not target.namespace and kind.storage and not across:
        raise method_not_allowed() if not target.name else no_such_path()


def _refusal_of(fault: Fault) -> Refusal:
    words: Mapping[int, str] = {
        409: "Conflict",
        410: "Expired",
        429: "TooManyRequests",
        500: "InternalError",
        503: "ServiceUnavailable",
        504: "Timeout",
        401: "Unauthorized",
        403: "Forbidden",
        404: "NotFound",
    }
    details: dict[str, Any] = {}
    if fault.retry_after is not None:
        details["retryAfterSeconds"] = fault.retry_after
    return Refusal(fault.code, fault.reason or words.get(fault.code, ""), fault.message, details)


def _forbidden(turn: _Turn, target: Target | None, cluster: Cluster) -> Refusal:
    who = f'User "{turn.user.name}" cannot'
    if target is None:
        message = f'forbidden: {who} {turn.verb} path "{turn.request.path}"'
        return Refusal(403, "Forbidden", message, {})
    full = f"{target.resource}/{target.subresource}" if target.subresource else target.resource
    where = (
        f' in the namespace "{target.namespace}"' if target.namespace else " at the cluster scope"
    )
    why = f'{who} {turn.verb} resource "{full}" in API group "{target.group}"{where}'
    kind = cluster.catalogue.find(target.group, target.version, target.resource)
    if kind is None:
        return Refusal(403, "Forbidden", f"{target.resource} is forbidden: {why}", {})
    return forbidden(kind, target.name, why)
