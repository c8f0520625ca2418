"""Which nodes could take a pod now: labels, taints, and what their pods leave. For people, not for scheduling.

Covers what decides about GPUs (node selector, required node affinity, taints, cordons, requests); what
it does not look at (other affinities, volumes, ports) only a scheduler knows. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpu_admission.catalogue import parse_quantity
from gpu_admission.gpu_request.shapes import items, mapping, mappings, text

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_FINISHED = frozenset({"Succeeded", "Failed"})
_REPELLING = frozenset({"NoSchedule", "NoExecute"})
_NONE = Fraction(0)

Amounts = dict[str, Fraction]


@dataclass(frozen=True, slots=True)
class Fit:
    """A node that the pod may run on by its labels, and why it cannot right now; empty if it can."""

    node: str
    why_not: str
    free: Mapping[str, Fraction]


def fits(
    pod: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]
) -> tuple[Fit, ...]:
    """The nodes that the pod's selector and affinity allow, those that can take it now first.

    Args:
        pod: As it would be stored.
        nodes: The cluster's Nodes.
        pods: Its pods; those that ended count nothing.
    """
    used = _used(pods)
    wanted = needs(pod)
    spec = mapping(pod.get("spec"))
    found = [
        _fit(spec, node, wanted, used.get(_name(node), {})) for node in nodes if _allows(spec, node)
    ]
    return tuple(sorted(found, key=lambda fit: (bool(fit.why_not), fit.node)))


def needs(pod: Mapping[str, Any]) -> Amounts:
    """What the scheduler counts: the larger of all containers together and each init container.

    An init container that goes on (restartPolicy Always) counts beside the others and those after it.
    Source: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    spec = mapping(pod.get("spec"))
    together: Amounts = {}
    for _, container in mappings(spec.get("containers")):
        _add(together, _requests(container))
    beside: Amounts = {}
    largest: Amounts = {}
    for _, container in mappings(spec.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            _add(beside, _requests(container))
            _raise(largest, beside)
        else:
            alone = dict(beside)
            _add(alone, _requests(container))
            _raise(largest, alone)
    _add(together, beside)
    _raise(together, largest)
    _add(together, _amounts(spec.get("overhead")))
    together["pods"] = Fraction(1)
    return together


def _requests(container: Mapping[str, Any]) -> Amounts:
    resources = mapping(container.get("resources"))
    return {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}


def _amounts(values: object) -> Amounts:
    parsed = ((key, parse_quantity(value)) for key, value in mapping(values).items())
    return {key: value for key, value in parsed if value}


def _add(into: Amounts, other: Mapping[str, Fraction]) -> None:
    for key, value in other.items():
        into[key] = into.get(key, _NONE) + value


def _raise(into: Amounts, other: Mapping[str, Fraction]) -> None:
    for key, value in other.items():
        into[key] = max(into.get(key, _NONE), value)


def _used(pods: Iterable[Mapping[str, Any]]) -> dict[str, Amounts]:
    used: dict[str, Amounts] = {}
    for pod in pods:
        node = text(mapping(pod.get("spec")).get("nodeName"))
        if node and mapping(pod.get("status")).get("phase") not in _FINISHED:
            _add(used.setdefault(node, {}), needs(pod))
    return used


def _name(node: Mapping[str, Any]) -> str:
    return text(mapping(node.get("metadata")).get("name"))


def _fit(
    spec: Mapping[str, Any],
    node: Mapping[str, Any],
    wanted: Mapping[str, Fraction],
    used: Mapping[str, Fraction],
) -> Fit:
    allocatable = _amounts(mapping(node.get("status")).get("allocatable"))
    free = {key: allocatable.get(key, _NONE) - used.get(key, _NONE) for key in wanted}
    return Fit(_name(node), "; ".join(_reasons(spec, node, wanted, free)), free)


def _reasons(
    spec: Mapping[str, Any],
    node: Mapping[str, Any],
    wanted: Mapping[str, Fraction],
    free: Mapping[str, Fraction],
) -> Iterator[str]:
    node_spec = mapping(node.get("spec"))
    if node_spec.get("unschedulable") is True:
        yield "it is cordoned"
    tolerations = [each for _, each in mappings(spec.get("tolerations"))]
    for _, taint in mappings(node_spec.get("taints")):
        if taint.get("effect") in _REPELLING and not _tolerated(taint, tolerations):
            shown = "=".join(filter(None, (text(taint.get("key")), text(taint.get("value")))))
            yield f"its taint {shown}:{taint.get('effect')} is not tolerated"
    for key, amount in wanted.items():
        if amount > free[key]:
            yield f"{key}: {_shown(amount)} wanted, {_shown(max(free[key], _NONE))} free"


def _shown(amount: Fraction) -> str:
    return str(amount.numerator) if amount.denominator == 1 else f"{float(amount):g}"


def _tolerated(taint: Mapping[str, Any], tolerations: Sequence[Mapping[str, Any]]) -> bool:
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in {None, "", taint.get("effect")}:
        return False
    key = toleration.get("key") or ""
    if toleration.get("operator") == "Exists":
        return key in {"", taint.get("key")}
    return key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


def _allows(spec: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Whether node selector and required node affinity let the pod on the node."""
    labels = mapping(mapping(node.get("metadata")).get("labels"))
    selector = mapping(spec.get("nodeSelector"))
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = affinity.get(_REQUIRED)
    if not isinstance(required, dict):
        return True
    fields = {"metadata.name": _name(node)}
    return any(
        _term_holds(term, labels, fields) for _, term in mappings(required.get("nodeSelectorTerms"))
    )


def _term_holds(
    term: Mapping[str, Any], labels: Mapping[str, Any], fields: Mapping[str, Any]
) -> bool:
    expressions = [(labels, each) for _, each in mappings(term.get("matchExpressions"))]
    expressions += [(fields, each) for _, each in mappings(term.get("matchFields"))]
    return bool(expressions) and all(_holds(each, values) for values, each in expressions)


def _holds(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    key, values = expression.get("key"), items(expression.get("values"))
    has = labels.get(key) if isinstance(key, str) else None
    match expression.get("operator"):
        case "In":
            return has in values
        case "NotIn":
            return has not in values
        case "Exists":
            return has is not None
        case "DoesNotExist":
            return has is None
        case "Gt" | "Lt" as operator:
            return _compared(operator, has, values)
    return False


def _compared(operator: str, has: object, values: Sequence[object]) -> bool:
    try:
        left, right = int(str(has)), int(str(values[0]))
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right
