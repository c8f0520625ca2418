"""One pod that is about to be made: judged, and the patch that follows.

Works on the pod as it came, copies nothing of it, and makes operations only.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from gpu_admission.backends import container_operations, hiding_operations, pod_operations
from gpu_admission.catalogue import Catalogue, NamespaceView, PriorityClasses
from gpu_admission.claims import (
    annotation_of,
    claim_text,
    claimed_request,
    read_claim,
    resource_agrees,
)
from gpu_admission.cpu_share import cpu_operations, dropping_operations, uses_devices
from gpu_admission.gpu_request import PodRequest, Reason, Refusal, requests_of
from gpu_admission.gpu_request.shapes import mapping
from gpu_admission.judging import Case, is_daemonset_pod, judge, warnings_about
from gpu_admission.mutation.decisions import (
    Decision,
    Mutated,
    Unchanged,
    UnchangedReason,
)
from gpu_admission.placement import affinity_operations, is_confined, toleration_operations
from gpu_admission.review import Operation, added, escaped, removed
from gpu_admission.selection import NO_PRIORITY_CLASSES, Selection

_MIRROR = "kubernetes.io/config.mirror"
_ANNOTATIONS = "/metadata/annotations"


def mutate(
    pod: Mapping[str, Any],
    namespace: NamespaceView,
    catalogue: Catalogue,
    now: datetime,
    priorities: PriorityClasses = NO_PRIORITY_CLASSES,
) -> Decision:
    """Decide about a pod's creation. Changing a mutated pod again changes nothing.

    Args:
        pod: The pod as the API server sent it; valid or not.
        namespace: Where it is made, from the review (a pod need not say it).
        catalogue: The GPUs and the policies.
        now: For exclusions that end.
        priorities: For pods without `spec.priority`: files that no API server has seen.
    """
    if not isinstance(pod.get("spec"), dict):
        return Unchanged(UnchangedReason.NOT_A_POD)
    if catalogue.leaves_alone(namespace.name):
        return Unchanged(UnchangedReason.EXCLUDED_NAMESPACE)
    if _MIRROR in mapping(mapping(pod.get("metadata")).get("annotations")):
        return Unchanged(UnchangedReason.MIRROR_POD)
    case = Case.of(pod, namespace, catalogue, now, priorities, in_daemonset=is_daemonset_pod(pod))
    request = requests_of(case.spec, catalogue)
    if isinstance(request, Refusal):
        return case.denied(request)
    if annotation_of(pod, catalogue) is None:
        return _decided(case, request, request)
    return _claiming(case, request)


def _claiming(case: Case, request: PodRequest) -> Decision:
    """A pod that carries the audit annotation: ours, when the webhook is called again; or forged."""
    claim = read_claim(case.pod, case.catalogue)
    claimed = claimed_request(request, claim) if claim is not None else None
    if claim is None or claimed is None:
        return _decided(case, request, request)
    selection = judge(case, claimed)
    if not isinstance(selection, Selection) or not resource_agrees(request, claim, selection):
        return _decided(case, request, request)
    if request.has_keys or is_confined(case.spec, selection.variants):
        return _decided(case, request, claimed)
    return case.denied(
        Refusal(
            Reason.AFFINITY_WEAKENED,
            f"the annotation {case.catalogue.annotation} claims GPUs that the node affinity does not "
            f"keep to; remove it and ask with {case.catalogue.key_prefix}...",
            claimed.asks,
        ),
    )


def _decided(case: Case, request: PodRequest, meant: PodRequest) -> Decision:
    """The decision; `meant` is the request with what was rewritten before in our terms again.

    What was rewritten before was counted then, so the asks are those that are new.
    """
    selection = judge(case, meant)
    if isinstance(selection, Refusal):
        return case.denied(selection)
    done = selection is not None and not request.has_keys
    warnings = (*warnings_about(case, meant), *(selection.warnings if selection else ()))
    annotation = claim_text(meant, selection, case.catalogue) if selection else None
    asks = (*request.asks, *meant.raw_asks)
    patch = [*_container_changes(case, request, selection), *_cpu_changes(case, request)]
    if selection is not None and not done:
        patch += _pod_changes(case, selection)
    if not done:
        warnings += _about_annotation(case, annotation)
        patch += _annotation_changes(case, annotation)
    if not patch:
        return Unchanged(_unchanged(request, done=done), warnings, asks, case.gpu_class.name)
    return Mutated(
        tuple(patch),
        case.gpu_class.name,
        selection,
        asks,
        warnings,
        {"selection": annotation} if annotation else {},
    )


def _unchanged(request: PodRequest, *, done: bool) -> UnchangedReason:
    if done:
        return UnchangedReason.ALREADY_DONE
    return UnchangedReason.RAW_GPU if request.needed else UnchangedReason.NO_GPU


def _container_changes(
    case: Case, request: PodRequest, selection: Selection | None
) -> Sequence[Operation]:
    backend = selection.backend if selection else None
    hide = case.catalogue.settings.defaults.hide_gpus_when_zero
    operations: list[Operation] = []
    for container in request.containers:
        if container.specs:
            operations += container_operations(container, backend)
        if hide and container.asks_for_none:
            operations += hiding_operations(container)
    return operations


def _pod_changes(case: Case, selection: Selection) -> Sequence[Operation]:
    weight = 0 if case.gpu_class.smallest else case.gpu_class.cheapest_weight
    tolerations = [each for variant in selection.variants for each in variant.tolerations]
    return (
        *affinity_operations(case.spec, selection.variants, weight),
        *toleration_operations(case.spec, tolerations),
        *pod_operations(case.spec, selection.backend),
    )


def _cpu_changes(case: Case, request: PodRequest) -> Sequence[Operation]:
    """The CPU rule, for pods without any GPU or other device."""
    policy = case.catalogue.cpu
    if policy is None or case.in_daemonset or case.priority >= policy.exempt_priority:
        return ()
    if request.needed or uses_devices(case.spec, policy):
        return dropping_operations(case.spec, policy)
    return cpu_operations(case.spec, policy, case.gpu_class)


def _annotation_changes(case: Case, annotation: str | None) -> Sequence[Operation]:
    key = case.catalogue.annotation
    metadata = case.pod.get("metadata")
    present = mapping(metadata).get("annotations")
    if annotation is None:
        there = key in mapping(present)
        return (removed(f"{_ANNOTATIONS}/{escaped(key)}"),) if there else ()
    if not isinstance(metadata, dict):
        return (added("/metadata", {"annotations": {key: annotation}}),)
    if not isinstance(present, dict):
        return (added(_ANNOTATIONS, {key: annotation}),)
    return (added(f"{_ANNOTATIONS}/{escaped(key)}", annotation),)


def _about_annotation(case: Case, annotation: str | None) -> tuple[str, ...]:
    if annotation is None and annotation_of(case.pod, case.catalogue) is not None:
        told = "is written by the webhook only and does not fit this pod; it was removed"
        return (f"the annotation {case.catalogue.annotation} {told}",)
    return ()
