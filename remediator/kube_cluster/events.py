"""Kubernetes Events about operations, on the operation and on its node: a courtesy to whoever runs `kubectl describe`.

Never state: nothing reads them, they are written once, slowly, in a thread of their own, and what cannot be written is
dropped. Whoever tells of a step is never held up.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from structlog.typing import FilteringBoundLogger

from chassis.errors import NodemendError
from chassis.kube_client import EVENTS, AlreadyExists, KubeClient
from remediator.operation import API_VERSION, KIND, NodeOperation, Phase

NAMESPACE = "default"
"""Where Kubernetes wants the Events of objects that have no namespace."""
COMPONENT = "nodemend-remediator"
_MOST_WAITING = 256
_LEAST_SECONDS_BETWEEN = 0.2
_LONGEST_WAIT_FOR_THE_LAST = 1.0
_MOST_TEXT = 1000
_MOST_NAME = 200


class Events:
    """Writes Events, a few a second at most; of a burst the oldest are dropped."""

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Callable[[], datetime],
        log: FilteringBoundLogger,
        instance: str = COMPONENT,
    ) -> None:
        self._client = client
        self._clock = clock
        self._log = log
        self._instance = instance
        self._waiting: deque[Mapping[str, Any]] = deque(maxlen=_MOST_WAITING)
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing = False

    def changed(self, before: NodeOperation, after: NodeOperation) -> None:
        """Tell of a recorded step, if it came to another phase. Returns at once."""
        if before.status.phase is after.status.phase:
            return
        self._waiting.extend(events_of(after, self._clock(), self._instance))
        self._wake.set()

    def start(self) -> None:
        """Begin to write; for leaders only."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._stopping,), name="events", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End; what has not been written is dropped."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=_LONGEST_WAIT_FOR_THE_LAST)
        self._waiting.clear()

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            while self._waiting and not stopping.is_set():
                self._write(self._waiting.popleft())
                stopping.wait(_LEAST_SECONDS_BETWEEN)

    def _write(self, event: Mapping[str, Any]) -> None:
        try:
            self._client.create(EVENTS, event)
        except AlreadyExists:
            pass  # told before a crash
        except NodemendError as error:
            if not self._failing:
                self._log.warning("events_not_written", error=str(error))
            self._failing = True
        except Exception:  # noqa: BLE001 - a courtesy must end nothing
            self._log.exception("event_crashed")
        else:
            self._failing = False


def events_of(operation: NodeOperation, now: datetime, instance: str) -> Iterator[dict[str, Any]]:
    """The Events of the phase that an operation has come to: on itself, and on its node once that is known."""
    status = operation.status
    number = status.history[-1].number if status.history else 0
    stem = f"{operation.name[:_MOST_NAME]}.{operation.uid[:8]}"
    about = {"apiVersion": API_VERSION, "kind": KIND, "name": operation.name, "uid": operation.uid}
    yield _event(f"{stem}.operation.{number}", about, operation, status.message, now, instance)
    if status.node_uid and status.phase is not Phase.GATED:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": operation.spec.node,
            "uid": status.node_uid,
        }
        text = f"{operation.name} ({operation.spec.playbook}): {status.message}"
        yield _event(f"{stem}.node.{number}", node, operation, text, now, instance)


def _event(
    name: str,
    about: Mapping[str, str],
    operation: NodeOperation,
    text: str,
    now: datetime,
    instance: str,
) -> dict[str, Any]:
    at = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    status = operation.status
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "involvedObject": dict(about),
        "type": "Warning" if status.phase is Phase.ESCALATED else "Normal",
        "reason": status.phase.value,
        "action": status.reason.value,
        "message": text[:_MOST_TEXT] or status.reason.value,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": instance[:128],
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
