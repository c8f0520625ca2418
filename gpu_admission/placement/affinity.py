"""Node affinity: the pod's own, ANDed with the chosen GPUs, and the cheapest preferred.

nodeSelectorTerms are ORed, so a term of our own beside the pod's would widen what the pod asked for:
the expression goes into each term that has any. A term without any matches no node; it stays as it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from gpu_admission.catalogue import Variant
from gpu_admission.gpu_request.shapes import items, mapping, mappings
from gpu_admission.review import Operation, added, replaced

Expression = dict[str, Any]
_AFFINITY = "/spec/affinity"
_NODE_AFFINITY = f"{_AFFINITY}/nodeAffinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MAX_LEVELS = 5
_REMEMBERED = 512


def affinity_operations(
    spec: Mapping[str, Any], variants: tuple[Variant, ...], cheapest_weight: int = 0
) -> list[Operation]:
    """Confine the pod to nodes with these variants; with a weight, prefer the cheapest of them."""
    expressions = expressions_for(variants)
    preferences = preferences_for(variants, cheapest_weight) if cheapest_weight else ()
    affinity = spec.get("affinity")
    node_affinity = mapping(affinity).get("nodeAffinity")
    if not isinstance(node_affinity, dict):
        whole: dict[str, Any] = {
            _REQUIRED: {"nodeSelectorTerms": [_term(each) for each in expressions]}
        }
        if preferences:
            whole[_PREFERRED] = list(preferences)
        if isinstance(affinity, dict):
            return [added(_NODE_AFFINITY, whole)]
        return [added(_AFFINITY, {"nodeAffinity": whole})]
    return [
        *_required(node_affinity.get(_REQUIRED), expressions),
        *_preferred(node_affinity.get(_PREFERRED), preferences),
    ]


def is_confined(spec: Mapping[str, Any], variants: tuple[Variant, ...]) -> bool:
    """Whether the required affinity lets the pod on nodes with these variants only."""
    required = mapping(mapping(spec.get("affinity")).get("nodeAffinity")).get(_REQUIRED)
    if not isinstance(required, dict):
        return False
    allowed = {each["key"]: frozenset(each["values"]) for each in expressions_for(variants)}
    return all(
        any(_within(expression, allowed) for expression in items(term.get("matchExpressions")))
        for _, term in mappings(required.get("nodeSelectorTerms"))
        if _says_something(term)
    )


@lru_cache(maxsize=_REMEMBERED)
def expressions_for(variants: tuple[Variant, ...]) -> tuple[Expression, ...]:
    """One expression a label key, with the sorted values of all variants that have it.

    Remembered, as most pods get one of a few selections: nobody may change what it returns.
    """
    values: dict[str, set[str]] = {}
    for variant in variants:
        values.setdefault(variant.label_key, set()).update(variant.node_label_values)
    return tuple(
        {"key": key, "operator": "In", "values": sorted(values[key])} for key in sorted(values)
    )


@lru_cache(maxsize=_REMEMBERED)
def preferences_for(variants: tuple[Variant, ...], weight: int) -> tuple[dict[str, Any], ...]:
    """The cheapest with the full weight, dearer ones with less, the dearest with none.

    By price an hour if each variant has one, else by tier, else by VRAM. Remembered, as above.
    """
    levels = _levels(variants)
    last = len(levels) - 1
    return tuple(
        {"weight": max(1, weight * (last - place) // last), "preference": _term(expression)}
        for place, level in enumerate(levels[:-1])
        for expression in expressions_for(tuple(level))
    )


def _levels(variants: Sequence[Variant]) -> list[list[Variant]]:
    """The variants in at most `_MAX_LEVELS` groups, cheapest first."""
    cost = _cost_of(variants)
    by_cost: dict[float, list[Variant]] = {}
    for variant in variants:
        by_cost.setdefault(cost[variant.id], []).append(variant)
    ordered = [by_cost[each] for each in sorted(by_cost)]
    if len(ordered) <= _MAX_LEVELS:
        return ordered
    levels: list[list[Variant]] = [[] for _ in range(_MAX_LEVELS)]
    for place, group in enumerate(ordered):
        levels[place * _MAX_LEVELS // len(ordered)] += group
    return levels


def _cost_of(variants: Sequence[Variant]) -> dict[str, float]:
    prices = {each.id: each.cost_per_hour for each in variants if each.cost_per_hour is not None}
    if len(prices) == len(variants):
        return prices
    tiers = {each.id: float(each.tier) for each in variants if each.tier is not None}
    if len(tiers) == len(variants):
        return tiers
    return {each.id: float(each.vram_gb) for each in variants}


def _required(required: object, expressions: Sequence[Expression]) -> list[Operation]:
    path = f"{_NODE_AFFINITY}/{_REQUIRED}"
    if not isinstance(required, dict):
        return [added(path, {"nodeSelectorTerms": [_term(each) for each in expressions]})]
    terms = items(required.get("nodeSelectorTerms"))
    open_terms = [
        index
        for index, term in mappings(terms)
        if _says_something(term)
        and not any(each in items(term.get("matchExpressions")) for each in expressions)
    ]
    if not open_terms:
        return []
    if len(expressions) == 1:
        return [
            _into_term(f"{path}/nodeSelectorTerms/{index}", terms[index], expressions[0])
            for index in open_terms
        ]
    crossed = list(_crossed(terms, set(open_terms), expressions))
    return [replaced(f"{path}/nodeSelectorTerms", crossed)]


def _into_term(path: str, term: Mapping[str, Any], expression: Expression) -> Operation:
    if isinstance(term.get("matchExpressions"), list):
        return added(f"{path}/matchExpressions/-", expression)
    return added(f"{path}/matchExpressions", [expression])


def _crossed(
    terms: list[Any], wanted: set[int], expressions: Sequence[Expression]
) -> Iterator[Any]:
    """Labels of different keys are alternatives, which only terms can be: each term once for each."""
    for index, term in enumerate(terms):
        if index not in wanted:
            yield term
            continue
        for each in expressions:
            yield {**term, "matchExpressions": [*items(term.get("matchExpressions")), each]}


def _preferred(present: object, wanted: Sequence[dict[str, Any]]) -> list[Operation]:
    path = f"{_NODE_AFFINITY}/{_PREFERRED}"
    if not isinstance(present, list):
        return [added(path, list(wanted))] if wanted else []
    return [added(f"{path}/-", each) for each in wanted if each not in present]


def _term(expression: Expression) -> dict[str, Any]:
    return {"matchExpressions": [expression]}


def _says_something(term: Mapping[str, Any]) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))


def _within(expression: object, allowed: Mapping[str, frozenset[str]]) -> bool:
    if not isinstance(expression, dict) or expression.get("operator") != "In":
        return False
    key, values = expression.get("key"), expression.get("values")
    return (
        isinstance(key, str)
        and key in allowed
        and isinstance(values, list)
        and all(isinstance(value, str) and value in allowed[key] for value in values)
    )
