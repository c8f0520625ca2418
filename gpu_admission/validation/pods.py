"""The last look at a pod, after every mutating webhook: is it what it claims to be?

Catches what the mutating side could not: that it was not reached, that another webhook undid its work,
that somebody wrote the audit annotation by hand.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpu_admission.catalogue import Catalogue, NamespaceView, PriorityClasses
from gpu_admission.claims import (
    Claim,
    annotation_of,
    claimed_request,
    read_claim,
    resource_agrees,
)
from gpu_admission.gpu_request import PodRequest, Reason, Refusal, requests_of
from gpu_admission.gpu_request.shapes import mapping
from gpu_admission.judging import Case, is_daemonset_pod, judge
from gpu_admission.placement import is_confined
from gpu_admission.selection import NO_PRIORITY_CLASSES, Selection
from gpu_admission.validation.answers import Allowed, Verdict

_MIRROR = "kubernetes.io/config.mirror"


def validate_pod(
    pod: Mapping[str, Any],
    namespace: NamespaceView,
    catalogue: Catalogue,
    now: datetime,
    priorities: PriorityClasses = NO_PRIORITY_CLASSES,
) -> Verdict:
    """Judge a pod as it would be stored."""
    if not isinstance(pod.get("spec"), dict) or catalogue.leaves_alone(namespace.name):
        return Allowed()
    if _MIRROR in mapping(mapping(pod.get("metadata")).get("annotations")):
        return Allowed()
    case = Case.of(pod, namespace, catalogue, now, priorities, in_daemonset=is_daemonset_pod(pod))
    request = requests_of(case.spec, catalogue)
    if isinstance(request, Refusal):
        return case.denied(request)
    if request.has_keys:
        return case.denied(_left_over(request))
    if annotation_of(pod, catalogue) is not None:
        return _claiming(case, request)
    raw = judge(case, request)
    return case.denied(raw) if isinstance(raw, Refusal) else Allowed()


def _claiming(case: Case, request: PodRequest) -> Verdict:
    claim = read_claim(case.pod, case.catalogue)
    claimed = claimed_request(request, claim) if claim is not None else None
    if claim is None or claimed is None:
        return case.denied(_forged(case, "it does not tell what the containers ask for"))
    selection = judge(case, claimed)
    agrees = isinstance(selection, Selection) and resource_agrees(request, claim, selection)
    if isinstance(selection, Selection) and agrees:
        if is_confined(case.spec, selection.variants):
            return Allowed()
        weakened = _weakened(case, claimed)
    else:
        why = selection.text if isinstance(selection, Refusal) else "the resource is another"
        weakened = _forged(case, why)
    return _by_another_catalogue(case, request, claim) or case.denied(weakened)


def _by_another_catalogue(case: Case, request: PodRequest, claim: Claim) -> Verdict | None:
    """While a new catalogue reaches the replicas, the pod may be right by the one before."""
    if claim.generation == case.catalogue.generation:
        return None
    known = claim.known_variants(case.catalogue)
    if not known or not is_confined(case.spec, known):
        return None
    raw = judge(case, request)
    if isinstance(raw, Refusal):
        return case.denied(raw)
    return Allowed(("this pod's GPUs were chosen by another generation of the catalogue",))


def _left_over(request: PodRequest) -> Refusal:
    container = next(each for each in request.containers if each.specs)
    return Refusal(
        Reason.LEFT_OVER,
        f'container "{container.name}": {container.specs[0].spec.key} was not translated: the '
        "mutating webhook of gpu-admission did not answer; try again, and tell an admin if it stays",
        request.asks,
    )


def _weakened(case: Case, claimed: PodRequest) -> Refusal:
    return Refusal(
        Reason.AFFINITY_WEAKENED,
        f"the pod's node affinity does not keep to the GPUs in its annotation "
        f"{case.catalogue.annotation}: another webhook changed it, or the annotation was written by "
        "hand; remove that",
        claimed.asks,
    )


def _forged(case: Case, why: str) -> Refusal:
    return Refusal(
        Reason.ANNOTATION_FORGED,
        f"the annotation {case.catalogue.annotation} is written by the webhook only, and this one is "
        f"not true: {why}; remove it",
    )
