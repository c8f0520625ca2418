"""What all controllers stand on: a thread that is told of changes and reacts; a failure is tried again."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from chassis.errors import NodemendError
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import Refusal
from sandbox.kubernetes_server.access import ADMINS, User
from sandbox.kubernetes_server.calls import Actor
from sandbox.kubernetes_server.cluster import Cluster
from sandbox.kubernetes_server.storage import Event, Record

ACTOR = Actor(User("system:kube-controller-manager", (ADMINS,)))
_AGAIN_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Change:
    """An event and the collection that it happened in."""

    collection: str
    event: Event


class Controller(ABC):
    """Told of the changes in `collections` (None: in all); at the start of everything there is.

    `react` runs in the controller's thread, also without changes every `period` seconds if that is
    given. When it raises, it is called again with the same changes.
    """

    collections: Collection[str] | None = None
    period: float | None = None

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.store = cluster.store
        self._lock = threading.Lock()
        self._changes: list[Change] = []
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    @abstractmethod
    def react(self, changes: Sequence[Change]) -> None:
        """Do what the changes ask for."""

    def start(self) -> None:
        with self.store.lock:
            self.store.listen(self._note)
            for name, collection in self.store.items():
                if self._cares(name):
                    for record in collection.records():
                        self._note(name, Event(record.version, "ADDED", record, None))
        self._wake.set()
        self._thread.start()

    def stop(self) -> None:
        self.store.unlisten(self._note)
        self._stopping = True
        self._wake.set()
        self._thread.join()

    def delete(self, kind: ResourceType, record: Record, **options: object) -> None:
        """Delete an object, if it is still the one that was seen."""
        uid = record.body["metadata"].get("uid")
        try:
            self.cluster.objects.delete(
                kind, *record.key, ACTOR, {**options, "preconditions": {"uid": uid}}
            )
        except Refusal as refusal:
            if refusal.reason not in {"NotFound", "Conflict"}:
                raise

    def _cares(self, name: str) -> bool:
        return self.collections is None or name in self.collections

    def _note(self, name: str, event: Event) -> None:
        if self._cares(name):
            with self._lock:
                self._changes.append(Change(name, event))
            self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait(self.period)
            self._wake.clear()
            if self._stopping:
                return
            if self.cluster.control.paused:
                threading.Event().wait(_AGAIN_SECONDS)
                self._wake.set()
                continue
            with self._lock:
                changes, self._changes = self._changes, []
            try:
                self.react(changes)
            except NodemendError:  # overtaken by another writer, or refused by a webhook for now
                with self._lock:
                    self._changes = changes + self._changes
                threading.Event().wait(_AGAIN_SECONDS)
                self._wake.set()
