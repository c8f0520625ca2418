"""Which of a label's values the pod's own node selector and required affinity leave open.

Only the expressions on that one label are judged; whatever else a term says, another node may meet.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_admission.catalogue import Variant
from gpu_admission.gpu_request.shapes import items, mapping, mappings


@dataclass(frozen=True, slots=True)
class Pins:
    """The pod's own constraints: the node selector, and its required terms.

    None: no term says anything. Terms that are all empty match no node anyway, which is Kubernetes'
    to say, not ours.
    """

    selector: Mapping[str, Any]
    terms: tuple[Mapping[str, Any], ...] | None

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "Pins":
        """Those of a PodSpec."""
        affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        terms = None
        if isinstance(required, dict):
            terms = tuple(
                term
                for _, term in mappings(required.get("nodeSelectorTerms"))
                if term.get("matchExpressions") or term.get("matchFields")
            )
        return cls(mapping(spec.get("nodeSelector")), terms or None)

    def leave(self, variant: Variant) -> bool:
        """Whether a node with this variant may still take the pod."""
        if not self.selector and self.terms is None:
            return True
        return any(self._leaves(variant.label_key, value) for value in variant.node_label_values)

    def on(self, label_key: str) -> str:
        """What the pod says about the label, for people; empty if nothing."""
        said = [str(self.selector[label_key])] if label_key in self.selector else []
        for term in self.terms or ():
            said += [
                " ".join([str(each.get("operator")), *map(str, items(each.get("values")))])
                for each in _expressions(term, label_key)
            ]
        return "; ".join(said)

    def _leaves(self, key: str, value: str) -> bool:
        if key in self.selector and self.selector[key] != value:
            return False
        if self.terms is None:
            return True
        return any(
            all(_holds(each, value) for each in _expressions(term, key)) for term in self.terms
        )


def _expressions(term: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return [each for _, each in mappings(term.get("matchExpressions")) if each.get("key") == key]


def _holds(expression: Mapping[str, Any], value: str) -> bool:
    """Whether an expression holds for a node whose label has this value."""
    values = items(expression.get("values"))
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "DoesNotExist":
            return False
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values)
        case _:
            return True


def _compares(operator: str, value: str, values: list[Any]) -> bool:
    try:
        bound, number = int(values[0]), int(value)
    except (IndexError, TypeError, ValueError):
        return False
    return number > bound if operator == "Gt" else number < bound
