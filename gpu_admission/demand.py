"""What people want, by name, VRAM, class and namespace: from pods as they are in the cluster.

After mutation a pod asks for the nodes' resource; what it asked for before is in the audit annotation,
which counts only as far as its amounts are the containers'. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpu_admission.catalogue import Catalogue, NamespaceView, PriorityClasses
from gpu_admission.claims import claimed_request, read_claim
from gpu_admission.gpu_request import PodRequest, Refusal, requests_of
from gpu_admission.gpu_request.shapes import mapping, text
from gpu_admission.selection import NO_PRIORITY_CLASSES, class_of, priority_of

_OVER = frozenset({"Succeeded", "Failed"})


class DemandState(StrEnum):
    """Whether the demand is met."""

    PENDING = "pending"
    """No node has taken the pod yet."""
    RUNNING = "running"
    """A node holds its GPUs."""


@dataclass(frozen=True, slots=True)
class DemandRecord:
    """What one pod wants of one kind.

    `name` is what was written (`any`, a model, an alias), or the nodes' resource if that was asked for
    directly; `min_vram_gb` is 0 if none was asked for.
    """

    name: str
    min_vram_gb: int
    class_name: str
    namespace: str
    amount: int
    state: DemandState


def demand_of(
    pod: Mapping[str, Any],
    namespace: NamespaceView,
    catalogue: Catalogue,
    priorities: PriorityClasses = NO_PRIORITY_CLASSES,
) -> tuple[DemandRecord, ...]:
    """The demand of a live pod; none if it has ended or asks for no GPU."""
    spec = mapping(pod.get("spec"))
    if text(mapping(pod.get("status")).get("phase")) in _OVER:
        return ()
    request = requests_of(spec, catalogue)
    if isinstance(request, Refusal) or not request.needed:
        return ()
    meant = _meant(pod, request, catalogue)
    rules = catalogue.rules_for(namespace)
    gpu_class, _ = class_of(pod, namespace, rules, catalogue, priority_of(spec, priorities))
    state = DemandState.RUNNING if spec.get("nodeName") else DemandState.PENDING
    return tuple(
        DemandRecord(ask.name, ask.min_vram_gb, gpu_class.name, namespace.name, ask.amount, state)
        for ask in meant.all_asks
    )


def _meant(pod: Mapping[str, Any], request: PodRequest, catalogue: Catalogue) -> PodRequest:
    claim = read_claim(pod, catalogue)
    return (claimed_request(request, claim) if claim is not None else None) or request
