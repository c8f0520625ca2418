"""Keeps the status of PodDisruptionBudgets, from the pods that they cover and what their owners want."""

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.kubernetes_rules import disruption
from sandbox.kubernetes_rules.resources import POD, POD_DISRUPTION_BUDGET
from sandbox.kubernetes_rules.statuses import Refusal
from sandbox.kubernetes_server.controllers.frame import ACTOR, Change, Controller
from sandbox.kubernetes_server.storage import Body, Record

_OWNERS = ("replicasets.apps", "statefulsets.apps", "deployments.apps")
_BUDGETS = POD_DISRUPTION_BUDGET.qualified_plural


class BudgetKeeper(Controller):
    """Looks only at namespaces in which something changed."""

    collections = (POD.plural, _BUDGETS, *_OWNERS)

    def react(self, changes: Sequence[Change]) -> None:
        budgets = self.store.collection(_BUDGETS)
        for namespace in {each.event.record.key[0] for each in changes}:
            for record in budgets.records(namespace):
                self._keep(record)

    def _keep(self, record: Record) -> None:
        pods = [each.body for each in self.store.collection(POD.plural).records(record.key[0])]
        covered = [each for each in pods if disruption.covers(record.body, each)]
        wanted = self._expected(record.key[0], covered)
        status = disruption.budget_status(
            record.body, covered, self.cluster.objects.now(), expected=wanted
        )
        if status == record.body.get("status"):
            return
        seen = record.body["metadata"]["resourceVersion"]

        def change(body: Body) -> Body:
            metadata = {**body["metadata"], "resourceVersion": seen}
            return {**body, "metadata": metadata, "status": status}

        try:
            self.cluster.objects.update(POD_DISRUPTION_BUDGET, *record.key, change, ACTOR, "status")
        except Refusal as refusal:
            if refusal.reason != "NotFound":
                raise

    def _expected(self, namespace: str, pods: Sequence[Mapping[str, Any]]) -> int | None:
        """How many pods their controllers want; None when no controller that we know owns them."""
        owners: dict[str, int] = {}
        for pod in pods:
            for reference in pod["metadata"].get("ownerReferences") or ():
                kind = self.cluster.catalogue.of_kind(reference["apiVersion"], reference["kind"])
                if kind is None or not reference.get("controller"):
                    continue
                key = (namespace, reference["name"])
                owner = self.store.collection(kind.qualified_plural).get(key)
                if owner is not None and "replicas" in (owner.body.get("spec") or {}):
                    owners[reference["uid"]] = int(owner.body["spec"]["replicas"])
        return sum(owners.values()) if owners else None
