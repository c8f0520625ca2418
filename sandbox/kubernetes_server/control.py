"""The hands behind the sandbox Kubernetes: faults, pauses, open watches, the audit log. Decides nothing about objects."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from sandbox.kubernetes_server.audit import AuditEntry, AuditLog
from sandbox.kubernetes_server.storage import Store
from sandbox.kubernetes_server.wire import Connection, CutError

_LOOK_SECONDS = 0.02
"""How soon it is noticed that the client of a request that is held up has ended."""


class FaultKind(StrEnum):
    """What a matching request suffers."""

    STATUS = "status"
    RESET_BEFORE = "reset_before"
    RESET_AFTER = "reset_after"
    LATENCY = "latency"
    HOLD_BEFORE = "hold_before"
    HOLD_AFTER = "hold_after"


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the next `count` requests that match; an empty condition matches all.

    The first `skip` that match are spared.

    `status`: the answer has this code (and Retry-After, in seconds, if given) and nothing is done.
    `reset_before`, `reset_after`: the connection is cut before or after the request took effect.
    `latency`: it waits so many seconds, then goes on. `name` and `user` are regular expressions.
    `hold_before`, `hold_after`: it waits before or after it took effect until `let_go`, then goes on; when its
    client ends first, it ends there, so that one held before has no effect, and one held after no answer.
    """

    kind: FaultKind
    count: int = 1
    skip: int = 0
    code: int = 503
    reason: str = ""
    message: str = "a fault of the sandbox"
    retry_after: int | None = None
    seconds: float = 0.0
    verbs: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    subresource: str | None = None
    namespace: str | None = None
    name: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What faults and the audit log look at."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""


@dataclass(slots=True)
class _Armed:
    fault: Fault
    left: int
    spared: int = 0


