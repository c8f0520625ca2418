"""`gpu-admission explain`: the change as a diff, why these models, which nodes could take the pod now.

Calls the webhook's own decision; before it does to a manifest what the API server would have done.
"""

import copy
import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TextIO

import yaml

from chassis.errors import PermanentError
from gpu_admission.catalogue import Catalogue, NamespaceView
from gpu_admission.commands.cluster_facts import ClusterFacts
from gpu_admission.fitting import Fit, fits
from gpu_admission.gpu_request.shapes import mapping, mappings, text
from gpu_admission.mutation import Decision, Denied, Mutated, mutate
from gpu_admission.review import apply_patch
from gpu_admission.selection import Why
from gpu_admission.validation import template_of

_POD = "Pod"
_MOST_NODES = 10
_WHY = {
    Why.TOO_LITTLE_VRAM: "has less VRAM than was asked for",
    Why.NOT_ALLOWED: "is not for this namespace",
    Why.NODE_TOO_SMALL: "has nodes with fewer GPUs than the pod needs",
    Why.OTHER_BACKEND: "is asked for by another resource",
    Why.EXCLUDED_FROM_ANY: 'is taken out of "any" for now',
    Why.NOT_SMALLEST: "has more VRAM than another that will do, and the class gets the smallest",
    Why.PINNED_ELSEWHERE: "is excluded by the pod's own node selector or affinity",
}


@dataclass(frozen=True, slots=True)
class Question:
    """One pod to explain: what the manifest calls it, and the pod as the webhook would meet it."""

    title: str
    namespace: str
    pod: dict[str, Any]


def questions(manifest: str, namespace: str) -> list[Question]:
    """The pods of a manifest with any number of documents; workloads by their templates.

    Raises:
        PermanentError: It is no YAML, or holds nothing with a pod.
    """
    try:
        documents = list(yaml.safe_load_all(manifest))
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        raise PermanentError(f"the manifest is not YAML: a mistake{line}") from error
    found = [each for document in documents for each in _asked(document, namespace)]
    if not found:
        raise PermanentError("the manifest holds no pod and no workload with a pod template")
    return found


def _asked(document: object, namespace: str) -> Iterator[Question]:
    body = mapping(document)
    for item in body.get("items") or ():
        yield from _asked(item, namespace)
    kind, meta = text(body.get("kind")), mapping(body.get("metadata"))
    where = text(meta.get("namespace")) or namespace or "default"
    name = text(meta.get("name")) or text(meta.get("generateName")) or "(without a name)"
    template = body if kind == _POD else template_of(kind, body)
    if template:
        yield Question(f"{kind} {where}/{name}", where, _as_created(template))


def _as_created(template: Mapping[str, Any]) -> dict[str, Any]:
    """A pod of this template with requests filled in from limits, as the API server does."""
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": _POD,
        "metadata": copy.deepcopy(dict(mapping(template.get("metadata")))),
        "spec": copy.deepcopy(dict(mapping(template.get("spec")))),
    }
    for part in ("initContainers", "containers"):
        for _, container in mappings(pod["spec"].get(part)):
            resources = container.get("resources")
            if isinstance(resources, dict) and isinstance(resources.get("limits"), dict):
                resources["requests"] = {
                    **resources["limits"],
                    **mapping(resources.get("requests")),
                }
    return pod


def explain(
    asked: list[Question],
    catalogue: Catalogue,
    facts: ClusterFacts,
    now: datetime,
    out: TextIO,
) -> int:
    """Write the explanations; 0 if all would be admitted, else 1."""
    status = 0
    for index, question in enumerate(asked):
        out.write("\n" if index else "")
        status = max(status, _explain(question, catalogue, facts, now, out.write))
    return status


def _explain(
    question: Question,
    catalogue: Catalogue,
    facts: ClusterFacts,
    now: datetime,
    write: Callable[[str], object],
) -> int:
    labels = facts.namespace_labels.get(question.namespace) if facts.asked else {}
    view = NamespaceView(question.namespace, labels)
    decided = mutate(question.pod, view, catalogue, now, facts.priorities)
    write(f"{question.title}: {_became(decided)}\n")
    if not facts.asked:
        write("".join(f"  offline: {each}\n" for each in _unknown(question.pod, catalogue)))
    if isinstance(decided, Denied):
        write(f"  {decided.text}\n")
        return 1
    if not isinstance(decided, Mutated):
        write(f"  why: {decided.reason.value.replace('_', ' ')}\n")
        _warn(decided.warnings, write)
        return 0
    _choice(decided, catalogue, write)
    _warn(decided.warnings, write)
    after = apply_patch(question.pod, decided.patch)
    write("".join(_diff(question.pod, after)))
    if facts.asked:
        _nodes(fits(after, facts.nodes, facts.pods), decided, write)
    return 0


def _became(decided: Decision) -> str:
    if isinstance(decided, Denied):
        return "denied"
    return "changed" if isinstance(decided, Mutated) else "left as it is"


def _unknown(pod: Mapping[str, Any], catalogue: Catalogue) -> Iterator[str]:
    """What the answer would depend on, and only a cluster knows."""
    if catalogue.needs_namespace_labels:
        yield "the catalogue looks at namespaces' labels; taken as if there were none"
    spec = mapping(pod.get("spec"))
    name = text(spec.get("priorityClassName"))
    if name and not name.startswith("system-") and type(spec.get("priority")) is not int:
        yield f"the priority of class {name} is unknown; taken as 0. Set spec.priority to try another"


def _warn(warnings: tuple[str, ...], write: Callable[[str], object]) -> None:
    for each in warnings:
        write(f"  warning: {each}\n")


def _choice(decided: Mutated, catalogue: Catalogue, write: Callable[[str], object]) -> None:
    write(f"  class: {decided.class_name}\n")
    selection = decided.selection
    if selection is None:
        return
    write(f"  models: {', '.join(each.text for each in selection.variants)}\n")
    for variant_id, why in sorted(selection.left_out.items()):
        variant = catalogue.variant(variant_id)
        name = variant.text if variant is not None else variant_id
        write(f"  not {name}: it {_WHY[why]}\n")


def _diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = (
        yaml.safe_dump(dict(each), sort_keys=False).splitlines(keepends=True)
        for each in (before, after)
    )
    yield from difflib.unified_diff(old, new, fromfile="submitted", tofile="admitted", n=2)


def _nodes(found: tuple[Fit, ...], decided: Mutated, write: Callable[[str], object]) -> None:
    now = [fit for fit in found if not fit.why_not]
    later = [fit for fit in found if fit.why_not]
    resource = decided.selection.backend.resource if decided.selection is not None else "cpu"
    write(f"  nodes that could take it now: {_listed([_free(each, resource) for each in now])}\n")
    if later:
        told = [f"{each.node}: {each.why_not}" for each in later]
        write(f"  nodes of these models that cannot: {_listed(told)}\n")
    if not found:
        write("  no node of the cluster has these models where the pod's selectors allow it\n")


def _free(fit: Fit, resource: str) -> str:
    free = fit.free.get(resource)
    return fit.node if free is None else f"{fit.node} ({float(free):g} {resource} free)"


def _listed(texts: list[str]) -> str:
    if not texts:
        return "none"
    rest = len(texts) - _MOST_NODES
    return ", ".join(texts[:_MOST_NODES]) + (f" and {rest} more" if rest > 0 else "")
