"""What may become of a request: every policy, in order, for a pod as for a workload's template.

Pure. `mutation` makes a patch of what comes out, `validation` an answer to a workload.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpu_admission.catalogue import (
    Catalogue,
    GPUClass,
    NamespaceView,
    PodRules,
    PriorityClasses,
)
from gpu_admission.gpu_request import Ask, PodRequest, Reason, Refusal, shortened
from gpu_admission.gpu_request.shapes import mapping, mappings
from gpu_admission.review import Answer
from gpu_admission.selection import (
    NO_PRIORITY_CLASSES,
    Circumstances,
    Selection,
    class_of,
    priority_of,
    select,
    too_many_gpus,
)


@dataclass(frozen=True, slots=True)
class Denied:
    """What must not be made; the text says what, where, and what to do instead."""

    reason: Reason
    text: str
    code: int
    asks: tuple[Ask, ...] = ()
    class_name: str = ""
    """Empty if not known yet."""

    def answer(self) -> Answer:
        """For the API server."""
        return Answer(
            allowed=False,
            code=self.code,
            text=self.text,
            audit_annotations={"denied": self.reason.value},
        )


@dataclass(frozen=True, slots=True)
class Case:
    """A pod or a pod's template, and everything that its judgement depends on."""

    pod: Mapping[str, Any]
    spec: Mapping[str, Any]
    namespace: NamespaceView
    catalogue: Catalogue
    now: datetime
    rules: PodRules
    gpu_class: GPUClass
    priority: int
    warnings: tuple[str, ...]
    in_daemonset: bool

    @classmethod
    def of(
        cls,
        pod: Mapping[str, Any],
        namespace: NamespaceView,
        catalogue: Catalogue,
        now: datetime,
        priorities: PriorityClasses = NO_PRIORITY_CLASSES,
        *,
        in_daemonset: bool,
    ) -> "Case":
        """Look up the class and what the namespace may."""
        spec = mapping(pod.get("spec"))
        rules = catalogue.rules_for(namespace)
        priority = priority_of(spec, priorities)
        gpu_class, warnings = class_of(pod, namespace, rules, catalogue, priority)
        return cls(
            pod,
            spec,
            namespace,
            catalogue,
            now,
            rules,
            gpu_class,
            priority,
            warnings,
            in_daemonset,
        )

    def denied(self, refusal: Refusal) -> Denied:
        """The refusal as an answer."""
        return Denied(refusal.reason, refusal.text, refusal.code, refusal.asks, self.gpu_class.name)


def judge(case: Case, request: PodRequest) -> Selection | Refusal | None:
    """The selection for a request that says anything of GPUs; None if none is wanted by our keys."""
    needed = request.needed
    if needed and not case.catalogue.knows(case.namespace):
        return _namespace_unknown(case, request)
    most = case.rules.max_gpus_per_pod
    if most is not None and needed > most:
        return too_many_gpus(request, needed, most, case.namespace.name)
    if case.rules.raw_gpu == "deny" and (raw := _raw(request)):
        return Refusal(Reason.RAW_GPU, _in_other_words(raw, case, "must not"), request.all_asks)
    if not any(True for _ in request.specs()):
        return None
    if case.in_daemonset and case.rules.daemonsets == "deny":
        return _in_a_daemonset(request)
    given = Circumstances(case.namespace.name, case.rules, case.gpu_class, case.catalogue, case.now)
    return select(request, case.spec, given)


def warnings_about(case: Case, request: PodRequest) -> list[str]:
    """What the policies let pass, but with a word: raw resources, a node that is named already."""
    told = list(case.warnings)
    # Where a DaemonSet may not use our keys, telling it to do so would not help.
    advised = case.rules.raw_gpu == "warn" and not (
        case.in_daemonset and case.rules.daemonsets == "deny"
    )
    if advised and (raw := _raw(request)):
        told.append(_in_other_words(raw, case, "should not"))
    if case.spec.get("nodeName") and request.has_keys:
        told.append(
            "spec.nodeName is set: the scheduler is passed by, and the node refuses the pod "
            "if it has other GPUs"
        )
    return told


def is_daemonset_pod(pod: Mapping[str, Any]) -> bool:
    """Whether a DaemonSet's controller made the pod."""
    owners = mapping(pod.get("metadata")).get("ownerReferences")
    return any(
        owner.get("kind") == "DaemonSet" and owner.get("controller") is True
        for _, owner in mappings(owners)
    )


def _raw(request: PodRequest) -> tuple[str, str] | None:
    """Container and resource of the first amount that is asked for by the nodes' own resource."""
    for container in request.containers:
        for resource, amount in container.natives.items():
            if amount:
                return container.name, resource
    return None


def _in_other_words(raw: tuple[str, str], case: Case, may: str) -> str:
    name, resource = raw
    prefix = case.catalogue.key_prefix
    return (
        f'container "{shortened(name)}": pods {may} ask for {resource} directly; ask for {prefix}any, '
        f"or for a model like {prefix}{case.catalogue.variants[0].id}"
    )


def _in_a_daemonset(request: PodRequest) -> Refusal:
    keys = ", ".join(dict.fromkeys(each.spec.selector for _, each in request.specs()))
    return Refusal(
        Reason.DAEMONSET,
        f"{keys}: a DaemonSet makes a pod for each node that its template fits, and would make them "
        "for nodes without these GPUs too; give the template a node affinity and ask for the nodes' "
        "resource",
        request.asks,
    )


def _namespace_unknown(case: Case, request: PodRequest) -> Refusal:
    return Refusal(
        Reason.NAMESPACE_UNKNOWN,
        f'the labels of namespace "{case.namespace.name}" are not known yet; try again in a moment',
        request.asks,
    )