@dataclass(slots=True)
class _Holds:
    """Requests that faults hold up now, and a number that `let_go` raises."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    now: list[Asked] = field(default_factory=list)
    freed: int = 0


@dataclass(slots=True)
class _Watches:
    lock: threading.Lock = field(default_factory=threading.Lock)
    open: dict[Connection, str] = field(default_factory=dict)


class Control:
    """Thread-safe. Times in seconds of real time."""

    def __init__(self, store: Store) -> None:
        self.audit = AuditLog()
        self.latency = 0.0
        self._store = store
        self._faults: list[_Armed] = []
        self._guard = threading.Lock()
        self._running = threading.Event()
        self._running.set()
        self._epoch = 0
        self._waiting = 0
        self._watches = _Watches()
        self._holds = _Holds()
        self._logs: dict[tuple[str, str, str], str] = {}

    # Faults.

    def add(self, fault: Fault) -> None:
        re.compile(fault.name), re.compile(fault.user)  # a wrong pattern fails here, not later
        with self._guard:
            self._faults.append(_Armed(fault, fault.count))

    def fail(self, count: int = 1, code: int = 503, **conditions: object) -> None:
        """The next `count` matching requests get this code; other arguments are those of Fault.

        `verbs` and `resources` may be any collection of names.
        """
        self._arm(FaultKind.STATUS, count, {"code": code, **conditions})

    def reset(self, count: int = 1, *, after: bool = False, **conditions: object) -> None:
        """The next `count` matching requests are cut off before or after they took effect."""
        kind = FaultKind.RESET_AFTER if after else FaultKind.RESET_BEFORE
        self._arm(kind, count, conditions)

    def slow(self, seconds: float, count: int = 1, **conditions: object) -> None:
        self._arm(FaultKind.LATENCY, count, {"seconds": seconds, **conditions})

    def clear_faults(self) -> None:
        with self._guard:
            self._faults.clear()

    def take_fault(self, asked: Asked) -> Fault | None:
        """The first armed fault that matches, used up by one."""
        with self._guard:
            for armed in self._faults:
                if _matches(armed.fault, asked):
                    if armed.spared < armed.fault.skip:
                        armed.spared += 1
                        continue
                    armed.left -= 1
                    if armed.left <= 0:
                        self._faults.remove(armed)
                    return armed.fault
        return None

    # Holding up one request.

    def hold(self, *, after: bool = False, **conditions: object) -> None:
        """Hold up the next matching request before or after it took effect, until `let_go` or its client's end."""
        kind = FaultKind.HOLD_AFTER if after else FaultKind.HOLD_BEFORE
        self._arm(kind, 1, conditions)

    @property
    def held(self) -> tuple[Asked, ...]:
        """The requests that are held up now."""
        with self._holds.changed:
            return tuple(self._holds.now)

    def let_go(self) -> None:
        """Let all that are held up go on."""
        with self._holds.changed:
            self._holds.freed += 1
            self._holds.changed.notify_all()

    def wait_while_held(self, asked: Asked, connection: Connection) -> None:
        """Return once let go.

        Raises:
            CutError: The client has ended, or the server was stopped.
        """
        holds, epoch = self._holds, self._epoch
        with holds.changed:
            freed = holds.freed
            holds.now.append(asked)
            try:
                while freed == holds.freed:
                    if connection.gone() or epoch != self._epoch:
                        raise CutError
                    holds.changed.wait(_LOOK_SECONDS)
            finally:
                holds.now.remove(asked)

    # Standing still.

    def pause(self) -> None:
        """Requests are taken and not answered, watches fall silent, until `resume`."""
        self._running.clear()

    def resume(self) -> None:
        self._running.set()

    @property
    def paused(self) -> bool:
        return not self._running.is_set()

    def wait_if_paused(self) -> None:
        """Return once running.

        Raises:
            CutError: The server was stopped meanwhile: what waited is lost with it.
        """
        if self._running.is_set():
            return
        epoch = self._epoch
        self._change_waiting(1)
        try:
            while not self._running.wait(0.1) and epoch == self._epoch:
                pass
        finally:
            self._change_waiting(-1)
        if epoch != self._epoch:
            raise CutError

    @property
    def waiting(self) -> int:
        """How many requests and watches a pause holds up now."""
        return self._waiting

    def _change_waiting(self, by: int) -> None:
        with self._guard:
            self._waiting += by

    def end_epoch(self) -> None:
        """The server stops: whoever waits will not be served any more."""
        self._epoch += 1

    def delay(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)

    # Watches.

    @contextmanager
    def watching(self, connection: Connection, resource: str) -> Iterator[None]:
        with self._watches.lock:
            self._watches.open[connection] = resource
        try:
            yield
        finally:
            with self._watches.lock:
                self._watches.open.pop(connection, None)

    def open_watches(self, resource: str | None = None) -> int:
        with self._watches.lock:
            return sum(resource in {None, each} for each in self._watches.open.values())

    def kill_watches(self, resource: str | None = None) -> int:
        """Cut all open watches (of one resource); the answer is how many there were."""
        with self._watches.lock:
            chosen = [
                connection
                for connection, each in self._watches.open.items()
                if resource in {None, each}
            ]
        for connection in chosen:
            connection.cut()
        return len(chosen)

    def expire_watches(self) -> None:
        """Forget the history: open watches and continued lists get 410, new watches must list."""
        self._store.forget_history()

    # Logs of containers: there is no kubelet to ask.

    def set_pod_log(self, namespace: str, name: str, text: str, container: str = "") -> None:
        self._logs[namespace, name, container] = text

    def pod_log(self, namespace: str, name: str, container: str) -> str | None:
        named = self._logs.get((namespace, name, container))
        return named if named is not None else self._logs.get((namespace, name, ""))

    # The audit log.

    def log(
        self, after: int = 0, keep: Callable[[AuditEntry], bool] = lambda _: True
    ) -> list[AuditEntry]:
        return [entry for entry in self.audit.entries(after) if keep(entry)]

    def _arm(self, kind: FaultKind, count: int, conditions: dict[str, object]) -> None:
        for name in ("verbs", "resources"):
            if name in conditions:
                conditions[name] = frozenset(conditions[name])  # type: ignore[call-overload]  # names
        self.add(Fault(kind, count, **conditions))  # type: ignore[arg-type]  # as Fault names them


def _matches(fault: Fault, asked: Asked) -> bool:
    exact = (
        (not fault.verbs or asked.verb in fault.verbs)
        and (not fault.resources or asked.resource in fault.resources)
        and fault.subresource in {None, asked.subresource}
        and fault.namespace in {None, asked.namespace}
    )
    return bool(exact and re.search(fault.name, asked.name) and re.search(fault.user, asked.user))
