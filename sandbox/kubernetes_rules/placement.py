"""The scheduler's rules: which nodes a pod fits, which it likes best, and whom it may push out. Pure.

Filters: node name, unschedulable, taints, node selector, required node affinity, resources, number of pods, scheduling
gates. Pod affinity, topology spread, ports and volumes are not looked at.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sandbox.kubernetes_rules.quantities import parse_quantity, total
from sandbox.kubernetes_rules.selectors import Requirement

Object = Mapping[str, Any]
Amounts = dict[str, Fraction]

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_USUAL_PODS = 110
_ENDED = frozenset({"Succeeded", "Failed"})
_HARD = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class Placement:
    """`node` None: nowhere, `message` says why as the real scheduler does; `victims` must go first."""

    node: str | None
    message: str = ""
    victims: tuple[Object, ...] = ()


def requests_of(pod: Object) -> Amounts:
    """What a pod takes: its containers together, or its largest init container where that is more."""
    spec = pod.get("spec") or {}
    needed = total(_requests(each) for each in spec.get("containers") or ())
    sidecars: Amounts = {}
    for each in spec.get("initContainers") or ():
        own = total([_requests(each)])
        if each.get("restartPolicy") == "Always":
            sidecars = _sum(sidecars, own)
            needed = _sum(needed, own)
        else:
            needed = _largest(needed, _sum(sidecars, own))
    return _sum(needed, total([spec.get("overhead") or {}]))


def _requests(container: Mapping[str, Any]) -> Mapping[str, Any]:
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _sum(left: Amounts, right: Amounts) -> Amounts:
    return {k: left.get(k, Fraction(0)) + right.get(k, Fraction(0)) for k in left | right}


def _largest(left: Amounts, right: Amounts) -> Amounts:
    return {k: max(left.get(k, Fraction(0)), right.get(k, Fraction(0))) for k in left | right}


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, Any]) -> bool:
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def matches_term(term: Mapping[str, Any], node: Object) -> bool:
    """All expressions and fields of one node selector term; an empty term matches nothing."""
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    expressions, on_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not on_fields:
        return False
    return all(_requirement(each).matches(labels) for each in expressions) and all(
        _requirement(each).matches(fields) for each in on_fields
    )


def _requirement(expression: Mapping[str, Any]) -> Requirement:
    values = tuple(expression.get("values") or ())
    return Requirement(expression["key"], expression["operator"], values)


def matches_affinity(pod: Object, node: Object) -> bool:
    """Node selector and required node affinity; both must hold."""
    spec = pod.get("spec") or {}
    labels = node["metadata"].get("labels") or {}
    wanted = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    needed = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if needed is None:
        return True
    return any(matches_term(each, node) for each in needed.get("nodeSelectorTerms") or ())


def why_not(pod: Object, node: Object, pods: Iterable[Object]) -> tuple[str, ...]:
    """The reasons against this node, in the scheduler's words; empty when the pod fits. `pods`: of any node."""
    fixed = _fixed_reason(pod, node)
    return (fixed,) if fixed else _missing(pod, node, pods)


