"""The stored operations: what the watch has told, and our own writes that it has not told yet.

A decision must never be made on an operation as it was before our own last write.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chassis.errors import PermanentError
from chassis.kube_client import KubeClient, NotFound
from remediator.kube_cluster.reading import part
from remediator.kube_cluster.resources import NODE_OPERATIONS
from remediator.operation import FINALIZER, NodeOperation, read


@dataclass(frozen=True, slots=True)
class Stored:
    """An object of the API: the operation in it, or why it cannot be read."""

    name: str
    version: str
    operation: NodeOperation | None
    problem: str = ""
    has_finalizer: bool = False
    deleting: bool = False


def stored_of(raw: Mapping[str, Any]) -> Stored:
    """An object of the API; never raises."""
    metadata = part(raw, "metadata")
    name, version = str(metadata.get("name")), str(metadata.get("resourceVersion"))
    finalizers = metadata.get("finalizers")
    has_finalizer = isinstance(finalizers, list) and FINALIZER in finalizers
    deleting = metadata.get("deletionTimestamp") is not None
    try:
        operation = read(raw)
    except PermanentError as error:
        return Stored(name, version, None, str(error), has_finalizer, deleting)
    return Stored(name, version, operation, "", has_finalizer, deleting)


class Shelf:
    """All operations by name, with an index by node. Any thread may read and write."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._kept: dict[str, Stored] = {}
        self._by_node: dict[str, set[str]] = {}
        self._problems: dict[str, str] = {}
        self._own: dict[str, str] = {}  # the version of the leader's last status write

    def seen(self, name: str, new: Stored | None) -> bool:
        """Take in what the watch tells; whether the leader must look.

        What we have read or made in another way is news all the same; only its own status is not.
        """
        with self._lock:
            known = self._kept.get(name)
            if new is None:
                self._drop(name)
                self._own.pop(name, None)
                return known is not None
            if known is not None and _is_newer(known.version, new.version):
                return False
            if known is None or known.version != new.version:
                self._put(new)
            return self._own.get(name) != new.version

    def wrote(self, raw: Mapping[str, Any], *, status: bool = False) -> Stored:
        """Take in the answer to a write or a live read; `status`: of the leader's own status write."""
        new = stored_of(raw)
        with self._lock:
            if status:
                self._own[new.name] = new.version
            known = self._kept.get(new.name)
            if known is None or _is_newer(new.version, known.version):
                self._put(new)
        return new

    def refresh(self, name: str) -> Stored | None:
        """Read one live, and believe it; None when it is gone."""
        try:
            new = stored_of(self._client.get(NODE_OPERATIONS, name))
        except NotFound:
            with self._lock:
                self._drop(name)
            return None
        with self._lock:
            self._put(new)
        return new

    def get(self, name: str) -> Stored | None:
        """One of them."""
        with self._lock:
            return self._kept.get(name)

    def all(self) -> list[Stored]:
        """All of them."""
        with self._lock:
            return list(self._kept.values())

    def problems(self) -> dict[str, str]:
        """What is wrong with those that cannot be read, by name."""
        with self._lock:
            return dict(self._problems)

    def of_node(self, node: str) -> tuple[NodeOperation, ...]:
        """Those of a node, oldest first."""
        with self._lock:
            found = [self._kept[name].operation for name in self._by_node.get(node, ())]
        return tuple(sorted((one for one in found if one), key=lambda one: one.age_order))

    def _put(self, new: Stored) -> None:
        self._drop(new.name)
        self._kept[new.name] = new
        if new.operation is None:
            self._problems[new.name] = new.problem
        if new.operation is not None:
            self._by_node.setdefault(new.operation.spec.node, set()).add(new.name)

    def _drop(self, name: str) -> None:
        old = self._kept.pop(name, None)
        self._problems.pop(name, None)
        if old is None or old.operation is None:
            return
        names = self._by_node.get(old.operation.spec.node, set())
        names.discard(name)
        if not names:
            self._by_node.pop(old.operation.spec.node, None)


def _is_newer(one: str, other: str) -> bool:
    """Whether a resourceVersion comes after another; versions that are no numbers are all news."""
    if one.isdigit() and other.isdigit():
        return int(one) > int(other)
    return one != other
