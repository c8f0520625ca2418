"""Namespaces under deletion are emptied; pods of nodes that are gone are removed."""

from collections.abc import Sequence

from sandbox.kubernetes_rules.resources import NAMESPACE, NODE, POD
from sandbox.kubernetes_rules.statuses import Refusal
from sandbox.kubernetes_server.controllers.frame import ACTOR, Change, Controller
from sandbox.kubernetes_server.storage import DELETED, Body, Record


class NamespaceCleaner(Controller):
    """A namespace goes when all that was in it has gone."""

    collections = (NAMESPACE.plural,)
    period = 0.5

    def react(self, _: Sequence[Change]) -> None:
        for record in self.store.collection(NAMESPACE.plural).records():
            if record.body["metadata"].get("deletionTimestamp") and self._is_empty(record.key[1]):
                self._finish(record)

    def _is_empty(self, namespace: str) -> bool:
        """Delete what is left; whether nothing was."""
        empty = True
        for kind in self.cluster.catalogue.kept():
            if not kind.namespaced:
                continue
            for record in self.store.collection(kind.qualified_plural).records(namespace):
                empty = False
                if not record.body["metadata"].get("deletionTimestamp"):
                    self.delete(kind, record)
        return empty

    def _finish(self, record: Record) -> None:
        def finalized(body: Body) -> Body:
            return {**body, "spec": {**(body.get("spec") or {}), "finalizers": []}}

        try:
            self.cluster.objects.update(NAMESPACE, *record.key, finalized, ACTOR, "finalize")
        except Refusal as refusal:
            if refusal.reason != "NotFound":
                raise


class PodCollector(Controller):
    """Pods on a node that does not exist are deleted without grace."""

    collections = (NODE.plural, POD.plural)

    def react(self, changes: Sequence[Change]) -> None:
        nodes = self.store.collection(NODE.plural)
        lost = any(
            each.collection == NODE.plural and each.event.kind == DELETED for each in changes
        )
        pods = (
            self.store.collection(POD.plural).records()
            if lost
            else [
                each.event.record
                for each in changes
                if each.collection == POD.plural and each.event.kind != DELETED
            ]
        )
        for pod in pods:
            node = (pod.body.get("spec") or {}).get("nodeName")
            if node and nodes.get(("", node)) is None:
                self.delete(POD, pod, gracePeriodSeconds=0)
