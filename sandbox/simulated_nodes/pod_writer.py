"""Tells the API what became of a simulated node's pods: status patches, the last step of deletions, rebirths.

What cannot be written now is written again later, from the state of then.
"""

import contextlib
from collections.abc import Callable
from typing import Any

from chassis.errors import PermanentError, TemporaryError
from chassis.kube_client import PODS, AlreadyExists, Conflict, NotFound
from sandbox.simulated_nodes.faults import FaultKind
from sandbox.simulated_nodes.machine import Machine
from sandbox.simulated_nodes.pod_objects import PodRun, pod_status, replacement_of
from sandbox.simulated_nodes.shared import Shared


class PodWriter:
    """Writes the pods of one node; called on its lane. `forget` is told which pods are gone."""

    def __init__(self, machine: Machine, shared: Shared, forget: Callable[[PodRun], bool]) -> None:
        self._machine = machine
        self._shared = shared
        self._forget = forget
        self._retries: set[str] = set()

    def write(self, run: PodRun) -> None:
        """Bring the API up to date with this pod."""
        if not self._machine.is_on or self._machine.has(FaultKind.KUBELET_SILENT):
            return
        try:
            self._write_status(run)
            if run.is_deleting and run.is_quiet:
                self._finish_deletion(run)
        except TemporaryError as error:
            self._shared.log.info("simulated_pod_not_written", pod=run.key, error=str(error))
            self._retry(run)
        except PermanentError as error:
            self._shared.log.warning("simulated_pod_refused", pod=run.key, error=str(error))

    def was_removed(self, run: PodRun) -> None:
        """The pod is no longer in the API."""
        name = run.key.partition("/")[2]
        if self._forget(run) and self._machine.has_match(FaultKind.PODS_REBORN, name):
            self._give_birth(replacement_of(run.pod))

    def _write_status(self, run: PodRun) -> None:
        status = pod_status(run, self._shared.clock())
        if status == run.written:
            return
        namespace, _, name = run.key.partition("/")
        body = {"metadata": {"uid": run.uid}, "status": status}
        try:
            self._shared.client.patch(PODS, name, body, namespace, subresource="status")
        except NotFound:
            self.was_removed(run)
        run.written = status

    def _finish_deletion(self, run: PodRun) -> None:
        namespace, _, name = run.key.partition("/")
        with contextlib.suppress(NotFound, Conflict):  # Conflict: another pod has its name by now
            self._shared.client.delete(PODS, name, namespace, grace_seconds=0, uid=run.uid)
        self.was_removed(run)

    def _retry(self, run: PodRun) -> None:
        if run.uid in self._retries:
            return
        self._retries.add(run.uid)

        def again() -> None:
            self._retries.discard(run.uid)
            self.write(run)

        self._shared.timetable.after(self._shared.timing.api_retry, self._machine.spec.name, again)

    def _give_birth(self, body: dict[str, Any]) -> None:
        try:
            self._shared.client.create(PODS, body)
        except AlreadyExists:
            return  # its own controller was faster
        except TemporaryError as error:
            self._shared.log.info("simulated_rebirth_delayed", error=str(error))
            seconds = self._shared.timing.api_retry
            self._shared.timetable.after(
                seconds, self._machine.spec.name, lambda: self._give_birth(body)
            )
