"""Writes of NodeOperations: each under the version it was decided on. Decides nothing."""

from collections.abc import Mapping
from typing import Any

from chassis.kube_client import Conflict, KubeClient, NotFound, PatchKind
from remediator.kube_cluster.reading import part
from remediator.kube_cluster.resources import NODE_OPERATIONS
from remediator.kube_cluster.stored import Shelf
from remediator.operation import (
    API_VERSION,
    FINALIZER,
    KIND,
    NodeOperation,
    OperationSpec,
    OperationStatus,
    cause_json,
    spec_json,
    status_json,
)


class Pen:
    """Writes operations, and puts what the API answers onto the shelf."""

    def __init__(self, client: KubeClient, shelf: Shelf) -> None:
        self._client = client
        self._shelf = shelf

    def create(self, name: str, spec: OperationSpec) -> NodeOperation:
        """A new operation, held by our finalizer from the start."""
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name, "finalizers": [FINALIZER]},
            "spec": spec_json(spec),
        }
        return self._operation_in(self._client.create(NODE_OPERATIONS, body))

    def join(self, operation: NodeOperation, spec: OperationSpec) -> NodeOperation:
        """Write more causes; Conflict if the operation has changed meanwhile."""
        body = {
            "metadata": {"resourceVersion": operation.resource_version},
            "spec": {"causes": [cause_json(cause) for cause in spec.causes]},
        }
        return self._operation_in(
            self._client.patch(NODE_OPERATIONS, operation.name, body, kind=PatchKind.MERGE)
        )

    def record(self, operation: NodeOperation, status: OperationStatus) -> NodeOperation:
        """One status write under the operation's resourceVersion."""
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": operation.name,
                "uid": operation.uid,
                "resourceVersion": operation.resource_version,
            },
            "spec": spec_json(operation.spec),
            "status": status_json(status),
        }
        raw = self._client.replace(NODE_OPERATIONS, body, subresource="status")
        return self._operation_in(raw, status=True)

    def _operation_in(self, raw: Mapping[str, Any], *, status: bool = False) -> NodeOperation:
        stored = self._shelf.wrote(raw, status=status)
        if stored.operation is None:
            raise Conflict(stored.problem, status=409, reason="Unreadable")
        return stored.operation

    def confirm(self, operation: NodeOperation) -> None:
        """See, by a live read, that an operation is still as it was decided on.

        Raises:
            Conflict: It has changed, or is gone.
        """
        try:
            raw = self._client.get(NODE_OPERATIONS, operation.name)
        except NotFound as error:
            raise Conflict(
                f"operation {operation.name} is gone", status=409, reason="Gone"
            ) from error
        if str(part(raw, "metadata").get("resourceVersion")) != operation.resource_version:
            self._shelf.wrote(raw)
            raise Conflict(f"operation {operation.name} has changed", status=409, reason="Conflict")

    def set_finalizer(self, name: str, *, wanted: bool) -> None:
        """Put our finalizer on, or take it off; others' stay."""
        raw = self._client.get(NODE_OPERATIONS, name)
        before = list(part(raw, "metadata").get("finalizers") or ())
        after = [each for each in before if each != FINALIZER] + ([FINALIZER] if wanted else [])
        metadata = {
            "resourceVersion": part(raw, "metadata").get("resourceVersion"),
            "finalizers": after,
        }
        body = {"metadata": metadata}
        self._shelf.wrote(self._client.patch(NODE_OPERATIONS, name, body, kind=PatchKind.MERGE))

    def remove(self, operation: NodeOperation) -> None:
        """Delete a finished operation; its Jobs go with it."""
        self._client.delete(
            NODE_OPERATIONS, operation.name, uid=operation.uid, propagation="Background"
        )
