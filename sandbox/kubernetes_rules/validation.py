"""What the API server demands of an object before it is stored: the causes of a 422, in its words. Pure.

Built-in kinds here and in `pod_validation`; a custom resource's schema in `schemas`. Only what people hit is checked; a
condition's status may be any text, as with the real server.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sandbox.kubernetes_rules import metadata, names, pod_validation
from sandbox.kubernetes_rules.field_checks import at_least, forbidden, one_of, required, unchanged
from sandbox.kubernetes_rules.job_validation import (
    job_causes,
    job_status_causes,
    job_update_causes,
)
from sandbox.kubernetes_rules.names import invalid_value
from sandbox.kubernetes_rules.resources import ResourceType
from sandbox.kubernetes_rules.selector_validation import label_selector_causes
from sandbox.kubernetes_rules.selectors import structured
from sandbox.kubernetes_rules.statuses import Cause, CauseReason

_Check = Callable[[Mapping[str, Any]], list[Cause]]
_UpdateCheck = Callable[[Mapping[str, Any], Mapping[str, Any]], list[Cause]]
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_HIGHEST_PRIORITY = 10**9
_SYSTEM_PRIORITIES = frozenset({"system-node-critical", "system-cluster-critical"})
_WHOLE = 100
_CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or"
    " 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def check_create(obj: Mapping[str, Any], kind: ResourceType) -> list[Cause]:
    """All that is wrong with a new object, after defaults; empty when it may be stored."""
    metadata.check_shape(obj, kind)
    check = None if kind.custom else _CREATE.get((kind.group, kind.kind))
    with metadata.read_as(kind):
        return metadata.create_causes(obj, kind) + (check(obj) if check else [])


def check_update(
    current: Mapping[str, Any],
    new: Mapping[str, Any],
    kind: ResourceType,
    *,
    subresource: str | None = None,
) -> list[Cause]:
    """All that is wrong with `new` in place of `current`; both complete, as prepared."""
    metadata.check_shape(new, kind)
    with metadata.read_as(kind):
        return _update_causes(current, new, kind, subresource)


def _update_causes(
    current: Mapping[str, Any],
    new: Mapping[str, Any],
    kind: ResourceType,
    subresource: str | None,
) -> list[Cause]:
    causes = metadata.update_causes(current, new) + metadata.create_causes(new, kind)
    if kind.custom:
        return causes
    key = (kind.group, kind.kind)
    if subresource == "status":
        return causes + (job_status_causes(new) if kind.kind == "Job" else [])
    changed = _UPDATE.get(key)
    causes += changed(current, new) if changed else []
    check = None if kind.kind == "Pod" else _CREATE.get(key)
    return causes + (check(new) if check else [])


def _node(node: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[Any, Any]] = set()
    for index, taint in enumerate((node.get("spec") or {}).get("taints") or []):
        path = f"metadata.taints[{index}]"  # where the real server looks for them, too
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        problems = names.qualified_name_problems(key)
        causes += [invalid_value(f"{path}.key", key, each) for each in problems]
        value = taint.get("value") or ""
        problems = names.label_value_problems(value)
        causes += [invalid_value(f"{path}.value", value, each) for each in problems]
        causes += _effect(effect, f"{path}.effect")
        if (key, effect) in seen:
            causes.append(_duplicate_taint(taint, path))
        seen.add((key, effect))
    return causes


def _effect(effect: str, field: str) -> list[Cause]:
    return one_of(effect, _EFFECTS, field) if effect else [required(field)]


def _duplicate_taint(taint: Mapping[str, Any], path: str) -> Cause:
    key, value, effect = (taint.get(part) or "" for part in ("key", "value", "effect"))
    told = f'{{"Key":"{key}","Value":"{value}","Effect":"{effect}","TimeAdded":null}}'
    message = f"Duplicate value: {told}: taints must be unique by key and effect pair"
    return Cause(CauseReason.DUPLICATE, message, path)


def _node_update(current: Mapping[str, Any], new: Mapping[str, Any]) -> list[Cause]:
    old, fresh = current.get("spec") or {}, new.get("spec") or {}
    causes: list[Cause] = []
    for part, field in (("podCIDR", "podCIDRs"), ("providerID", "providerID")):
        if old.get(part) and fresh.get(part) != old[part]:
            why = f'node updates may not change {part} except from "" to valid'
            causes.append(forbidden(f"spec.{field}", why))
    return causes


def _pod(pod: Mapping[str, Any]) -> list[Cause]:
    return pod_validation.spec_causes(pod.get("spec") or {})


def _budget(budget: Mapping[str, Any]) -> list[Cause]:
    spec = budget.get("spec") or {}
    causes: list[Cause] = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        both = "minAvailable and maxUnavailable cannot be both set"
        causes.append(invalid_value("spec", _Bare("{...}"), both))
    for part in ("minAvailable", "maxUnavailable"):
        causes += _count_or_percent(spec.get(part), f"spec.{part}")
    causes += label_selector_causes(spec.get("selector") or {}, "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    return causes + one_of(
        policy, ("AlwaysAllow", "IfHealthyBudget"), "spec.unhealthyPodEvictionPolicy"
    )


class _Bare:
    """A text that a message shows without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


