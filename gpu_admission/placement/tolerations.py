"""Tolerations: those that the chosen GPUs' nodes need and that the pod's own do not cover."""

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_admission.catalogue import Toleration
from gpu_admission.gpu_request.shapes import mappings, text
from gpu_admission.review import Operation, added

_PATH = "/spec/tolerations"


def toleration_operations(spec: Mapping[str, Any], wanted: Iterable[Toleration]) -> list[Operation]:
    """Append what is not tolerated yet, each once."""
    present = [each for _, each in mappings(spec.get("tolerations"))]
    missing: list[dict[str, str]] = []
    for toleration in wanted:
        if not any(covers(each, toleration) for each in (*present, *missing)):
            missing.append(dict(toleration))
    if not missing:
        return []
    if isinstance(spec.get("tolerations"), list):
        return [added(f"{_PATH}/-", each) for each in missing]
    return [added(_PATH, missing)]


def covers(present: Mapping[str, Any], wanted: Toleration) -> bool:
    """Whether every taint that `wanted` tolerates is tolerated by `present`, for ever.

    An empty effect means every effect; an empty key with Exists means every taint.
    """
    if present.get("tolerationSeconds") is not None and present.get("effect") != "NoSchedule":
        return False
    if present.get("effect") and present.get("effect") != wanted.get("effect"):
        return False
    exists = present.get("operator") == "Exists"
    if not present.get("key"):
        return exists
    if present["key"] != wanted.get("key"):
        return False
    if exists:
        return True
    equal = text(present.get("operator")) in {"", "Equal"} and wanted["operator"] == "Equal"
    return equal and (present.get("value") or "") == wanted.get("value", "")
