"""Garbage collection: what is owned goes when its last owner is gone; finalizers of foreground and orphan deletion."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sandbox.kubernetes_rules import ownership
from sandbox.kubernetes_rules.deletion import FOREGROUND, ORPHAN
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.statuses import Refusal
from sandbox.kubernetes_server.controllers.frame import ACTOR, Change, Controller
from sandbox.kubernetes_server.storage import ADDED, DELETED, Body, Record

_Kept = tuple[ResourceType, Record]


class GarbageCollector(Controller):
    """Watches everything; looks at dependents only when an owner goes or a dependent comes."""

    def react(self, changes: Sequence[Change]) -> None:
        gone = {_uid(each.event.record) for each in changes if each.event.kind == DELETED}
        if gone:
            for kind, record in self._dependents(gone):
                self._collect(kind, record)
        for change in changes:
            self._look_at(change)

    def _look_at(self, change: Change) -> None:
        event = change.event
        metadata = event.record.body["metadata"]
        if event.kind == DELETED:
            self._let_owners_go(event.record)
            return
        kept = self._now(change.collection, event.record)
        if kept is None:
            return
        if event.kind == ADDED and metadata.get("ownerReferences"):
            self._collect(*kept)
        if metadata.get("deletionTimestamp"):
            self._finalize(*kept)

    def _collect(self, kind: ResourceType, record: Record) -> None:
        """Delete a dependent none of whose owners lives; forget those of several that are gone."""
        references = record.body["metadata"].get("ownerReferences") or ()
        gone = {each["uid"] for each in references if self._owner(each, record.key[0]) is None}
        if len(gone) == len(references):
            self.delete(kind, record, propagationPolicy="Background")
        elif gone:
            self._store(kind, ownership.without_owners(record.body, gone))

    def _let_owners_go(self, dependent: Record) -> None:
        for reference in dependent.body["metadata"].get("ownerReferences") or ():
            owner = self._owner(reference, dependent.key[0])
            if owner is not None and owner[1].body["metadata"].get("deletionTimestamp"):
                self._finalize(*owner)

    def _finalize(self, kind: ResourceType, record: Record) -> None:
        finalizers = record.body["metadata"].get("finalizers") or ()
        held = (
            list(self._dependents({_uid(record)})) if {ORPHAN, FOREGROUND} & {*finalizers} else []
        )
        kinds = {_uid(each): each_kind for each_kind, each in held}
        bodies = [each.body for _, each in held]
        if ORPHAN in finalizers:
            for body in ownership.orphaned(_uid(record), bodies):
                self._store(kinds[body["metadata"]["uid"]], body)
            self._drop_finalizer(kind, record, ORPHAN)
        elif FOREGROUND in finalizers:
            step = ownership.foreground_step(_uid(record), bodies)
            going = {each["metadata"]["uid"] for each in step.delete}
            for each_kind, each in held:
                if _uid(each) in going:
                    self.delete(each_kind, each, propagationPolicy="Foreground")
            if step.owner_may_go:
                self._drop_finalizer(kind, record, FOREGROUND)

    def _drop_finalizer(self, kind: ResourceType, record: Record, name: str) -> None:
        body = record.copy()
        body["metadata"]["finalizers"] = [
            each for each in body["metadata"]["finalizers"] if each != name
        ]
        self._store(kind, body)

    def _store(self, kind: ResourceType, body: Body) -> None:
        """Store over the version that was read.

        Raises:
            Refusal: It was overtaken; the changes are looked at again.
        """
        metadata = body["metadata"]
        namespace = metadata.get("namespace", "")
        try:
            self.cluster.objects.update(kind, namespace, metadata["name"], lambda _: body, ACTOR)
        except Refusal as refusal:
            if refusal.reason != "NotFound":
                raise

    def _dependents(self, uids: set[str]) -> Iterator[_Kept]:
        for name, collection in self.store.items():
            found = [
                record
                for record in collection.records()
                if "ownerReferences" in record.body["metadata"]
                and uids & ownership.owner_uids(record.body)
            ]
            kind = self.cluster.catalogue.of_collection(name) if found else None
            if kind is not None:
                yield from ((kind, record) for record in found)

    def _owner(self, reference: Mapping[str, Any], namespace: str) -> _Kept | None:
        kind = self.cluster.catalogue.of_kind(reference["apiVersion"], reference["kind"])
        if kind is None:
            return None
        key = (namespace if kind.namespaced else "", reference["name"])
        record = self.store.collection(kind.qualified_plural).get(key)
        return (kind, record) if record is not None and _uid(record) == reference["uid"] else None

    def _now(self, collection: str, seen: Record) -> _Kept | None:
        kind = self.cluster.catalogue.of_collection(collection)
        record = self.store.collection(collection).get(seen.key)
        return None if kind is None or record is None else (kind, record)


def _uid(record: Record) -> str:
    return str(record.body["metadata"].get("uid", ""))
