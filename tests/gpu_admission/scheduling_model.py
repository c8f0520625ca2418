"""How kube-scheduler matches nodes, written down anew for the tests: shares no code with the product.

After the documented API: nodeSelector and required node affinity must both hold; terms are ORed, what
is inside a term is ANDed; a term without expressions and fields matches no node; an empty list of terms
matches no node; NotIn and DoesNotExist hold for nodes without the label; Gt and Lt compare integers.
"""

from typing import Any


def node_takes(node: dict[str, Any], spec: dict[str, Any]) -> bool:
    """Whether node selector, required affinity and NoSchedule taints let the pod on the node."""
    return fits_labels(node, spec) and tolerates(node, spec)


def fits_labels(node: dict[str, Any], spec: dict[str, Any]) -> bool:
    """Node selector and required node affinity only."""
    labels = node["metadata"]["labels"]
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    affinity = spec.get("affinity") or {}
    wanted = (affinity.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if wanted is None:
        return True
    return any(_term(node, each) for each in wanted.get("nodeSelectorTerms") or [])


def _term(node: dict[str, Any], term: dict[str, Any]) -> bool:
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return False
    by_field = {"metadata.name": node["metadata"]["name"]}
    return all(_holds(node["metadata"]["labels"], each) for each in expressions) and all(
        _holds(by_field, each) for each in fields
    )


def _holds(labels: dict[str, str], expression: dict[str, Any]) -> bool:
    key, operator = expression["key"], expression["operator"]
    values = expression.get("values") or []
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator == "In":
        return key in labels and labels[key] in values
    return key in labels and _compares(labels[key], operator, values)


def _compares(label: str, operator: str, values: list[str]) -> bool:
    try:
        number, bound = int(label), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound


def tolerates(node: dict[str, Any], spec: dict[str, Any]) -> bool:
    """Whether each NoSchedule and NoExecute taint is tolerated."""
    return all(
        any(_tolerates(each, taint) for each in spec.get("tolerations") or [])
        for taint in node.get("spec", {}).get("taints", [])
        if taint["effect"] in {"NoSchedule", "NoExecute"}
    )


def _tolerates(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    operator = toleration.get("operator") or "Equal"
    if not toleration.get("key"):
        return operator == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return operator == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")
