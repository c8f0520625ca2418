"""What the API server demands of label selectors and of node affinity. Pure."""

from collections.abc import Mapping
from typing import Any

from sandbox.kubernetes_rules import names
from sandbox.kubernetes_rules.field_checks import forbidden, required
from sandbox.kubernetes_rules.names import invalid_value
from sandbox.kubernetes_rules.statuses import Cause, CauseReason

_NODE_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_LABEL_OPERATORS = _NODE_OPERATORS - {"Gt", "Lt"}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_LARGEST_WEIGHT = 100


def label_selector_causes(selector: Mapping[str, Any], path: str) -> list[Cause]:
    """Of a `matchLabels` / `matchExpressions` object."""
    causes = names.label_causes(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, each in enumerate(selector.get("matchExpressions") or []):
        causes += _expression_causes(each, f"{path}.matchExpressions[{index}]", _LABEL_OPERATORS)
    return causes


def _expression_causes(
    expression: Mapping[str, Any], path: str, operators: frozenset[str]
) -> list[Cause]:
    operator, values = expression.get("operator"), expression.get("values") or []
    key = expression.get("key") or ""
    causes = _value_count_causes(str(operator), values, f"{path}.values")
    if operator not in operators:
        problem = "not a valid selector operator"
        causes = [invalid_value(f"{path}.operator", operator or "", problem)]
    problems = names.qualified_name_problems(key)
    return causes + [invalid_value(f"{path}.key", key, each) for each in problems]


def _value_count_causes(operator: str, values: list[str], field: str) -> list[Cause]:
    if operator in {"In", "NotIn"} and not values:
        return [required(field, "must be specified when `operator` is 'In' or 'NotIn'")]
    if operator in {"Gt", "Lt"} and len(values) != 1:
        return [required(field, "must be specified single value when `operator` is 'Lt' or 'Gt'")]
    if operator in {"Exists", "DoesNotExist"} and values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [forbidden(field, why)]
    return []


def node_affinity_causes(affinity: Mapping[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    needed = affinity.get(_REQUIRED)
    if needed is not None:
        terms, field = (
            needed.get("nodeSelectorTerms") or [],
            f"{path}.{_REQUIRED}.nodeSelectorTerms",
        )
        if not terms:
            causes.append(required(field, "must have at least one node selector term"))
        for index, term in enumerate(terms):
            causes += _term_causes(term, f"{field}[{index}]")
    for index, each in enumerate(affinity.get(_PREFERRED) or []):
        field = f"{path}.{_PREFERRED}[{index}]"
        weight = each.get("weight") or 0
        if not 1 <= weight <= _LARGEST_WEIGHT:
            causes.append(invalid_value(f"{field}.weight", weight, "must be in the range 1-100"))
        causes += _term_causes(each.get("preference") or {}, f"{field}.preference")
    return causes


def _term_causes(term: Mapping[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, each in enumerate(term.get("matchExpressions") or []):
        causes += _expression_causes(each, f"{path}.matchExpressions[{index}]", _NODE_OPERATORS)
    for index, each in enumerate(term.get("matchFields") or []):
        causes += _field_causes(each, f"{path}.matchFields[{index}]")
    return causes


def _field_causes(expression: Mapping[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    if expression.get("operator") not in {"In", "NotIn"}:
        problem = "not a valid selector operator"
        causes.append(invalid_value(f"{path}.operator", expression.get("operator"), problem))
    elif len(expression.get("values") or []) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(Cause(CauseReason.REQUIRED, f"Required value: {why}", f"{path}.values"))
    if expression.get("key") != "metadata.name":
        problem = "not a valid field selector key"
        causes.append(invalid_value(f"{path}.key", expression.get("key"), problem))
    return causes