def _fixed_reason(pod: Object, node: Object) -> str | None:
    """What no pod's leaving would change."""
    spec, node_spec = pod.get("spec") or {}, node.get("spec") or {}
    tolerations = spec.get("tolerations") or ()
    name = spec.get("nodeName")
    if name and name != node["metadata"]["name"]:
        return "node(s) didn't match the requested node name"
    cordoned = {"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}
    if node_spec.get("unschedulable") and not tolerates(tolerations, cordoned):
        return "node(s) were unschedulable"
    for taint in node_spec.get("taints") or ():
        if taint.get("effect") in _HARD and not tolerates(tolerations, taint):
            return "node(s) had untolerated taint(s)"
    if not matches_affinity(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    return None


def _missing(pod: Object, node: Object, pods: Iterable[Object]) -> tuple[str, ...]:
    status = node.get("status") or {}
    allocatable = status.get("allocatable") or status.get("capacity") or {}
    there = _on(node, pods)
    used: Amounts = {}
    for each in there:
        used = _sum(used, requests_of(each))
    lacking = [
        f"Insufficient {name}"
        for name, amount in requests_of(pod).items()
        if amount > 0
        and used.get(name, Fraction(0)) + amount > parse_quantity(allocatable.get(name, 0))
    ]
    crowded = len(there) >= parse_quantity(allocatable.get("pods", _USUAL_PODS))
    return tuple((["Too many pods"] if crowded else []) + lacking)


def _on(node: Object, pods: Iterable[Object]) -> list[Object]:
    name = node["metadata"]["name"]
    return [
        each
        for each in pods
        if (each.get("spec") or {}).get("nodeName") == name
        and (each.get("status") or {}).get("phase") not in _ENDED
    ]


def score(pod: Object, node: Object) -> int:
    """How much the pod likes the node: weights of the preferred terms it matches, less soft taints."""
    spec = pod.get("spec") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    liked = sum(
        int(each.get("weight") or 0)
        for each in affinity.get(_PREFERRED) or ()
        if matches_term(each.get("preference") or {}, node)
    )
    soft = [t for t in (node.get("spec") or {}).get("taints") or () if t.get("effect") not in _HARD]
    return liked - sum(1 for taint in soft if not tolerates(spec.get("tolerations") or (), taint))


def place(pod: Object, nodes: Sequence[Object], pods: Sequence[Object]) -> Placement:
    """The best node that takes the pod; else the victims that would make room; else why not."""
    if (pod.get("spec") or {}).get("schedulingGates"):
        return Placement(None, "Scheduling is blocked due to non-empty scheduling gates")
    reasons = {node["metadata"]["name"]: why_not(pod, node, pods) for node in nodes}
    fitting = [node for node in nodes if not reasons[node["metadata"]["name"]]]
    if fitting:
        return Placement(_best(pod, fitting, pods)["metadata"]["name"])
    counted = Counter(each for found in reasons.values() for each in found)
    told = ", ".join(f"{count} {reason}" for reason, count in sorted(counted.items()))
    message = f"0/{len(nodes)} nodes are available: {told}."
    return preemption(pod, nodes, pods, message)


def _best(pod: Object, nodes: Sequence[Object], pods: Sequence[Object]) -> Object:
    """The most liked, then the emptiest, then by name, so that a test knows."""
    return min(nodes, key=lambda n: (-score(pod, n), len(_on(n, pods)), n["metadata"]["name"]))


def preemption(
    pod: Object, nodes: Sequence[Object], pods: Sequence[Object], message: str = ""
) -> Placement:
    """The node where the least important pods would have to go, and those; nothing goes for a pod that never preempts."""
    if (pod.get("spec") or {}).get("preemptionPolicy") == "Never":
        return Placement(None, message)
    found = [(node, _victims(pod, node, pods)) for node in nodes if not _fixed_reason(pod, node)]
    possible = [(node, victims) for node, victims in found if victims]
    if not possible:
        return Placement(None, message)
    node, victims = min(possible, key=lambda pair: _cost(pair[0], pair[1]))
    return Placement(node["metadata"]["name"], message, tuple(victims))


def _cost(node: Object, victims: Sequence[Object]) -> tuple[int, int, int, str]:
    ranks = [_priority(each) for each in victims]
    return max(ranks), sum(ranks), len(ranks), str(node["metadata"]["name"])


def _priority(pod: Object) -> int:
    return int((pod.get("spec") or {}).get("priority") or 0)


def _victims(pod: Object, node: Object, pods: Sequence[Object]) -> list[Object]:
    """The fewest of lower priority, as the scheduler finds them: all leave, then come back while there is room."""
    there = _on(node, pods)
    lower = [each for each in there if _priority(each) < _priority(pod)]
    kept = [each for each in there if each not in lower]
    if _missing(pod, node, kept):
        return []
    victims: list[Object] = []
    for each in sorted(lower, key=lambda e: -_priority(e)):
        if _missing(pod, node, [*kept, each]):
            victims.append(each)
        else:
            kept.append(each)
    return victims