def _count_or_percent(value: Any, field: str) -> list[Cause]:
    if not isinstance(value, str):
        return at_least(value, 0, field)
    number = value.removesuffix("%")
    if number == value or not number.isdecimal():
        problem = (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used"
            " for validation is '[0-9]+%')"
        )
        return [invalid_value(field, value, problem)]
    if int(number) > _WHOLE:
        return [invalid_value(field, value, "must not be greater than 100%")]
    return []


def _lease(lease: Mapping[str, Any]) -> list[Cause]:
    spec = lease.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    causes: list[Cause] = []
    if seconds is not None and seconds <= 0:
        causes.append(invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    return causes + at_least(spec.get("leaseTransitions"), 0, "spec.leaseTransitions")


def _priority_class(item: Mapping[str, Any]) -> list[Cause]:
    name, value = item["metadata"].get("name") or "", item.get("value") or 0
    causes: list[Cause] = []
    if name.startswith("system-"):
        if name not in _SYSTEM_PRIORITIES:
            why = (
                "priority class names with 'system-' prefix are reserved for system use only. error:"
                f" {name} is not a known system priority class"
            )
            causes.append(forbidden("metadata.name", why))
    elif value > _HIGHEST_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        causes.append(forbidden("value", why))
    policy = item.get("preemptionPolicy")
    return causes + one_of(policy, ("PreemptLowerPriority", "Never"), "preemptionPolicy")


def _priority_class_update(current: Mapping[str, Any], new: Mapping[str, Any]) -> list[Cause]:
    changed = current.get("value") != new.get("value")
    return [forbidden("value", "may not be changed in an update.")] if changed else []


def _event(event: Mapping[str, Any]) -> list[Cause]:
    about = (event.get("involvedObject") or {}).get("namespace") or "default"
    if about != event["metadata"].get("namespace"):
        problem = "does not match event.namespace"
        return [invalid_value("involvedObject.namespace", about, problem)]
    return []


def _config_map(item: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    for part in ("data", "binaryData"):
        for key in item.get(part) or {}:
            field = f"{part}[{key}]"
            if key in {".", ".."}:
                causes.append(invalid_value(field, key, f"must not be '{key}'"))
            elif not key or not all(c.isascii() and (c.isalnum() or c in "-._") for c in key):
                causes.append(invalid_value(field, key, _CONFIG_KEY))
    return causes


def _config_map_update(current: Mapping[str, Any], new: Mapping[str, Any]) -> list[Cause]:
    if not current.get("immutable"):
        return []
    parts = [part for part in ("data", "binaryData") if current.get(part) != new.get(part)]
    if not new.get("immutable"):
        parts.insert(0, "immutable")
    return [forbidden(each, "field is immutable when `immutable` is set") for each in parts]


def _workload(item: Mapping[str, Any]) -> list[Cause]:
    spec = item.get("spec") or {}
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    causes = at_least(spec.get("replicas"), 0, "spec.replicas")
    selector = spec.get("selector")
    if selector is None:
        causes.append(required("spec.selector"))
    else:
        causes += label_selector_causes(selector, "spec.selector")
        if not causes and not structured(selector).matches(labels):
            problem = "`selector` does not match template `labels`"
            causes.append(
                invalid_value("spec.template.metadata.labels", _Bare(_go_map(labels)), problem)
            )
    return causes + pod_validation.spec_causes(template.get("spec") or {}, "spec.template.spec")


def _go_map(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'"{k}":"{v}"' for k, v in sorted(labels.items())) + "}"


def _workload_update(current: Mapping[str, Any], new: Mapping[str, Any]) -> list[Cause]:
    return unchanged(current.get("spec") or {}, new.get("spec") or {}, ("selector",), "spec")


_WORKLOADS = tuple(("apps", k) for k in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"))
_CREATE: dict[tuple[str, str], _Check] = {
    ("", "Node"): _node,
    ("", "Pod"): _pod,
    ("", "ConfigMap"): _config_map,
    ("", "Event"): _event,
    ("batch", "Job"): job_causes,
    ("policy", "PodDisruptionBudget"): _budget,
    ("coordination.k8s.io", "Lease"): _lease,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    **dict.fromkeys(_WORKLOADS, _workload),
}
_UPDATE: dict[tuple[str, str], _UpdateCheck] = {
    ("", "Node"): _node_update,
    ("", "Pod"): pod_validation.update_causes,
    ("", "ConfigMap"): _config_map_update,
    ("batch", "Job"): job_update_causes,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class_update,
    **dict.fromkeys(_WORKLOADS, _workload_update),
}
