"""Which class a pod is in: by the namespace, by its levers, at last by its priority.

The priority itself is read and never changed: the API server computes it from the PriorityClass and
refuses a pod in which the two differ.
"""

from collections.abc import Mapping
from typing import Any

from gpu_admission.catalogue import (
    Catalogue,
    GPUClass,
    NamespaceView,
    PodRules,
    PriorityClasses,
)
from gpu_admission.gpu_request import capped, shortened
from gpu_admission.gpu_request.shapes import mapping

NO_PRIORITY_CLASSES = PriorityClasses()


def priority_of(spec: Mapping[str, Any], priorities: PriorityClasses) -> int:
    """The pod's priority; of a template, that of the class it names, else the global default."""
    given = spec.get("priority")
    if type(given) is int:
        return given
    name = spec.get("priorityClassName")
    if isinstance(name, str) and name:
        return priorities.values.get(name, _SYSTEM.get(name, priorities.default))
    return priorities.default


_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def class_of(
    pod: Mapping[str, Any],
    namespace: NamespaceView,
    rules: PodRules,
    catalogue: Catalogue,
    priority: int,
) -> tuple[GPUClass, tuple[str, ...]]:
    """The class of a pod or template (metadata and spec), and what to warn of."""
    if rules.class_ is not None:
        return rules.class_, ()
    levers = catalogue.settings.class_levers
    chosen = catalogue.by_class.get(_text_at(namespace.labels, levers.namespace_label))
    if chosen is not None:
        return chosen, ()
    by_priority = catalogue.class_for(priority)
    wish = _wish(pod, catalogue)
    if not wish or wish == by_priority.name:
        return by_priority, ()
    if wish in levers.pods_may_choose:
        return catalogue.by_class[wish], ()
    may = capped(levers.pods_may_choose) or "none"
    told = f'class "{shortened(wish)}" cannot be chosen by a pod (it can choose: {may})'
    return by_priority, (f"{told}; this one is {by_priority.name}",)


def _wish(pod: Mapping[str, Any], catalogue: Catalogue) -> str:
    levers = catalogue.settings.class_levers
    if levers.pod_label is None and levers.pod_annotation is None:
        return ""
    metadata = mapping(pod.get("metadata"))
    return _text_at(metadata.get("labels"), levers.pod_label) or _text_at(
        metadata.get("annotations"), levers.pod_annotation
    )


def _text_at(labels: object, key: str | None) -> str:
    value = mapping(labels).get(key) if key is not None else None
    return value if isinstance(value, str) else ""
